/* SPDX-License-Identifier: MIT */
/*
 * Families of kernels: a family is one table of facts, functions and rows, in a file of its own,
 * and all that is family-specific in choosing, generating and explaining a kernel is behind it. A
 * new family is its file, its template, and in shape.h its shape and its name in the list of its
 * vendor. All functions are pure.
 */
#ifndef QUERN_PLAN_FAMILY_H
#define QUERN_PLAN_FAMILY_H

#include "plan/field.h"
#include "plan/cost_model.h"

struct family {
    const char *name;
    enum plan_units units;
    /* Whether problems of this kind are the family's, on this target. */
    bool (*takes)(const struct quern_problem *problem, const struct target *target);
    /* QUERN_E_DECLINED says what of such a problem, or of the target, is in the way; null: nothing
     * is. A problem whose vector family declines it is declined. */
    quern_status (*accepts)(const struct quern_problem *problem, const struct target *target);
    /* Puts in every shape that fits, for a plan whose fields up to meant_for are set. */
    void (*candidates)(const struct plan *base, struct model_ranking *ranking);
    /* Cycles of a compute unit that is dealt so many workgroups of a plan, one after another or
     * side by side; null: the estimate's cycles, times how often the unit's share of one slice goes
     * into that. */
    int64_t (*cycles)(const struct plan *p, int64_t workgroups);
    /* Cycles that a launch of so many rows takes, of a family whose kernels have no slices; null:
     * as follows from those of its slices. */
    int64_t (*rows_cycles)(const struct plan *p, int64_t rows);
    /* Rows of A of its kernels for a problem that is the family's, which has those and no others;
     * ends with 0. Null: plan.c says, for its units and those of the problem's other families. */
    const int *(*m_tiles)(const struct quern_problem *problem);
    /* Rows of A of the family's smallest kernel for a plan's problem and target, given what the
     * plan forces; null: one. */
    int (*fewest_rows)(const struct plan *p);
    /* Whether the kernel's text pairs dot products for dual issue; null: never. */
    bool (*dual_dot2)(const struct plan *p);
    /* Whether the compiler is told to leave out its passes that look for repeated loads and
     * addresses, as the kernel's text has none: that saves compile time; null: never. */
    bool (*plain_text)(const struct plan *p);
    /* Appends what is to be said of a plan, for people; ends lines. */
    void (*explain)(const struct plan *p, struct str *out);
    /* What the constants of the source and the words of a shape are made of; ends with no rows. */
    const struct plan_fields *fields;
    /* The templates that follow the constants; ends with one that has neither name nor choice. */
    const struct plan_template *templates;
    /* Whether the kernel's instructions are those of the very processor, not of later ones too,
     * which NVRTC is asked for by an "a" behind the target's name; null: never. */
    bool (*very_processor)(const struct plan *p);
    /* What plan_registers says; null: 0. */
    int64_t (*registers)(const struct plan *p);
    /* Its text can take the numbers of a layer as arguments (plan/base.h), which must have so many
     * rows of W, as many as a wave may work on at once; 0: it has no base kernels. */
    int base_rows;
    /* Its kernels of op=moe share their workgroups out among the slices that turn out to be in use:
     * a launch has as many as all compute units hold, or as slices if those are more. */
    bool shares_out;
    /* Its kernels have one argument, in the place of C, whatever operands a problem has. */
    bool one_buffer;
    /* Whether weights go through LDS as scaled numbers: always (ON), never (OFF), or in some of its
     * shapes, which may be forced (FREE). */
    enum plan_switch predequant;
    /* Of this family, a kernel for more rows of A may be modelled to be faster than one for fewer:
     * it then takes that one's place. If not set, no such comparison is made. */
    bool larger_may_win;
};

#define FAMILY(name) extern const struct family family_##name;
FAMILIES_AMD(FAMILY)
FAMILIES_NVIDIA(FAMILY)
#undef FAMILY

/* The families of a vendor, by enum vendor, each list ended by null; null ends all (families.c). */
extern const struct family *const *const families[];

#define VENDOR(NAME, name) extern const struct family *const families_##name[];
#include "target/vendors.def"
#undef VENDOR

/* The family of such units that takes a normalised problem; null: none. */
const struct family *family_of(const struct quern_problem *problem, const struct target *target,
                               enum plan_units units);

#endif
