/* SPDX-License-Identifier: MIT */
#include "plan/family.h"

#include "plan/simt_int4.h"
#include "plan/simt_skinny.h"
#include "plan/simt_w4.h"

const struct decode_family *decode_family_of(const struct quern_problem *p)
{
    static const struct decode_family w4 = {FAMILY_SIMT_W4, "simt_w4", simt_w4_accepts, &simt_w4},
                                      int4 = {FAMILY_SIMT_INT4, "simt_int4", simt_int4_accepts,
                                              &simt_int4},
                                      skinny = {FAMILY_SIMT_SKINNY, "simt_skinny",
                                                simt_skinny_accepts, &simt_skinny};

    return p->wq == QUERN_W_INT4 ? &int4 : problem_has_group(p) ? &w4 : &skinny;
}
