/* SPDX-License-Identifier: MIT */
#include "plan/family.h"

#include "plan/matrix.h"
#include "plan/mma_int4.h"
#include "plan/mma_tile.h"
#include "plan/mma_w4.h"
#include "plan/simt_int4.h"
#include "plan/simt_skinny.h"
#include "plan/simt_w4.h"

static int one_row(const struct plan *p)
{
    (void)p;
    return 1;
}

static int one_tile(const struct plan *p)
{
    (void)p;
    return MATRIX_TILE;
}

static const struct decode_family families[] = {
    {FAMILY_SIMT_W4, "simt_w4", simt_w4_accepts, &simt_w4, one_row},
    {FAMILY_SIMT_INT4, "simt_int4", simt_int4_accepts, &simt_int4, one_row},
    {FAMILY_SIMT_SKINNY, "simt_skinny", simt_skinny_accepts, &simt_skinny, one_row},
    /* matrix_family_of and mma_tile_accepts ask for more */
    {FAMILY_MMA_W4, "mma_w4", simt_w4_accepts, &mma_w4, one_tile},
    {FAMILY_MMA_INT4, "mma_int4", simt_int4_accepts, &mma_int4, mma_int4_fewest_rows},
    {FAMILY_MMA_TILE, "mma_tile", simt_w4_accepts, &mma_tile, one_tile},
};

const struct decode_family *decode_family_by(enum plan_family id)
{
    size_t i = 0;

    while (families[i].id != id)
        i++;
    return &families[i];
}

const struct decode_family *decode_family_of(const struct quern_problem *p)
{
    return decode_family_by(p->wq == QUERN_W_INT4  ? FAMILY_SIMT_INT4
                            : problem_has_group(p) ? FAMILY_SIMT_W4
                                                   : FAMILY_SIMT_SKINNY);
}

const struct decode_family *matrix_family_of(const struct quern_problem *p, const struct target *t)
{
    return mma_w4_accepts(p, t)     ? decode_family_by(FAMILY_MMA_W4)
           : mma_int4_accepts(p, t) ? decode_family_by(FAMILY_MMA_INT4)
                                    : NULL;
}
