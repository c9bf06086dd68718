/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * How much of the area each owner of maps has, and which maps are evicted when an owner wants more.
 * Called, under the lock, where maps are made and where images need room. Amounts are counted each
 * time, so a process that is killed cannot leave a wrong total.
 */
#include "area/internal.h"

#include <apr_strings.h>
#include <stdlib.h>

#define SAY_SECONDS 3600
#define TURNS_MOST  (2 * (REDIRECT_AREA_MAPS + REDIRECT_AREA_IMAGES))

/* --- bounds -----------------------------------------------------------------------------------*/

void rda_share_init(redirect_area *area)
{
    area->most[RDA_MAPS] = REDIRECT_AREA_MAPS / 4 * 3;
    area->most[RDA_IMAGES] = REDIRECT_AREA_IMAGES / 4 * 3;
    area->most[RDA_PAGES] = (uint64_t)area->pages / 4 * 3;
}

void redirect_area_bound(redirect_area *area, uint64_t bytes)
{
    uint64_t pages = bytes / area->page, most = (uint64_t)area->pages / 4 * 3;

    area->most[RDA_PAGES] = pages < most ? pages : most;
}

/* Images can be kept in their places by requests that last, so one owner never has all. Maps cannot
 * be kept. */
static uint64_t most_of_one(const redirect_area *area, rda_share share)
{
    return share == RDA_MAPS ? area->most[share] : area->most[share] / 2;
}

/* --- what each owner has ----------------------------------------------------------------------*/

/* The amount that entry @a i of this share's table counts for. */
static uint64_t amount_of(const redirect_area *area, rda_share share, uint32_t i, uint64_t *owner)
{
    if (share == RDA_MAPS) {
        *owner = RDA_GET(area->names[i].owner);
        return RDA_GET(area->names[i].handle) != 0;
    }
    *owner = RDA_GET(area->images[i].owner);
    if (RDA_GET(area->images[i].state) == RDA_FREE)
        return 0;
    return share == RDA_IMAGES ? 1 : RDA_GET(area->images[i].pages);
}

static uint32_t entries_of(const redirect_area *area, rda_share share)
{
    return share == RDA_MAPS ? rda_maps_end(area) : rda_images_end(area);
}

bool rda_may_have_locked(redirect_area *area, rda_share share, uint64_t owner, uint64_t want)
{
    uint64_t all = want, own = want, whose, amount;

    if (!owner)
        return true;
    for (uint32_t i = 0; i < entries_of(area, share); i++) {
        amount = amount_of(area, share, i, &whose);
        all += whose ? amount : 0;
        own += whose == owner ? amount : 0;
    }
    return all <= area->most[share] && own <= most_of_one(area, share);
}

static int by_owner(const void *a, const void *b)
{
    uint64_t first = ((const rda_holding *)a)->owner, second = ((const rda_holding *)b)->owner;

    return (first > second) - (first < second);
}

/* One for each owner, as if @a owner had what it wants. Returns how many there are. */
static uint32_t holdings_locked(redirect_area *area, rda_share share, uint64_t owner, uint64_t want)
{
    rda_holding *all = area->holdings;
    uint32_t n = 0, owners = 0;

    if (owner)
        all[n++] = (rda_holding){owner, want};
    for (uint32_t i = 0; i < entries_of(area, share); i++) {
        all[n].amount = amount_of(area, share, i, &all[n].owner);
        n += all[n].owner && all[n].amount;
    }
    qsort(all, n, sizeof(*all), by_owner);
    for (uint32_t i = 0; i < n; i++) {
        if (owners && all[owners - 1].owner == all[i].owner)
            all[owners - 1].amount += all[i].amount;
        else
            all[owners++] = all[i];
    }
    return owners;
}

/* --- making way -------------------------------------------------------------------------------*/

/* The amount that would be free without the map. Images count only if they are not pinned. */
static uint64_t gain_of(const redirect_area *area, rda_share share, uint32_t entry,
                        rda_survey *survey)
{
    uint64_t version = RDA_GET(area->maps[entry].current);
    rda_extent extent;

    if (rda_serial_alive(area, RDA_GET(area->maps[entry].builder), &survey->census))
        return 0;
    if (share == RDA_MAPS)
        return 1;
    if (!version || !rda_image_extent(area, rda_slot_of(version), &extent) ||
        rda_image_pinned_locked(area, rda_slot_of(version), survey))
        return 0;
    return share == RDA_IMAGES ? 1 : extent.pages;
}

static void give_way_locked(redirect_area *area, uint32_t entry)
{
    redirect_area_note note;
    bool noted = redirect_area_note_get(area, RDA_GET(area->names[entry].handle), &note);

    apr_cpystrn(area->evicted, noted ? note.where : "", sizeof(area->evicted));
    rda_forget_locked(area, entry);
    RDA_SET(area->header->evicted, RDA_GET(area->header->evicted) + 1);
}

/* One of this owner's, which was not asked for since the hand came by the last time, if there is
 * such. Returns what is free then. */
static uint64_t make_one_way_locked(redirect_area *area, rda_share share, uint64_t owner,
                                    rda_survey *survey)
{
    uint32_t end = rda_maps_end(area), hand = RDA_GET(area->header->hand);

    for (uint32_t n = 0; n < 2 * end; n++) {
        uint32_t entry = hand++ % end;
        rda_name *name = &area->names[entry];
        uint64_t gain;

        if (!RDA_GET(name->handle) || RDA_GET(name->owner) != owner)
            continue;
        gain = gain_of(area, share, entry, survey);
        if (!gain)
            continue;
        if (RDA_GET(name->touched)) {
            RDA_SET(name->touched, 0);
            continue;
        }
        give_way_locked(area, entry);
        RDA_SET(area->header->hand, hand % end);
        return gain;
    }
    return 0;
}

static uint64_t excess(uint64_t amount, uint64_t most)
{
    return amount > most ? amount - most : 0;
}

/* What is wanted, by whom, among whom. */
typedef struct wanted {
    redirect_area *area;
    rda_share share;
    uint32_t owners;
    rda_holding *own; /* with what it wants; NULL: the server's configuration wants it */
    bool own_gave_all;
    uint64_t need;  /* that all have too much */
    uint64_t space; /* that is to be given up as there is no room */
    uint64_t gained;
} wanted;

static bool own_has_too_much(const wanted *w)
{
    return w->own && w->own->amount > most_of_one(w->area, w->share);
}

/* The owner whose maps give way: the one that has most, and of several the one that wants room. An
 * owner that has less than that one would have does not give way. NULL: none. Others that have the
 * same take turns, more or less. */
static rda_holding *who_gives(const wanted *w)
{
    rda_holding *most = w->own_gave_all ? NULL : w->own;
    uint32_t turn = RDA_GET(w->area->header->hand);

    if (own_has_too_much(w))
        return most;
    for (uint32_t i = 0; i < w->owners; i++) {
        rda_holding *one = &w->area->holdings[(i + turn) % w->owners];

        if (one != w->own && one->amount && (!w->own || one->amount >= w->own->amount) &&
            (!most || one->amount > most->amount))
            most = one;
    }
    return most;
}

/* An owner that has nothing to give is not asked again. */
static void take_from(wanted *w, rda_holding *giver, rda_survey *survey)
{
    uint64_t gain = make_one_way_locked(w->area, w->share, giver->owner, survey);

    if (gain)
        giver->amount = excess(giver->amount, gain);
    else if (giver == w->own)
        w->own_gave_all = true;
    else
        giver->amount = 0;
    w->need = excess(w->need, gain);
    w->space = excess(w->space, gain);
    w->gained += gain;
}

bool rda_make_way_locked(redirect_area *area, rda_share share, uint64_t owner, uint64_t want,
                         bool full)
{
    wanted w = {area, share, holdings_locked(area, share, owner, want), .space = full ? want : 0};
    rda_survey survey;
    rda_holding *giver;
    uint64_t all = 0;

    rda_survey_locked(area, &survey);
    for (uint32_t i = 0; i < w.owners; i++) {
        all += area->holdings[i].amount;
        if (owner && area->holdings[i].owner == owner)
            w.own = &area->holdings[i];
    }
    w.need = owner ? excess(all, area->most[share]) : 0;
    /* Each turn takes a map away or finds a giver that has none, unless a process writes nonsense.
     */
    for (uint32_t turns = 0; w.need || w.space || own_has_too_much(&w); turns++) {
        giver = turns < TURNS_MOST ? who_gives(&w) : NULL;
        if (!giver)
            return w.gained && !w.need && !own_has_too_much(&w);
        take_from(&w, giver, &survey);
    }
    return true;
}

/* --- saying so --------------------------------------------------------------------------------*/

bool redirect_area_evicted(redirect_area *area, int64_t now, char *where, size_t room)
{
    rda_header *header = area->header;
    uint64_t evicted = RDA_GET(header->evicted);
    int64_t said_at = RDA_GET(header->said_at);

    if (evicted == RDA_GET(header->said) || (said_at && said_at > now - SAY_SECONDS) ||
        !atomic_compare_exchange_strong(&header->said_at, &said_at, now))
        return false;
    RDA_SET(header->said, evicted);
    if (rda_lock(area) != APR_SUCCESS)
        return false;
    apr_cpystrn(where, area->evicted, room);
    rda_unlock(area);
    return true;
}
