# Licensed under the Apache License, Version 2.0; see LICENSE.
# Modules for the tests, t/modules/mod_NAME.c, compiled for the httpd under test.
package HtCache::TestModule;
use strict;
use warnings;
use HtCache::Env qw(apxs_query t_dir);

# The LoadModule line of one, compiled in $dir, or (undef, why not).
sub load {
    my ($dir, $name) = @_;
    my ($cc) = grep { -x $_ } map { ("$_/cc", "$_/gcc") } split /:/, $ENV{PATH};
    return (undef, 'no C compiler') if !$cc;
    my $library = "$dir/mod_$name.so";
    my $apr     = qx{"@{[apxs_query('APR_CONFIG')]}" --includes --cppflags 2>/dev/null} =~ s/\s+/ /gr;
    my $said    = qx{"$cc" -std=gnu11 -O1 -shared -fPIC -I"@{[apxs_query('INCLUDEDIR')]}" $apr -o "$library" "@{[t_dir()]}/modules/mod_$name.c" 2>&1};
    return (undef, "mod_$name.c cannot be compiled here: $said") if $?;
    return "LoadModule ${name}_module \"$library\"\n";
}

1;
