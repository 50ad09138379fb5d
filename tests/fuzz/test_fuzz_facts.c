/* SPDX-License-Identifier: MIT */
/* Facts tables of any bytes: refused with a sentence, or read, and then plans can be made, or are
 * declined with a sentence. */
#include "base/error.h"
#include "plan/facts.h"
#include "t_fuzz.h"

#include <quern/quern.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct target *const target = target_named("gfx1201"), *planned = NULL;
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct facts facts = {0};
    struct plan_set set;

    if (facts_parse((const char *)data, size, target, &facts) != QUERN_OK) {
        FUZZ_CHECK(!facts.given && quern_last_error()->message[0]);
        return 0;
    }
    FUZZ_CHECK(!(facts.refuted & ~facts.probed));
    FUZZ_CHECK(facts_target(&facts, target, &planned) == QUERN_OK);
    FUZZ_CHECK(planned->refuted == facts.refuted);
    FUZZ_CHECK(quern_problem_parse("wq=nf4 n=64 k=256 a=bf16", &problem) == QUERN_OK);
    const quern_status status = plan_make(&problem, planned, &set);
    FUZZ_CHECK(status == (facts.refuted >> FACT_UNALIGNED_LOADS & 1 ? QUERN_E_DECLINED : QUERN_OK));
    return 0;
}

FUZZ_MAIN("facts", 20000)
