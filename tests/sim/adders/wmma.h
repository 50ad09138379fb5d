/* SPDX-License-Identifier: MIT */
/* Kernels of one WMMA instruction on the cards that others captured, for tests of what it gives:
 * matrices go to the lanes that the manuals name, and results come back by row and column. */
#ifndef QUERN_TESTS_WMMA_H
#define QUERN_TESTS_WMMA_H

#include "t_gpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WMMA_K_MOST 32

struct card {
    const char *target;
    unsigned lanes;
    bool gfx12;
};

static const struct card cards[] = {
    {"gfx1100", 32, false}, {"gfx1100", 64, false}, {"gfx1201", 32, true}, {"gfx1201", 64, true}};

struct wmma {
    const char *name, *modifiers;
    unsigned bits, k; /* of an element of A and B; elements of a row of A */
    bool half;        /* C and D have 16 bits */
};

/* A of 16 rows, B of 16 columns, C and D: each by its rows, an element's bits a number. */
struct matrices {
    uint16_t a[16 * WMMA_K_MOST], b[16 * WMMA_K_MOST];
    uint32_t c[256], d[256];
};

/* Registers that A and B take: gfx12 deals a row out to groups of 16 lanes, gfx11 gives each group
 * all of it. */
static unsigned words_of(const struct card *card, const struct wmma *f)
{
    return f->k * f->bits / 32 * 16 / (card->gfx12 ? card->lanes : 16);
}

static void read_matrix(const struct card *card, const struct wmma *f, bool b, const uint16_t *from,
                        uint32_t *to)
{
    const unsigned each = 32 / f->bits, count = words_of(card, f) * each;

    for (unsigned l = 0; l < card->lanes; l++)
        for (unsigned e = 0; e < count; e++) {
            const unsigned k = card->gfx12 ? l / 16 * count + e : e;
            const uint32_t bits = from[b ? k * 16 + l % 16 : l % 16 * f->k + k];
            to[e / each * card->lanes + l] |= bits << e % each * f->bits;
        }
}

/* The lane, register and shift of element (i, j) of C and D, as the manuals have them. */
static unsigned place_of(const struct card *card, bool half, unsigned i, unsigned j,
                         unsigned *shift)
{
    const unsigned groups = card->lanes / 16, run = 16 / groups;
    const unsigned group = card->gfx12 ? groups == 2 ? i / 8 : i / 8 + i / 4 % 2 * 2 : i % groups;
    const unsigned e = card->gfx12 ? i % run : i / groups;
    const unsigned word = half && card->gfx12 ? e / 2 : e;

    *shift = half && card->gfx12 ? e % 2 * 16 : 0;
    return word * card->lanes + j + 16 * group;
}

/* By the kernel that open_wmma has loaded. */
static void run_wmma(struct t_gpu *g, const struct card *card, const struct wmma *f,
                     struct matrices *m)
{
    uint32_t in[2][8 * 64] = {{0}}, c[16 * 64] = {0}, d[16 * 64];
    const struct t_buffer buffers[] = {{in[0], sizeof in[0], QUERN_SIM_READ, "a"},
                                       {in[1], sizeof in[1], QUERN_SIM_READ, "b"},
                                       {c, sizeof c, QUERN_SIM_READ, "c"},
                                       {d, sizeof d, QUERN_SIM_WRITE, "d"}};
    unsigned shift;

    read_matrix(card, f, false, m->a, in[0]);
    read_matrix(card, f, true, m->b, in[1]);
    for (unsigned n = 0; n < 256; n++) {
        const unsigned at = place_of(card, f->half, n / 16, n % 16, &shift);
        c[at] |= m->c[n] << shift;
    }
    t_gpu_run(g, &(struct t_launch){
                     .kernel = "k", .items = {card->lanes}, .buffers = buffers, .count = 4});
    for (unsigned n = 0; n < 256; n++) {
        const unsigned at = place_of(card, f->half, n / 16, n % 16, &shift);
        m->d[n] = f->half ? d[at] >> shift & 0xffff : d[at];
    }
}

/* By silicon's arithmetic. */
static void open_wmma(struct t_gpu *g, const struct card *card, const struct wmma *f)
{
    const unsigned words = words_of(card, f), lanes = card->lanes;
    const unsigned results = 256 / lanes / (f->half && card->gfx12 ? 2 : 1);
    char source[2048];

    snprintf(source, sizeof source,
             "typedef u32 source_words __attribute__((ext_vector_type(%u)));\n"
             "typedef u32 result_words __attribute__((ext_vector_type(%u)));\n"
             "KERNEL k(const u32 *a, const u32 *b, const u32 *c, u32 *d)\n{\n"
             "    const u32 l = __builtin_amdgcn_workitem_id_x();\n"
             "    source_words x, y;\n    result_words z;\n"
             "    for (u32 n = 0; n < %u; n++)\n"
             "        ((u32 *)&x)[n] = a[n * %u + l], ((u32 *)&y)[n] = b[n * %u + l];\n"
             "    for (u32 n = 0; n < %u; n++)\n        z[n] = c[n * %u + l];\n"
             "    asm volatile(\"%s %%0, %%1, %%2, %%0%s\\n v_nop\"\n"
             "                 : \"+v\"(z) : \"v\"(x), \"v\"(y));\n"
             "    for (u32 n = 0; n < %u; n++)\n        d[n * %u + l] = z[n];\n}\n",
             words, results, words, lanes, lanes, results, lanes, f->name,
             f->modifiers ? f->modifiers : "", results, lanes);
    t_gpu_open(g, card->target, lanes == 64 ? "-mwavefrontsize64" : "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(g, QUERN_ARITHMETIC_SILICON);
    t_gpu_load(g, source);
}

#endif
