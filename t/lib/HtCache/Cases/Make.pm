# Licensed under the Apache License, Version 2.0; see LICENSE.

# Constructors for the case lists beside this file: each returns the hash that the documentation of
# HtCache::Cases describes. Used by nobody else.

package HtCache::Cases::Make;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(share replay stock refused get post request login $BOB $PASSWORDS);

# A password file for mod_authn_file: bob and alice, both with the password "secret".
our $PASSWORDS = join '', map {"$_:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"} qw(bob alice);

# What a browser sends for bob.
our $BOB = 'Basic Ym9iOnNlY3JldA==';

sub _case {
    my ($class, $module, $directive, %rest) = @_;
    my $variant = delete $rest{variant};
    my @refused = $class eq 'refused' ? 'refused' : ();
    my $name    = lc join '-', @refused, $module =~ s/^mod_|\.c$//gr, $directive, $variant // ();
    $name =~ s/[^a-z0-9_-]+//g;
    return {
        name      => $name,
        class     => $class,
        module    => $module,
        directive => $directive,
        modules   => [],
        files     => {},
        %rest,
    };
}

sub share   { return _case('share',   @_) }
sub replay  { return _case('replay',  @_) }
sub stock   { return _case('stock',   @_) }
sub refused { return _case('refused', @_) }

# request('PUT', 'path', headers => {}, body => '', files => {}, status => 200, ...): whatever is
# not part of the request itself is what must be seen in the answer; "answer" is its body.
sub request {
    my ($method, $path, %rest) = @_;
    my %request = (method => $method, path => $path, headers => delete $rest{headers} // {});
    for my $key (qw(body files)) {
        $request{$key} = delete $rest{$key} if exists $rest{$key};
    }
    $rest{body} = delete $rest{answer} if exists $rest{answer};
    return { %request, must => { status => 200, %rest } };
}

sub get  { return request('GET',  @_) }
sub post { return request('POST', @_) }

# A GET with bob's password.
sub login {
    my ($path, %rest) = @_;
    return get($path, headers => { Authorization => $BOB }, %rest);
}

1;
