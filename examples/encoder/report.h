/* SPDX-License-Identifier: MIT */
/* What the program found out, for people and for programs. */
#ifndef ENCODER_REPORT_H
#define ENCODER_REPORT_H

#include "model.h"

/* The three encoders, and the columns of the report. */
enum encoder { UNQUANTISED, NF4_CPU, NF4_QUERN, ENCODERS };

/* Cosine that the embeddings of NF4_QUERN must have with those of NF4_CPU. */
#define COSINE_LEAST 0.9999

struct sentence {
    const char *text;
    int *ids;
    size_t count;
    double *embedding[ENCODERS]; /* [hidden], of length 1 */
};

struct report {
    const struct model *model;
    const struct sentence *sentences;
    size_t count;
    size_t encoders;    /* how many of the three ran, from the first on */
    const char *target; /* what quern ran on; "" if it did not */
    const char *dtype;  /* of its activations */
};

/* Of two embeddings of length 1. */
double report_cosine(const struct report *report, const double *x, const double *y);

/* The least cosine of a sentence's embeddings by NF4_QUERN and NF4_CPU; 1 if quern did not run. */
double report_worst(const struct report *report);

/* To stdout: similarities of all encoders side by side and the cosines; or one JSON object with
 * token ids and embeddings as well. */
void report_text(const struct report *report);
void report_json(const struct report *report);

#endif
