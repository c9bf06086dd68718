# Licensed under the Apache License, Version 2.0; see LICENSE.

# Cases for who may see what: mod_access_compat, mod_auth*, mod_authn_*, mod_authz_*, mod_ssl.

package HtCache::Cases::Access;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);

use HtCache::Cases::Make;

my $page   = { 'a.txt' => "hello\n" };
my $locked = { %$page, users => $PASSWORDS };
my @basic  = qw(auth_basic authn_core authn_file authz_core authz_user);
my $basic  = qq{AuthType Basic\nAuthName Demo\nAuthUserFile \@DIR@/users\n};

sub _alice { return get('a.txt', headers => { Authorization => 'Basic YWxpY2U6c2VjcmV0' }, @_) }

sub _compat {
    my @page = (modules => ['access_compat'], files => $page);
    return (
        share('mod_access_compat.c', 'order', @page,
            htaccess => "Order allow,deny\n",
            requests => [get('a.txt', status => 403)]),
        share('mod_access_compat.c', 'allow', @page,
            htaccess => "Order allow,deny\nAllow from 127.0.0.0/8 ::1\n",
            requests => [get('a.txt')]),
        share('mod_access_compat.c', 'allow', variant => 'env', files => $page,
            modules  => ['access_compat', 'setenvif'],
            htaccess => qq{SetEnvIf User-Agent "^friend" let_in\nOrder deny,allow\n}
                . qq{Deny from all\nAllow from env=let_in\n},
            requests => [
                get('a.txt', headers => { 'User-Agent' => 'friend/1' }),
                get('a.txt', headers => { 'User-Agent' => 'foe/1' }, status => 403),
            ]),
        share('mod_access_compat.c', 'deny', @page,
            htaccess => "Order deny,allow\nDeny from all\n",
            requests => [get('a.txt', status => 403)]),
        share('mod_access_compat.c', 'Satisfy', modules => ['access_compat', @basic],
            files    => $locked,
            htaccess => "${basic}Require valid-user\nOrder deny,allow\nAllow from all\n"
                . "Satisfy Any\n",
            requests => [get('a.txt')]),
    );
}

sub _basic {
    my @locked = (modules => \@basic, files => $locked);
    return (
        share('mod_authn_core.c', 'AuthName', @locked,
            htaccess => "AuthType Basic\nAuthUserFile \@DIR@/users\nRequire valid-user\n"
                . qq{AuthName "Members Only"\n},
            requests => [
                get('a.txt', status => 401, header => { 'WWW-Authenticate' => qr/"Members Only"/ }),
                login('a.txt'),
            ]),
        share('mod_authn_core.c', 'AuthType', @locked,
            htaccess => "AuthType Basic\nAuthName Demo\nAuthUserFile \@DIR@/users\n"
                . "Require valid-user\n",
            requests => [get('a.txt', status => 401), login('a.txt')]),
        share('mod_authn_core.c', 'AuthType', variant => 'none', @locked,
            parent   => "${basic}Require valid-user\n",
            htaccess => "AuthType None\nRequire all granted\n",
            control  => "Require user nobody\n",
            requests => [get('a.txt')]),
        share('mod_authn_file.c', 'AuthUserFile', @locked,
            htaccess => "${basic}Require valid-user\n",
            requests => [
                login('a.txt'),
                get('a.txt', headers => { Authorization => 'Basic Ym9iOndyb25n' }, status => 401,
                    log => qr/Password Mismatch/),
            ]),
        share('mod_auth_basic.c', 'AuthBasicProvider', files => $page,
            modules  => [@basic, 'authn_anon'],
            htaccess => "AuthType Basic\nAuthName Demo\nAnonymous guest\nAuthBasicProvider anon\n"
                . "Require valid-user\n",
            requests => [
                get('a.txt', headers => { Authorization => 'Basic Z3Vlc3Q6YUBiLmM=' }),
            ]),
        share('mod_auth_basic.c', 'AuthBasicAuthoritative', @locked,
            htaccess => "${basic}Require valid-user\nAuthBasicAuthoritative Off\n",
            requests => [
                login('a.txt'),
                get('a.txt', headers => { Authorization => 'Basic bm9ib2R5OngK' }, status => 500),
            ]),
        share('mod_auth_basic.c', 'AuthBasicFake', modules => [@basic, 'headers'], files => $page,
            htaccess => qq{AuthBasicFake demo %{HTTP:X-Word}\n}
                . qq{Header set X-Case "expr=%{HTTP:Authorization}"\n},
            requests => [
                get('a.txt', headers => { 'X-Word' => 'pass' },
                    header => { 'X-Case' => qr/^Basic ZGVtbzpwYXNz$/ }),
            ]),
        share('mod_auth_basic.c', 'AuthBasicUseDigestAlgorithm', modules => \@basic,
            files    => { %$page, users => 'bob:Demo:' . md5_hex('bob:Demo:secret') . "\n" },
            htaccess => "${basic}Require valid-user\nAuthBasicUseDigestAlgorithm MD5\n",
            requests => [login('a.txt')]),
    );
}

sub _anonymous {
    my $anon = "AuthType Basic\nAuthName Demo\nAuthBasicProvider anon\nRequire valid-user\n";
    my $as   = sub {
        my ($credentials, @must) = @_;
        return get('a.txt', headers => { Authorization => "Basic $credentials" }, @must);
    };
    my @page = (modules => [@basic, 'authn_anon'], files => $page);
    my ($guest_mail, $guest_word, $guest, $mail) = qw(Z3Vlc3Q6YUBiLmM= Z3Vlc3Q6d29yZA==
        Z3Vlc3Q6 OmFAYi5j);    # guest:a@b.c guest:word guest: :a@b.c
    return (
        share('mod_authn_anon.c', 'Anonymous', @page,
            htaccess => "${anon}Anonymous guest visitor\n",
            requests => [$as->($guest_mail), login('a.txt', status => 401)]),
        share('mod_authn_anon.c', 'Anonymous_MustGiveEmail', @page,
            htaccess => "${anon}Anonymous guest\nAnonymous_MustGiveEmail Off\n",
            requests => [$as->($guest)]),
        share('mod_authn_anon.c', 'Anonymous_NoUserId', @page,
            htaccess => "${anon}Anonymous guest\nAnonymous_NoUserId On\n",
            requests => [$as->($mail)]),
        share('mod_authn_anon.c', 'Anonymous_VerifyEmail', @page,
            htaccess => "${anon}Anonymous guest\nAnonymous_VerifyEmail On\n",
            requests => [$as->($guest_mail), $as->($guest_word, status => 401)]),
    );
}

sub _dbm {
    my %files = (
        %$page,
        words => { dbm => { bob => '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=' } },
        teams => { dbm => { bob => 'staff' } },
    );
    my $words = "AuthType Basic\nAuthName Demo\nAuthBasicProvider dbm\nRequire valid-user\n";
    my $teams = "${basic}AuthDBMGroupFile \@DIR@/teams\nRequire dbm-group staff\n";
    my @words = (modules => [@basic, 'authn_dbm'], files => \%files);
    my @teams = (modules => [@basic, 'authz_dbm'], files => { %files, users => $PASSWORDS });
    return (
        share('mod_authn_dbm.c', 'AuthDBMUserFile', @words,
            htaccess => "${words}AuthDBMType SDBM\nAuthDBMUserFile \@DIR@/words\n",
            control  => "${words}AuthDBMType SDBM\nAuthDBMUserFile \@DIR@/none\n",
            requests => [login('a.txt'), get('a.txt', status => 401)]),
        share('mod_authn_dbm.c', 'AuthDBMType', @words,
            htaccess => "${words}AuthDBMUserFile \@DIR@/words\nAuthDBMType SDBM\n",
            control  => "${words}AuthDBMUserFile \@DIR@/words\nAuthDBMType none\n",
            requests => [login('a.txt')]),
        share('mod_authz_dbm.c', 'AuthDBMGroupFile', @teams,
            htaccess => "${teams}AuthzDBMType SDBM\n",
            requests => [login('a.txt'), _alice(status => 401)]),
        share('mod_authz_dbm.c', 'AuthzDBMType', @teams,
            htaccess => "${teams}AuthzDBMType SDBM\n",
            control  => "${teams}AuthzDBMType none\n",
            requests => [login('a.txt')]),
        share('mod_authz_core.c', 'Require', variant => 'dbm-file-group',
            modules  => [@basic, 'authz_dbm', 'authz_owner'],
            files    => { %files, users => $PASSWORDS },
            htaccess => "${teams}AuthzDBMType SDBM\nRequire dbm-file-group\n",
            control  => "${basic}Require dbm-file-group\n",
            requests => [login('a.txt')]),
    );
}

# One case for every provider whose arguments may be shared.
sub _providers {
    my $case = sub {
        my ($provider, $modules, $htaccess, @requests) = @_;
        return share('mod_authz_core.c', 'Require', variant => $provider, files => $locked,
            modules => ['authz_core', @$modules], htaccess => $htaccess, requests => \@requests);
    };
    my $no = sub { get('a.txt', status => 403) };
    return (
        $case->('all', [], "Require all denied\n", $no->()),
        $case->('env', ['setenvif'], qq{SetEnvIf X-Key "^open\$" ok\nRequire env ok\n},
            get('a.txt', headers => { 'X-Key' => 'open' }), $no->()),
        $case->('expr', [], qq{Require expr "%{HTTP:X-Key} == 'open'"\n},
            get('a.txt', headers => { 'X-Key' => 'open' }), $no->()),
        $case->('method', [], "Require method GET\n",
            get('a.txt'), post('a.txt', body => 'x', status => 403)),
        $case->('ip', ['authz_host'], "Require ip 192.0.2.0/24 2001:db8::/32\n", $no->()),
        $case->('host', ['authz_host'], "Require host example.invalid\n", $no->()),
        $case->('forward-dns', ['authz_host'], "Require forward-dns 192.0.2.1\n", $no->()),
        $case->('local', ['authz_host'],
            "<RequireAll>\nRequire all granted\nRequire not local\n</RequireAll>\n", $no->()),
        $case->('user', \@basic, "${basic}Require user bob carol\n",
            login('a.txt'), _alice(status => 401)),
        $case->('valid-user', \@basic, "${basic}Require valid-user\n",
            login('a.txt'), get('a.txt', status => 401)),
        $case->('file-owner', [@basic, 'authz_owner'], "${basic}Require file-owner\n",
            _alice(status => 401)),
        $case->('ssl', ['ssl'], "Require ssl\n", $no->()),
        $case->('ssl-verify-client', ['ssl'], "Require ssl-verify-client\n", $no->()),
    );
}

sub _authorization {
    my %groups = (%$locked, groups => "staff: bob\n");
    my @groups = (modules => [@basic, 'authz_groupfile'], files => \%groups);
    my @page   = (modules => ['authz_core'], files => $page);
    my $key    = sub {qq{Require expr "%{HTTP:X-Key} == '$_[0]'"\n}};
    my $with   = sub { my ($key, @must) = @_; get('a.txt', headers => { 'X-Key' => $key }, @must) };
    return (
        share('mod_authz_groupfile.c', 'AuthGroupFile', @groups,
            htaccess => "${basic}AuthGroupFile \@DIR@/groups\nRequire group staff\n",
            requests => [login('a.txt'), _alice(status => 401)]),
        share('mod_authz_core.c', 'Require', variant => 'file-group',
            modules  => [@basic, 'authz_groupfile', 'authz_owner'], files => \%groups,
            htaccess => "${basic}AuthGroupFile \@DIR@/groups\nRequire file-group\n",
            requests => [_alice(status => 401)]),
        share('mod_authz_core.c', '<RequireAll', @page,
            htaccess => "<RequireAll>\n@{[$key->('a')]}Require method GET\n</RequireAll>\n",
            requests => [$with->('a'), $with->('b', status => 403)]),
        share('mod_authz_core.c', '<RequireAny', @page,
            htaccess => "<RequireAny>\n@{[$key->('a'), $key->('b')]}</RequireAny>\n",
            requests => [$with->('a'), $with->('b'), $with->('c', status => 403)]),
        share('mod_authz_core.c', '<RequireNone', @page,
            htaccess => "<RequireAll>\nRequire all granted\n<RequireNone>\n"
                . "@{[$key->('a'), $key->('b')]}</RequireNone>\n</RequireAll>\n",
            requests => [$with->('c'), $with->('a', status => 403)]),
        share('mod_authz_core.c', 'AuthMerging', @page,
            parent   => $key->('a'),
            htaccess => "AuthMerging And\nRequire method GET\n",
            requests => [$with->('a'), $with->('b', status => 403)]),
        share('mod_authz_core.c', 'AuthzSendForbiddenOnFailure', modules => \@basic,
            files => $locked,
            htaccess => "${basic}Require user bob\nAuthzSendForbiddenOnFailure On\n",
            requests => [login('a.txt'), _alice(status => 403)]),
        replay('mod_ssl.c', 'SSLRequireSSL', modules => ['ssl'], files => $page,
            htaccess => "SSLRequireSSL\n",
            requests => [get('a.txt', status => 403)]),
    );
}

sub _form {
    my $form = "AuthFormProvider file\nAuthType form\nAuthName Demo\nAuthUserFile \@DIR@/users\n"
        . "Session On\nSessionCookieName demo path=/\nRequire valid-user\n";
    my @form = (
        modules => [@basic, qw(auth_form request session session_cookie)],
        files    => { %$locked, 'env.shtml' => qq{<!--#echo var="HTTP_AUTHORIZATION" -->\n} },
    );
    my $fill = sub {
        my ($body, @must) = @_;
        return post('a.txt', body => $body, @must,
            headers => { 'Content-Type' => 'application/x-www-form-urlencoded' });
    };
    my $bob   = 'httpd_username=bob&httpd_password=secret';
    my $stay  = 'httpd_method=POST&httpd_mimetype=text/plain&httpd_body=kept';
    my $case  = sub {
        my ($directive, $line, @requests) = @_;
        return share('mod_auth_form.c', $directive, @form,
            htaccess => "$form$directive $line\n", requests => \@requests);
    };
    my $pass  = md5_hex('eve:pass');
    my $known = { Cookie => 'demo=Demo-user=bob&Demo-pw=secret' };
    my $went  = sub { return (status => 302, header => { Location => qr/$_[0]$/ }) };
    return (
        share('mod_auth_form.c', 'AuthFormProvider', @form,
            htaccess => $form, control => $form =~ s/AuthFormProvider file/AuthFormProvider anon/r,
            modules  => [@basic, qw(auth_form request session session_cookie authn_anon)],
            requests => [get('a.txt', headers => $known), get('a.txt', status => 401)]),
        $case->('AuthFormUsername', "who\nAuthFormLoginSuccessLocation /in",
            $fill->('who=bob&httpd_password=secret', $went->('/in'))),
        $case->('AuthFormPassword', "word\nAuthFormLoginSuccessLocation /in",
            $fill->('httpd_username=bob&word=secret', $went->('/in'))),
        $case->('AuthFormLocation', 'next', $fill->("$bob&next=/in", $went->('/in'))),
        $case->('AuthFormLoginRequiredLocation', 'http://login.example/?%{REQUEST_URI}',
            get('a.txt', $went->('/a\.txt'))),
        $case->('AuthFormLoginSuccessLocation', 'http://in.example/', $fill->($bob, $went->('/'))),
        $case->('AuthFormAuthoritative', 'Off',
            get('a.txt', status => 500, headers => { Cookie => 'demo=Demo-user=eve&Demo-pw=x' })),
        { %{ $case->('AuthFormDisableNoStore', 'On',
            get('a.txt', status => 401, absent => ['Cache-Control'])) }, since => 41 },
        $case->('AuthFormSitePassphrase', 'pass',
            get('a.txt', headers => { Cookie => "demo=Demo-user=eve&Demo-pw=x&Demo-site=$pass" })),
        share('mod_auth_form.c', 'AuthFormFakeBasicAuth', @form,
            modules  => [@basic, qw(auth_form request session session_cookie include)],
            htaccess => "${form}Options +Includes\nSetOutputFilter INCLUDES\nCGIPassAuth On\n"
                . "AuthFormFakeBasicAuth On\n",
            requests => [get('env.shtml', headers => $known,
                answer => qr/^Basic Ym9iOnNlY3JldA==$/)]),
        share('mod_auth_form.c', 'AuthFormLogoutLocation', @form,
            htaccess => "${form}SetHandler form-logout-handler\nAuthFormLogoutLocation /bye\n",
            requests => [
                get('a.txt', headers => $known, status => 307, header => { Location => qr{/bye$} }),
            ]),
        $case->('AuthFormMethod', 'how',
            $fill->("$bob&how=PUT&httpd_mimetype=text/plain&httpd_body=x", status => 405)),
        map {
            my ($directive, $field, $name) = @$_;
            share('mod_auth_form.c', $directive, @form,
                modules  => [@basic, qw(auth_form request session session_cookie reflector)],
                htaccess => "${form}SetHandler reflector\n$directive $field\n",
                volatile => [qr/^Last-Modified: (.*)/m],
                requests => [$fill->("$bob&" . $stay =~ s/$name=/$field=/r, answer => qr/^kept$/)]);
        } (['AuthFormMimetype', 'kind', 'httpd_mimetype'], ['AuthFormBody', 'rest', 'httpd_body']),
    );
}

sub cases {
    return (_compat(), _basic(), _anonymous(), _dbm(), _providers(), _authorization(), _form());
}

1;
