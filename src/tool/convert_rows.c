/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What becomes of the rows of a list that is written: which are left out, of which something is
 * lost, and the reports of it. Rows may have several rules, and writers go through these in an order
 * of their own; so nothing is reported before all have been written. Called by convert_write(), its
 * writers, and tool/verify.c.
 */
#include "tool/convert_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <apr_hash.h>
#include <apr_strings.h>

static const convert_rule *rule_at(const convert_list *list, int i)
{
    return &APR_ARRAY_IDX(list->rules, i, convert_rule);
}

convert_rule *convert_list_at(convert_list *list, const convert_rule *r)
{
    return &APR_ARRAY_IDX(list->rules, r - (const convert_rule *)list->rules->elts, convert_rule);
}

/* The rule, as part of the list. */
static convert_rule *note(convert_list *list, const convert_rule *r, bool left_out,
                          const char *text)
{
    convert_loss loss = {.left_out = left_out, .text = text};

    loss.rule = (int)(r - (const convert_rule *)list->rules->elts);
    APR_ARRAY_PUSH(list->waiting, convert_loss) = loss;
    return convert_list_at(list, r);
}

void convert_lost(convert_list *list, const convert_rule *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(list, r, false, apr_pvsprintf(list->pool, format, args))->lost = true;
    va_end(args);
}

void convert_differs(convert_list *list, const convert_rule *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(list, r, false, apr_pvsprintf(list->pool, format, args))->differs = true;
    va_end(args);
}

void convert_warn(convert_list *list, const convert_rule *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(list, r, false, apr_pvsprintf(list->pool, format, args));
    APR_ARRAY_IDX(list->waiting, list->waiting->nelts - 1, convert_loss).warning = true;
    va_end(args);
}

bool convert_left_out(convert_list *list, const convert_rule *r, const char *format, ...)
{
    convert_rule *rule;
    va_list args;

    va_start(args, format);
    rule = note(list, r, true, apr_pvsprintf(list->pool, format, args));
    va_end(args);
    rule->lost = rule->left_out = true;
    return true;
}

void convert_no_rule(convert_list *list, const convert_row *row)
{
    APR_ARRAY_PUSH(list->no_rules, convert_row) = *row;
}

/* --- rows -------------------------------------------------------------------------------------*/

/* Of all rules of a row. */
typedef struct fate {
    bool written, lost;
} fate;

static fate *fate_of(apr_hash_t *fates, const convert_row *row)
{
    apr_pool_t *pool = apr_hash_pool_get(fates);
    convert_row *key = apr_pcalloc(pool, sizeof(*key)); /* with its padding */
    fate *found;

    key->file = row->file;
    key->line = row->line;
    key->part = row->part;
    found = apr_hash_get(fates, key, sizeof(*key));
    if (!found) {
        found = apr_pcalloc(pool, sizeof(*found));
        apr_hash_set(fates, key, sizeof(*key), found);
    }
    return found;
}

static fate *fate_of_rule(apr_hash_t *fates, const convert_rule *r)
{
    return fate_of(fates, &(convert_row){r->file, r->rule.line, r->part});
}

static apr_hash_t *fates_of(const convert_list *list, apr_pool_t *pool)
{
    apr_hash_t *fates = apr_hash_make(pool);

    for (int i = 0; i < list->rules->nelts; i++) {
        const convert_rule *r = rule_at(list, i);
        fate *row = fate_of_rule(fates, r);

        row->written |= !r->left_out;
        row->lost |= r->lost || r->differs;
    }
    return fates;
}

convert_rows convert_count_rows(const convert_list *list)
{
    convert_rows rows = {0};
    apr_hash_t *fates;
    apr_pool_t *pool;

    apr_pool_create(&pool, list->pool);
    fates = fates_of(list, pool);
    for (int i = 0; i < list->no_rules->nelts; i++) {
        const convert_row *row = &APR_ARRAY_IDX(list->no_rules, i, convert_row);

        fate_of(fates, row);
    }
    for (int i = 0; i < list->faults->nelts; i++)
        fate_of(fates, &APR_ARRAY_IDX(list->faults, i, convert_row))->lost = true;
    rows.read = apr_hash_count(fates);
    for (apr_hash_index_t *i = apr_hash_first(pool, fates); i; i = apr_hash_next(i)) {
        const fate *row = apr_hash_this_val(i);

        rows.whole += row->written && !row->lost;
        rows.partly += row->written && row->lost;
        rows.left_out += !row->written;
    }
    apr_pool_destroy(pool);
    return rows;
}

/* --- reports ----------------------------------------------------------------------------------*/

typedef struct said {
    const convert_loss *loss;
    const convert_rule *rule;
    int file; /* in the order in which they were read */
} said;

static int compare_places(const void *a, const void *b)
{
    const said *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->rule->rule.line != y->rule->rule.line)
        return x->rule->rule.line < y->rule->rule.line ? -1 : 1;
    if (x->rule->part != y->rule->part)
        return x->rule->part < y->rule->part ? -1 : 1;
    return x->loss < y->loss ? -1 : x->loss > y->loss;
}

static int number_of(apr_array_header_t *files, const char *file)
{
    int i = 0;

    while (i < files->nelts && APR_ARRAY_IDX(files, i, const char *) != file)
        i++;
    if (i == files->nelts)
        APR_ARRAY_PUSH(files, const char *) = file;
    return i;
}

static said *sorted_losses(const convert_list *list, apr_pool_t *pool)
{
    size_t n = (size_t)list->waiting->nelts;
    said *all = apr_palloc(pool, (n + 1) * sizeof(*all));
    apr_array_header_t *files = apr_array_make(pool, 4, sizeof(const char *));

    for (int i = 0; i < list->rules->nelts; i++)
        number_of(files, rule_at(list, i)->file);
    for (size_t i = 0; i < n; i++) {
        const convert_loss *loss = &APR_ARRAY_IDX(list->waiting, i, convert_loss);
        const convert_rule *r = rule_at(list, loss->rule);

        all[i] = (said){loss, r, number_of(files, r->file)};
    }
    qsort(all, n, sizeof(*all), compare_places);
    return all;
}

static bool same_row(const said *a, const said *b)
{
    return a->file == b->file && a->rule->rule.line == b->rule->rule.line &&
           a->rule->part == b->rule->part;
}

/* The rules of a row often lose the same. */
static bool was_said(const said *all, size_t i)
{
    for (size_t k = i; k-- > 0 && same_row(&all[k], &all[i]);) {
        if (all[k].loss->left_out == all[i].loss->left_out &&
            !strcmp(all[k].loss->text, all[i].loss->text))
            return true;
    }
    return false;
}

/* A loss that was found as the row was read may be of a rule that is left out. */
static const char *what_became(const said *one, apr_hash_t *fates)
{
    if (!one->loss->left_out && !one->rule->left_out)
        return "it was written all the same";
    return fate_of_rule(fates, one->rule)->written ? "the rest of the row was written"
                                                   : "it was left out";
}

void convert_report_losses(convert_list *list)
{
    size_t n = (size_t)list->waiting->nelts;
    apr_hash_t *fates;
    apr_pool_t *pool;
    said *all;

    if (!n)
        return;
    apr_pool_create(&pool, list->pool);
    fates = fates_of(list, pool);
    all = sorted_losses(list, pool);
    for (size_t i = 0; i < n; i++) {
        const convert_rule *r = all[i].rule;

        if (was_said(all, i))
            continue;
        if (all[i].loss->warning)
            convert_report(list, REDIRECT_WARNING, r->file, r->rule.line, "%s", all[i].loss->text);
        else
            convert_report(list, REDIRECT_ERROR, r->file, r->rule.line, "%s; %s", all[i].loss->text,
                           what_became(&all[i], fates));
    }
    apr_array_clear(list->waiting);
    apr_pool_destroy(pool);
}
