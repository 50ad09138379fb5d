/* SPDX-License-Identifier: MIT */
/*
 * The facts of a kernel, each in one row: its name in the kernel's source and the comment there,
 * its name among the words of a shape, and where its value stands in the plan. A family lists its
 * rows: gen/ writes the constants of the source from them, and plan_shape, plan_has_shape and
 * plan_explain the words. All functions are pure.
 */
#ifndef QUERN_PLAN_FIELD_H
#define QUERN_PLAN_FIELD_H

#include "plan/plan.h"

#include <stddef.h>

enum field_kind {
    FIELD_NUMBER = 1, /* constexpr unsigned NAME = 4; */
    FIELD_FLAG,       /* #define NAME 1, or 0, for the preprocessor */
    FIELD_BOOL,       /* #define NAME true, or false */
    FIELD_TEXT,       /* #define NAME WORD, with a word that the prelude gives its meaning */
    FIELD_BLANK,      /* an empty line of the source */
    FIELD_SHAPE       /* no constant of the source, only a word of a shape */
};

struct plan_field {
    enum field_kind kind;     /* 0: the end of a table */
    const char *constant;     /* its name in the source */
    const char *meaning;      /* the comment behind it there, and behind its word in explain */
    unsigned short at, bytes; /* where in struct plan the value is: a bool, or an integer */
    int64_t (*value)(const struct plan *p);    /* or the function that computes it, */
    bool (*is)(const struct plan *p);          /* or, of a flag, that says whether it is set */
    const char *(*text)(const struct plan *p); /* of FIELD_TEXT: the constant's value */
    bool (*when)(const struct plan *p);        /* null: it applies to every plan of the family */
    const char *word; /* its name in a shape; null: other words of the shape determine it */
    const char
        *argument;   /* what it is in a base kernel, in place of a constant; null: a constant */
    bool by_waves;   /* it is the number of waves, or follows from that: a tuning table must have
                         it, people who compare shapes need not see it */
    const char *was; /* its word in earlier versions, which tuning tables may still have */
};

/* A list of rows in a family's table, and for which of its plans it counts; null: for all. */
struct plan_fields {
    const struct plan_field *rows;
    bool (*when)(const struct plan *p);
};

/* A template of a kernel's source, by its path below templates/, or chosen by the plan. */
struct plan_template {
    const char *name;
    const char *(*choose)(const struct plan *p);
    bool (*when)(const struct plan *p); /* null: always */
};

/* Initialisers of a row's first members, by where the value comes from: it stands in the plan, a
 * function computes it, a function says yes or no, or a function gives a word. */
#define FIELD_PLACE(member)                                                                        \
    .at = offsetof(struct plan, member), .bytes = sizeof((struct plan *)0)->member
#define FIELD_AT(kind_, constant_, member, meaning_)                                               \
    .kind = kind_, .constant = constant_, .meaning = meaning_, FIELD_PLACE(member)
#define FIELD_OF(kind_, constant_, value_, meaning_)                                               \
    .kind = kind_, .constant = constant_, .meaning = meaning_, .value = value_
#define FIELD_IF(kind_, constant_, is_, meaning_)                                                  \
    .kind = kind_, .constant = constant_, .meaning = meaning_, .is = is_
#define FIELD_WORD(constant_, text_, meaning_)                                                     \
    .kind = FIELD_TEXT, .constant = constant_, .meaning = meaning_, .text = text_

int64_t field_value(const struct plan_field *field, const struct plan *p);

/* Calls `fn` for each row of a plan's family that applies to it, in order. */
typedef void (*field_fn)(void *user, const struct plan *p, const struct plan_field *field);
void field_each(const struct plan *p, field_fn fn, void *user);

/* What BLOCK and TRUNCATE are in base kernels (templates/prelude/layer.hip). */
#define BLOCK_ARGUMENT    "(1u << layer()->block_shift)"
#define TRUNCATE_ARGUMENT "(layer()->truncate != 0)"

/* Rows of every family; of families with 4-bit weights by table; of families with int4. */
extern const struct plan_field layer_fields[], weight_fields[], int4_fields[];
/* Whether pairs of rows of W become one column of C. */
bool field_has_act(const struct plan *p);
/* Words for fp8 weights, of simt_skinny and dequant: the format, and how the target reads it. */
const char *field_fp8_kind(const struct plan *p);
const char *field_fp8_form(enum plan_fp8 fp8);
/* Rows of all families that multiply: those in front of the shape, and those of the grid behind
 * it. */
extern const struct plan_field tile_fields[], grid_fields[];

/* Words and flags that several families' rows have. */
const char *field_symbol(const struct plan *p);
const char *field_a_type(const struct plan *p);
const char *field_c_type(const struct plan *p);
const char *field_element(enum quern_dtype t);
const char *field_products(const struct plan *p);
const char *field_pair_type(const struct plan *p);
const char *field_matrix(const struct plan *p); /* "MATRIX" */
const char *field_pairing(enum plan_pairing pairing);
const char *field_scale_type(const struct plan *p);
const char *field_zero_kind(const struct plan *p);
int64_t field_group(const struct plan *p);
int64_t field_has_zeros(const struct plan *p);
bool field_multiplies(const struct plan *p);
int64_t field_truncates(const struct plan *p);
int64_t field_table_entry(int64_t table_bytes); /* bytes of LDS for each of 256 pairs of codes */
bool field_is_int4(const struct plan *p);
bool field_has_table(const struct plan *p); /* 4-bit weights by table */

/* Templates that the problem or the products choose. */
const char *template_of_codes(const struct plan *p);
/* Whether the upper bytes of a format's sixteen values, as f16, are all that is not zero. */
bool codes_have_upper_bytes_only(enum quern_weight wq);
const char *template_of_scale(const struct plan *p);
const char *template_of_rows(const struct plan *p);

#endif
