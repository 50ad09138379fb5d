/* SPDX-License-Identifier: MIT */
/*
 * Converts packed int4 weights from any layout to any other (docs/formats.md), tile by tile: 128
 * rows by 128 columns of W are brought into words of layout k8, and stored from there. Tiles of
 * that size make every layout's memory be read and written in whole lines of 64 bytes or more.
 */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <string.h>

#define TILE_ROWS  128
#define TILE_WORDS 16 /* of eight weights along K */

/* Four words at once; the compiler has vectors for them on every machine. */
typedef uint32_t words4 __attribute__((vector_size(16)));
#define VECTORS (TILE_WORDS / 4)

/* Part of W in words of layout k8: bits 4i…4i+3 of a word are k0+i. */
struct tile {
    uint32_t word[TILE_ROWS][TILE_WORDS];
    size_t row, rows;    /* of W */
    size_t first, words; /* along K */
};

/* The whole of W. */
struct packed {
    size_t n, words; /* words = K/8 */
    enum quern_layout from, to;
    const uint32_t *perm; /* column j is column perm[j] of `in`; null: they are the same */
    const uint32_t *in;
    uint32_t *out;
};

/* Nibble i of a word of layout awq is row n0 + order[i] of W; in layout exl it is column
 * k0 + order[i]. */
static const uint8_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};

/* ---- Words ----------------------------------------------------------------------------------- */

/* Brings each word's nibbles into the order 0 2 4 6 1 3 5 7. */
static inline words4 exl_of_k8(words4 w)
{
    words4 even = w & 0x0f0f0f0f, odd = w >> 4 & 0x0f0f0f0f;

    even = (even | even >> 4) & 0x00ff00ff;
    odd = (odd | odd >> 4) & 0x00ff00ff;
    even = (even | even >> 8) & 0x0000ffff;
    odd = (odd | odd >> 8) & 0x0000ffff;
    return even | odd << 16;
}

static inline words4 k8_of_exl(words4 w)
{
    words4 even = w & 0x0000ffff, odd = w >> 16;

    even = (even | even << 8) & 0x00ff00ff;
    odd = (odd | odd << 8) & 0x00ff00ff;
    even = (even | even << 4) & 0x0f0f0f0f;
    odd = (odd | odd << 4) & 0x0f0f0f0f;
    return even | odd << 4;
}

static void reorder(struct tile *t, words4 (*function)(words4))
{
    for (size_t r = 0; r < t->rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            words4 w;
            memcpy(&w, &t->word[r][4 * v], sizeof w);
            w = function(w);
            memcpy(&t->word[r][4 * v], &w, sizeof w);
        }
}

/* Transposes the nibbles of 8 words, so that nibble j of word i changes places with nibble i of
 * word j; for all the eights of words that stand side by side in w. */
static void transpose_nibbles(words4 w[8][VECTORS])
{
    static const struct {
        int distance, shift;
        uint32_t mask;
    } stages[] = {{1, 4, 0x0f0f0f0f}, {2, 8, 0x00ff00ff}, {4, 16, 0x0000ffff}};

    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (int i = 0; i < 8; i++)
            for (int v = 0; v < VECTORS && !(i & stages[s].distance); v++) {
                words4 *const low = &w[i][v], *const high = &w[i + stages[s].distance][v];
                const words4 swap = (*low >> stages[s].shift ^ *high) & stages[s].mask;
                *high ^= swap;
                *low ^= swap << stages[s].shift;
            }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

static const uint32_t *ck_block(const uint32_t *b, const struct packed *p, size_t word, size_t row)
{
    return b + (word / 4 * p->n + row) * 4;
}

static void load_rows(const struct packed *p, struct tile *t)
{
    for (size_t r = 0; r < t->rows; r++)
        memcpy(t->word[r], p->in + (t->row + r) * p->words + t->first, 4 * t->words);
}

static void store_rows(const struct packed *p, const struct tile *t)
{
    for (size_t r = 0; r < t->rows; r++)
        memcpy(p->out + (t->row + r) * p->words + t->first, t->word[r], 4 * t->words);
}

static void load_ck(const struct packed *p, struct tile *t)
{
    for (size_t w = 0; w < t->words; w += 4) {
        const uint32_t *const from = ck_block(p->in, p, t->first + w, t->row);
        for (size_t r = 0; r < t->rows; r++)
            memcpy(&t->word[r][w], from + 4 * r, 16);
    }
}

static void store_ck(const struct packed *p, const struct tile *t)
{
    for (size_t w = 0; w < t->words; w += 4) {
        uint32_t *const to = (uint32_t *)ck_block(p->out, p, t->first + w, t->row);
        for (size_t r = 0; r < t->rows; r++)
            memcpy(to + 4 * r, &t->word[r][w], 16);
    }
}

static void load_gptq(const struct packed *p, struct tile *t)
{
    for (size_t w = 0; w < t->words; w++) {
        const uint32_t *const from = p->in + (t->first + w) * p->n + t->row;
        for (size_t r = 0; r < t->rows; r++)
            t->word[r][w] = from[r];
    }
}

/* Loads a tile out of layout gptq with columns in another order: each word is put together from the
 * eight columns that perm names. The tile's rows are a multiple of 4. */
static void load_columns(const struct packed *p, struct tile *t)
{
    for (size_t w = 0; w < t->words; w++) {
        const uint32_t *from[8];
        uint32_t shift[8];

        for (size_t i = 0; i < 8; i++) {
            const uint32_t column = p->perm[(t->first + w) * 8 + i];
            from[i] = p->in + column / 8 * p->n + t->row;
            shift[i] = column % 8 * 4;
        }
        for (size_t r = 0; r < t->rows; r += 4) {
            words4 sum = {0};
#pragma GCC unroll 8
            for (size_t i = 0; i < 8; i++) {
                words4 four;
                memcpy(&four, from[i] + r, sizeof four);
                sum |= (four >> shift[i] & 15) << 4 * i;
            }
            for (size_t d = 0; d < 4; d++)
                t->word[r + d][w] = sum[d];
        }
    }
}

static void store_gptq(const struct packed *p, const struct tile *t)
{
    for (size_t w = 0; w < t->words; w++) {
        uint32_t *const to = p->out + (t->first + w) * p->n + t->row;
        for (size_t r = 0; r < t->rows; r++)
            to[r] = t->word[r][w];
    }
}

/* A word of layout awq is eight rows of W in one column. N is a multiple of 8, and a tile has at
 * most 16 such words side by side. */
static void load_awq(const struct packed *p, struct tile *t)
{
    const size_t eights = t->rows / 8, stride = p->n / 8;

    for (size_t w = 0; w < t->words; w++) {
        union {
            words4 vector[8][VECTORS];
            uint32_t word[8][TILE_WORDS];
        } u = {0};

        for (size_t i = 0; i < 8; i++)
            memcpy(u.word[i], p->in + ((t->first + w) * 8 + i) * stride + t->row / 8, 4 * eights);
        transpose_nibbles(u.vector);
        for (size_t i = 0; i < 8; i++)
            for (size_t e = 0; e < eights; e++)
                t->word[8 * e + order[i]][w] = u.word[i][e];
    }
}

static void store_awq(const struct packed *p, const struct tile *t)
{
    const size_t eights = t->rows / 8, stride = p->n / 8;

    for (size_t w = 0; w < t->words; w++) {
        union {
            words4 vector[8][VECTORS];
            uint32_t word[8][TILE_WORDS];
        } u = {0};

        for (size_t i = 0; i < 8; i++)
            for (size_t e = 0; e < eights; e++)
                u.word[i][e] = t->word[8 * e + order[i]][w];
        transpose_nibbles(u.vector);
        for (size_t i = 0; i < 8; i++)
            memcpy(p->out + ((t->first + w) * 8 + i) * stride + t->row / 8, u.word[i], 4 * eights);
    }
}

static void load(const struct packed *p, struct tile *t)
{
    switch (p->from) {
    case QUERN_LAYOUT_CK:
        load_ck(p, t);
        break;
    case QUERN_LAYOUT_GPTQ:
        (p->perm ? load_columns : load_gptq)(p, t);
        break;
    case QUERN_LAYOUT_AWQ:
        load_awq(p, t);
        break;
    default:
        load_rows(p, t);
    }
    if (p->from == QUERN_LAYOUT_EXL || p->from == QUERN_LAYOUT_CK)
        reorder(t, k8_of_exl);
}

static void store(const struct packed *p, struct tile *t)
{
    if (p->to == QUERN_LAYOUT_EXL || p->to == QUERN_LAYOUT_CK)
        reorder(t, exl_of_k8);
    switch (p->to) {
    case QUERN_LAYOUT_CK:
        store_ck(p, t);
        break;
    case QUERN_LAYOUT_GPTQ:
        store_gptq(p, t);
        break;
    case QUERN_LAYOUT_AWQ:
        store_awq(p, t);
        break;
    default:
        store_rows(p, t);
    }
}

/* Converts all tiles of one band: TILE_ROWS rows of W. */
static void convert_band(void *user, size_t band)
{
    const struct packed *const p = user;
    struct tile t = {.row = band * TILE_ROWS};

    t.rows = p->n - t.row < TILE_ROWS ? p->n - t.row : TILE_ROWS;
    for (t.first = 0; t.first < p->words; t.first += TILE_WORDS) {
        t.words = p->words - t.first < TILE_WORDS ? p->words - t.first : TILE_WORDS;
        load(p, &t);
        store(p, &t);
    }
}

bool quant_is_packed_int4(const struct quern_problem *p)
{
    return p->wq == QUERN_W_INT4 && p->layout != QUERN_LAYOUT_TILEN;
}

quern_status quant_repack(const struct quern_problem *problem, enum quern_layout to, const void *b,
                          void *out)
{
    return quant_repack_columns(problem, to, b, NULL, out);
}

quern_status quant_repack_columns(const struct quern_problem *problem, enum quern_layout to,
                                  const void *b, const uint32_t *perm, void *out)
{
    struct quern_problem target = *problem;

    FAIL_IF(!quant_is_packed_int4(problem), QUERN_E_DECLINED,
            "wq=%s in layout=%s cannot be repacked; int4 in layout k8, exl, ck, gptq or awq can be",
            weight_name(problem->wq), layout_name(problem->layout));
    target.layout = to;
    TRY(problem_normalise(&target, &target)); /* the layout may want multiples of its own */
    FAIL_IF(!quant_is_packed_int4(&target), QUERN_E_DECLINED,
            "int4 cannot be repacked to layout=%s; to k8, exl, ck, gptq or awq it can be",
            layout_name(to));
    if (to == problem->layout && !perm) {
        memcpy(out, b, (size_t)problem->n * (size_t)problem->k / 2);
        return QUERN_OK;
    }
    struct packed p = {.n = (size_t)problem->n,
                       .words = (size_t)problem->k / 8,
                       .from = problem->layout,
                       .to = to,
                       .perm = perm,
                       .in = b,
                       .out = out};
    parallel_for((p.n + TILE_ROWS - 1) / TILE_ROWS, os_cpu_count(), convert_band, &p);
    return QUERN_OK;
}

quern_status quern_repack(const struct quern_problem *problem, enum quern_layout to, const void *b,
                          void *out)
{
    struct quern_problem p;

    TRY(problem_normalise(problem, &p));
    FAIL_IF(!b || !out, QUERN_E_ARGUMENT, "%s is null", b ? "out" : "b");
    const uintptr_t from = (uintptr_t)b, end = (uintptr_t)out;
    const uint64_t bytes = (uint64_t)p.n * (uint64_t)p.k / 2;
    FAIL_IF((from | end) % 4, QUERN_E_ALIGN, "%s is %p; expected a multiple of 4",
            from % 4 ? "b" : "out", from % 4 ? b : out);
    FAIL_IF(from < end + bytes && end < from + bytes, QUERN_E_ARGUMENT,
            "b and out overlap; repacking needs two buffers");
    return quant_repack(&p, to, b, out);
}
