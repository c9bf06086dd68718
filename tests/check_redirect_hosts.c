/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The host plan (rules/hosts.c), table-driven: in which servers lines are folded. Run by 'make
 * check'.
 */
#include "suite_util.h"
#include "rules/rules.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A host, in three letters: HtCache, HtCacheFold ('+' On, '-' Off, ' ' not said), 'p': a part of
 * it is left to httpd. The expected plan: 'L' its lines are folded, 'D' those of its
 * directories. */
typedef struct plan_row {
    const char *hosts[4];
    const char *plan[4];
    bool shared, later, all_dirs;
} plan_row;

static const plan_row rows[] = {
    /* One server. */
    {.hosts = {"   "}, .plan = {"  "}},
    {.hosts = {"+  "}, .plan = {"LD"}, .all_dirs = true},
    {.hosts = {"-  "}, .plan = {"  "}},
    {.hosts = {"+- "}, .plan = {"  "}},
    /* HtCacheFold On without HtCache: only what needs no cache. */
    {.hosts = {" + "}, .plan = {"L "}},
    {.hosts = {"-+ "}, .plan = {"L "}},
    {.hosts = {"+ p"}, .plan = {"L "}},
    {.hosts = {"+  "}, .plan = {"  "}, .later = true},
    /* Virtual hosts have the main server's settings unless they have their own. */
    {.hosts = {"+  ", "   "}, .plan = {"LD", "LD"}, .all_dirs = true},
    {.hosts = {"   ", "+  "}, .plan = {"  ", "LD"}},
    {.hosts = {"+- ", " + "}, .plan = {"  ", "LD"}},
    {.hosts = {" + ", "+  "}, .plan = {"L ", "LD"}},
    /* The main server's lines stand behind those of each host: folded when all hosts fold. */
    {.hosts = {"+  ", "-  "}, .plan = {" D", "  "}},
    {.hosts = {"+  ", " - ", "   "}, .plan = {" D", "  ", "LD"}},
    /* A part of one host concerns that host, a part of the main server all. */
    {.hosts = {"+  ", "  p", "   "}, .plan = {"LD", "L ", "LD"}},
    {.hosts = {"+ p", "   "}, .plan = {"L ", "L "}},
    /* Lines in sections outside of hosts belong to all. */
    {.hosts = {"+  ", "  p", "   "}, .plan = {"L ", "L ", "L "}, .shared = true},
    {.hosts = {"+  ", "-  ", "   "}, .plan = {"  ", "  ", "L "}, .shared = true},
    {.hosts = {"+  ", "   "}, .plan = {"LD", "LD"}, .shared = true, .all_dirs = true},
    {.hosts = {"+  ", "   "}, .plan = {"  ", "  "}, .shared = true, .later = true},
};

static int setting(char letter)
{
    return letter == '+' ? 1 : letter == '-' ? 0 : -1;
}

START_TEST(a_plan)
{
    const plan_row *row = &rows[_i];
    redirect_config_host hosts[4];
    size_t n = 0;

    for (; n < 4 && row->hosts[n]; n++)
        hosts[n] = (redirect_config_host){.cache = setting(row->hosts[n][0]),
                                          .fold = setting(row->hosts[n][1]),
                                          .parts = row->hosts[n][2] == 'p'};
    ck_assert_int_eq(redirect_config_plan_hosts(hosts, n, row->shared, row->later), row->all_dirs);
    for (size_t i = 0; i < n; i++) {
        char plan[3] = {hosts[i].lines ? 'L' : ' ', hosts[i].dirs ? 'D' : ' ', 0};

        ck_assert_msg(!strcmp(plan, row->plan[i]), "row %d, host %zu: '%s', not '%s'", _i, i, plan,
                      row->plan[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_hosts");
    TCase *tc = tcase_create("hosts");

    tcase_add_loop_test(tc, a_plan, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
