/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where htcachectl looks for the status page when nobody says it: the path of the installed
 * htcache.conf, the Listen lines beside it, and which of them anything listens at.
 */
#include "pool_fixture.h"
#include "tool/places.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>

static char top[] = "/tmp/htcache-places-XXXXXX";

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(apr_pstrcat(pool, top, "/", name, NULL), "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static const char *places_of(const char *conf)
{
    return tool_place_names(tool_places(apr_pstrcat(pool, top, "/", conf, NULL), pool), pool);
}

START_TEST(nothing_is_there)
{
    ck_assert_str_eq(places_of("nowhere/htcache.conf"),
                     "http://127.0.0.1/htcache-status or https://127.0.0.1/htcache-status");
}
END_TEST

START_TEST(debian)
{
    write_text("mods/htcache.conf", "#HtCache On\n<Location \"/here\">\nSetHandler htcache-status\n"
                                    "</Location>\n<Location /other>\nSetHandler server-status\n"
                                    "</Location>\n");
    write_text("ports.conf",
               "Listen 80\nListen 8080\n<IfModule ssl_module>\n  Listen 443\n  Listen 4433 https\n"
               "</IfModule>\nListen 192.0.2.1:81\nlisten [::]:82\nListen 0.0.0.0:83 http\n"
               "Listen [2001:db8::1]:8443\nListen nonsense\nListen 99999\nListen\n#Listen 84\n");
    ck_assert_str_eq(places_of("mods/htcache.conf"),
                     "http://127.0.0.1/here, http://127.0.0.1:8080/here, https://127.0.0.1/here, "
                     "https://127.0.0.1:4433/here, http://192.0.2.1:81/here, http://[::1]:82/here, "
                     "http://127.0.0.1:83/here or https://[2001:db8::1]:8443/here");
    unlink(apr_pstrcat(pool, top, "/ports.conf", NULL));
}
END_TEST

START_TEST(others)
{
    write_text("mods/htcache.conf", "");
    write_text("conf/httpd.conf", "ServerRoot x\nListen 8001\n");
    ck_assert_str_eq(places_of("mods/htcache.conf"),
                     "http://127.0.0.1/htcache-status, http://127.0.0.1:8001/htcache-status or "
                     "https://127.0.0.1/htcache-status");
    ck_assert_str_eq(places_of("conf/htcache.conf"),
                     "http://127.0.0.1/htcache-status, http://127.0.0.1:8001/htcache-status or "
                     "https://127.0.0.1/htcache-status");
    unlink(apr_pstrcat(pool, top, "/conf/httpd.conf", NULL));
}
END_TEST

START_TEST(many_and_large)
{
    const char *lines = "";

    for (int i = 0; i < 1000; i++)
        lines = apr_psprintf(pool, "%sListen %d\n", i % 100 ? lines : "", 2000 + i);
    write_text("ports.conf", lines);
    ck_assert_int_le(tool_places(apr_pstrcat(pool, top, "/mods/htcache.conf", NULL), pool)->nelts,
                     16);
    unlink(apr_pstrcat(pool, top, "/ports.conf", NULL));
    ck_assert_int_eq(mkdir(apr_pstrcat(pool, top, "/ports.conf", NULL), 0700), 0);
    ck_assert_int_eq(tool_places(apr_pstrcat(pool, top, "/mods/htcache.conf", NULL), pool)->nelts,
                     2);
    rmdir(apr_pstrcat(pool, top, "/ports.conf", NULL));
}
END_TEST

/* A port that is open, and one that was. */
START_TEST(the_first_that_listens)
{
    apr_port_t ports[2];
    apr_socket_t *sockets[2];
    apr_array_header_t *places = apr_array_make(pool, 2, sizeof(tool_place));

    for (int i = 0; i < 2; i++) {
        apr_sockaddr_t *address;

        ck_assert_int_eq(apr_sockaddr_info_get(&address, "127.0.0.1", APR_INET, 0, 0, pool), 0);
        ck_assert_int_eq(apr_socket_create(&sockets[i], APR_INET, SOCK_STREAM, APR_PROTO_TCP, pool),
                         0);
        ck_assert_int_eq(apr_socket_bind(sockets[i], address), 0);
        ck_assert_int_eq(apr_socket_listen(sockets[i], 1), 0);
        ck_assert_int_eq(apr_socket_addr_get(&address, APR_LOCAL, sockets[i]), 0);
        ports[i] = address->port;
        APR_ARRAY_PUSH(places, tool_place) =
            (tool_place){i ? "second" : "first", "127.0.0.1", ports[i]};
    }
    ck_assert_str_eq(tool_listening(places, pool)->url, "first");
    apr_socket_close(sockets[0]);
    ck_assert_str_eq(tool_listening(places, pool)->url, "second");
    apr_socket_close(sockets[1]);
    ck_assert_ptr_null(tool_listening(places, pool));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tc = tcase_create("places");
    SRunner *runner = srunner_create(suite);
    int failed;

    if (!mkdtemp(top) || chdir(top) != 0 || mkdir("mods", 0700) != 0 || mkdir("conf", 0700) != 0)
        return EXIT_FAILURE;
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_is_there);
    tcase_add_test(tc, debian);
    tcase_add_test(tc, others);
    tcase_add_test(tc, many_and_large);
    tcase_add_test(tc, the_first_that_listens);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unlink("mods/htcache.conf");
    rmdir("mods");
    rmdir("conf");
    rmdir(top);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
