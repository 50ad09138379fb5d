/* SPDX-License-Identifier: MIT */
/* Going through the kinds of layers that base kernels exist for: base_list.h. */
#include "plan/base_list.h"

#include "plan/base.h"

struct walk {
    const struct target *target;
    base_set_fn fn;
    void *user;
};

/* Calls fn for the sets of one kind, if there are any. */
static void each_set(const struct walk *w, struct quern_problem kind)
{
    static const int64_t lengths[] = {BASE_K_LEAST, BASE_K_LEAST / 2};
    struct plan_set sets[2];

    kind.n = BASE_K_LEAST; /* any number of rows would do */
    kind.kernels = QUERN_KERNELS_BASE;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct quern_problem layer;
        kind.k = lengths[i];
        if (problem_normalise(&kind, &layer) != QUERN_OK ||
            plan_make(&layer, w->target, &sets[i]) != QUERN_OK)
            return;
        const struct plan *const last = &sets[i].plans[sets[i].count - 1];
        if (i == 0 || plan_units(&sets[0].plans[sets[0].count - 1]) != plan_units(last))
            w->fn(w->user, &sets[i]);
    }
}

/* The members of a kind after its weight format, each an enumeration from 0, "does not apply". */
static void each_kind(const struct walk *w, struct quern_problem kind)
{
    const bool gemm = kind.op == QUERN_OP_GEMM;

    for (int s = 0; s <= QUERN_SCALE_TENSOR; s++)
        for (int z = 0; z <= QUERN_ZERO_SCALED; z++)
            for (int a = 0; a <= QUERN_DT_FP8FNUZ; a++)
                for (int c = QUERN_F32; c <= QUERN_BF16; c++)
                    for (int l = QUERN_LAYOUT_BNB; l <= QUERN_LAYOUT_DENSE; l++) {
                        kind.scale = (enum quern_scale)s;
                        kind.zero = (enum quern_zero)z;
                        kind.a = (enum quern_dtype)a;
                        kind.c = (enum quern_dtype)c;
                        kind.layout = (enum quern_layout)l;
                        if (!s == !problem_has_scale(&kind) && !z == !problem_has_zero(&kind) &&
                            !a == !gemm)
                            each_set(w, kind);
                    }
}

void base_each(const struct target *target, base_set_fn fn, void *user)
{
    const struct walk walk = {.target = target, .fn = fn, .user = user};

    for (int op = QUERN_OP_GEMM; op <= QUERN_OP_DEQUANT; op++)
        for (int wq = QUERN_W_NF4; wq <= QUERN_W_NONE; wq++) {
            struct quern_problem kind = QUERN_INIT(struct quern_problem);
            kind.op = (enum quern_op_kind)op;
            kind.wq = (enum quern_weight)wq;
            each_kind(&walk, kind);
        }
}
