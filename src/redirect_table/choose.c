/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which of the rules of one source answers, where conditions tell. Called by redirect_table.c with
 * the first of them that matches. They have one key, so they are in one posting. Most requests are
 * to sources without conditions and do not come here.
 */
#include "redirect_table/internal.h"
#include "base/base.h"

/* What is charged for a rule that was found: it takes its share of a walk over the path. */
#define STEPS_OF_RULE 4
#define BYTES_OF_STEP 256

/* Of a rule's source. */
typedef struct group {
    const redirect_table *table;
    redirect_judge *judge;
    const rt_record *first;
    const uint32_t *places;
    uint32_t n;
} group;

static bool same_query(const redirect_table *t, const rt_record *x, const rt_record *y)
{
    const char *strip = NULL;
    size_t strip_len = 0;

    if ((x->profile->has ^ y->profile->has) & REDIRECT_HAS_QUERY)
        return false;
    if (!(x->profile->has & REDIRECT_HAS_QUERY))
        return true;
    if (x->profile->strip != y->profile->strip)
        return false;
    if (x->query_len == y->query_len && !memcmp(x->query, y->query, x->query_len))
        return true;
    if (x->profile->strip)
        strip = rt_text(t, RT_STRIPS, x->profile->strip, &strip_len);
    return !(x->profile->flags & REDIRECT_QUERY_EXACT) &&
           rt_query_equal(x->query, x->query_len, y->query, y->query_len, strip, strip_len);
}

static bool same_source(const redirect_table *t, const rt_record *x, const rt_record *y)
{
    return x->profile->kind == y->profile->kind && x->profile->flags == y->profile->flags &&
           x->host == y->host && x->pattern == y->pattern && rt_same_source(x, y) &&
           same_query(t, x, y);
}

static bool counts(const redirect_judge *judge, uint32_t place, bool first)
{
    return !judge->left_out || !judge->left_out(judge->left_out_of, place, first);
}

/* The record of the group's member at `place`. False: it is of another source, or left out; or the
 * look-up has taken all its steps. */
static bool member(const group *g, uint32_t place, rt_record *r)
{
    g->judge->steps++;
    return !redirect_judge_is_over(g->judge) && rt_take(g->table, place, r) &&
           same_source(g->table, g->first, r) && counts(g->judge, place, false);
}

static const char *condition_of(const redirect_table *t, const rt_record *r, size_t *len)
{
    *len = 0;
    return r->condition ? rt_text(t, RT_CONDITIONS, r->condition, len) : "";
}

static bool compares(const redirect_table *t, redirect_judge *judge, const rt_record *r)
{
    size_t len;
    const char *text = condition_of(t, r, &len);

    judge->steps += len / BYTES_OF_STEP;
    return len && judge->compares(judge, text, len);
}

static bool holds(const redirect_table *t, redirect_judge *judge, const rt_record *r, uint32_t at)
{
    size_t len;
    const char *text = condition_of(t, r, &len);

    judge->table = t;
    judge->rule = at;
    return !len || judge->holds(judge, text, len);
}

static uint32_t place_at(const group *g, uint32_t i)
{
    uint32_t place = g->places[i];

    RT_OPAQUE(place);
    return place;
}

/* Is some rule of the source, behind the first, one that is compared with others? */
static bool any_compares(const group *g, redirect_judge *judge, uint32_t behind)
{
    rt_record r;

    for (uint32_t i = 0; i < g->n && !redirect_judge_is_over(judge); i++) {
        uint32_t place = place_at(g, i);

        if (place > behind && member(g, place, &r) && compares(g->table, judge, &r))
            return true;
    }
    return false;
}

/* True when it is the best one so far. */
static bool offer(const redirect_table *t, redirect_judge *judge, const rt_record *r, uint32_t at)
{
    size_t len;
    const char *text = condition_of(t, r, &len);

    judge->table = t;
    judge->rule = at;
    return judge->offer(judge, text, len);
}

/* Offer the members behind `first` that are compared, or those that are not, if they hold. Of the
 * latter the first one is as good as all. True when one of them became the best. */
static bool offer_members(const group *g, redirect_judge *judge, uint32_t first, bool compared,
                          uint32_t *place, rt_record *best)
{
    bool found = false;
    rt_record r;

    for (uint32_t i = 0; i < g->n && !(found && !compared) && !redirect_judge_is_over(judge); i++) {
        uint32_t at = place_at(g, i);

        if (at > first && member(g, at, &r) && compares(g->table, judge, &r) == compared &&
            holds(g->table, judge, &r, at) && offer(g->table, judge, &r, at)) {
            *place = at;
            *best = r;
            best->own = *r.profile;
            found = true;
        }
    }
    return found;
}

/* What is not compared is not looked at where one that is has been found acceptable. */
static redirect_choice compare(const group *g, redirect_judge *judge, uint32_t *place,
                               rt_record *record)
{
    uint32_t first = *place;
    rt_record best = *g->first;
    bool found = offer(g->table, judge, g->first, first);

    found |= offer_members(g, judge, first, true, place, &best);
    if (!found)
        offer_members(g, judge, first, false, place, &best);
    *record = best;
    record->profile = &record->own;
    return judge->choose(judge);
}

/* Of a source that was compared in vain in this look-up, the other rules are not asked again. */
static bool is_refused(const group *g, const redirect_judge *judge)
{
    rt_record r;

    for (unsigned i = 0; i < judge->refusals && i < REDIRECT_REFUSED; i++) {
        if (rt_take(g->table, judge->refused[i], &r) && same_source(g->table, g->first, &r))
            return true;
    }
    return false;
}

HTC_APART redirect_choice rt_choose(const redirect_table *table, const redirect_request *request,
                                    uint32_t posting, uint32_t *place, rt_record *record)
{
    redirect_judge *judge = request->judge;
    group g = {.table = table, .judge = judge, .first = record};
    rt_record first = *record;
    uint32_t start = *place;
    redirect_choice choice;
    bool conditioned;

    first.own = *record->profile;
    first.profile = &first.own;
    g.first = &first;
    if (!judge) /* of the others each has a condition that does not match */
        return REDIRECT_CHOSEN;
    judge->steps += STEPS_OF_RULE + request->path_len / BYTES_OF_STEP;
    if (redirect_judge_is_over(judge))
        return REDIRECT_NO_ANSWER;
    if (!counts(judge, start, true) || is_refused(&g, judge) || !holds(table, judge, &first, start))
        return REDIRECT_NEXT_RULE;
    if (posting)
        g.places = rt_posting(table, posting, &g.n, &conditioned);
    if (!compares(table, judge, &first) && !any_compares(&g, judge, start))
        return REDIRECT_CHOSEN;
    choice = compare(&g, judge, place, record);
    if (redirect_judge_is_over(judge))
        return REDIRECT_NO_ANSWER;
    if (choice == REDIRECT_NEXT_RULE)
        judge->refused[judge->refusals++ % REDIRECT_REFUSED] = start;
    return choice;
}
