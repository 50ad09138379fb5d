/* SPDX-License-Identifier: MIT */
#include "tokenizer.h"

#include "../fail.h"
#include "unicode.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer words are unknown without a look at the vocabulary. */
#define WORD_MAX   100
#define PIECES_MAX 1000000

struct tokenizer {
    char *text;    /* the file, its newlines made NUL */
    char **pieces; /* by id */
    size_t count;
    int *slots; /* open hashing: id + 1, or 0; a power of two of them */
    size_t mask;
    int cls, sep, unknown;
};

/* ---- The vocabulary -------------------------------------------------------------------------- */

/* FNV-1a over a prefix ("##" or "") and a piece. */
static size_t hash(const char *prefix, const char *piece, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *prefix; prefix++)
        h = (h ^ (unsigned char)*prefix) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)piece[i]) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 32);
}

/* The id of prefix + piece[0…n-1], or -1. */
static int find(const struct tokenizer *t, const char *prefix, const char *piece, size_t n)
{
    const size_t skip = strlen(prefix);

    for (size_t slot = hash(prefix, piece, n) & t->mask; t->slots[slot];
         slot = (slot + 1) & t->mask) {
        const char *const at = t->pieces[t->slots[slot] - 1];
        if (!strncmp(at, prefix, skip) && !strncmp(at + skip, piece, n) && !at[skip + n])
            return t->slots[slot] - 1;
    }
    return -1;
}

static void insert(struct tokenizer *t, int id)
{
    const char *const piece = t->pieces[id];
    size_t slot = hash("", piece, strlen(piece)) & t->mask;

    while (t->slots[slot])
        slot = (slot + 1) & t->mask;
    t->slots[slot] = id + 1;
}

static char *read_text(const char *path)
{
    FILE *const file = fopen(path, "rb");
    size_t size = 1 << 20, used = 0, got;
    char *text = allocate(size, 1);

    if (!file)
        fail("cannot read %s: %s", path, strerror(errno));
    while ((got = fread(text + used, 1, size - used - 1, file))) {
        used += got;
        if (size - used > 1)
            continue;
        text = realloc(text, size *= 2);
        if (!text)
            fail("out of memory (%zu bytes)", size);
    }
    if (ferror(file))
        fail("cannot read %s: %s", path, strerror(errno));
    fclose(file);
    text[used] = 0;
    return text;
}

static int special(const struct tokenizer *t, const char *name, const char *path)
{
    const int id = find(t, "", name, strlen(name));

    if (id < 0)
        fail("%s: there is no line %s", path, name);
    return id;
}

struct tokenizer *tokenizer_open(const char *vocab_path)
{
    struct tokenizer *const t = allocate(1, sizeof *t);
    size_t lines = 1;

    t->text = read_text(vocab_path);
    for (const char *at = t->text; *at; at++)
        lines += *at == '\n';
    if (lines > PIECES_MAX)
        fail("%s: %zu lines; a vocabulary has at most %d", vocab_path, lines, PIECES_MAX);
    t->pieces = allocate(lines, sizeof *t->pieces);
    for (char *at = t->text; *at;) {
        char *const end = at + strcspn(at, "\n");
        const int last = !*end;

        *end = 0;
        if (end > at && end[-1] == '\r')
            end[-1] = 0;
        t->pieces[t->count++] = at;
        at = last ? end : end + 1;
    }
    for (t->mask = 1; t->mask < 2 * lines; t->mask *= 2)
        ;
    t->slots = allocate(t->mask--, sizeof *t->slots);
    for (size_t id = 0; id < t->count; id++)
        insert(t, (int)id);
    t->cls = special(t, "[CLS]", vocab_path);
    t->sep = special(t, "[SEP]", vocab_path);
    t->unknown = special(t, "[UNK]", vocab_path);
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    free(t->slots);
    free(t->pieces);
    free(t->text);
    free(t);
}

size_t tokenizer_size(const struct tokenizer *t)
{
    return t->count;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Where tokens go, and the word that is being read: in UTF-8, with the place of each character. */
struct encoding {
    const struct tokenizer *tokenizer;
    int *ids;
    size_t count, limit;
    int dropped;
    char word[4 * WORD_MAX + 1];
    size_t start[WORD_MAX + 1];
    size_t characters; /* counted beyond WORD_MAX, but not kept */
};

static void put(struct encoding *e, int id)
{
    if (e->count < e->limit)
        e->ids[e->count++] = id;
    else
        e->dropped = 1;
}

/* Ends the word: covers it from the left, with the longest piece each time. */
static void end_word(struct encoding *e)
{
    int pieces[WORD_MAX];
    size_t count = 0, from = 0;

    while (e->characters <= WORD_MAX && from < e->characters) {
        size_t to = e->characters;
        int id = -1;

        for (; to > from; to--) {
            id = find(e->tokenizer, from ? "##" : "", e->word + e->start[from],
                      e->start[to] - e->start[from]);
            if (id >= 0)
                break;
        }
        if (id < 0)
            break;
        pieces[count++] = id;
        from = to;
    }
    if (from < e->characters)
        put(e, e->tokenizer->unknown); /* all of it, whatever was found at its beginning */
    else
        for (size_t i = 0; i < count; i++)
            put(e, pieces[i]);
    e->characters = 0;
}

static void add_character(struct encoding *e, uint32_t c)
{
    if (e->characters < WORD_MAX) {
        const size_t at = e->characters ? e->start[e->characters] : 0;
        e->start[e->characters] = at;
        e->start[e->characters + 1] = at + utf8_put(e->word + at, c);
    }
    e->characters++;
}

static void read_character(struct encoding *e, uint32_t c)
{
    uint32_t folded[3];

    /* of the control characters only these three are spaces, the others vanish */
    if (c == '\t' || c == '\n' || c == '\r')
        c = ' ';
    if (c == UNICODE_REPLACEMENT || unicode_is_invisible(c))
        return;
    if (unicode_is_space(c)) {
        end_word(e);
        return;
    }
    const int alone = unicode_is_ideograph(c);
    if (alone)
        end_word(e);
    const size_t n = unicode_fold(c, folded);
    for (size_t i = 0; i < n; i++) {
        const int apart = unicode_is_punctuation(folded[i]);
        if (apart)
            end_word(e);
        add_character(e, folded[i]);
        if (apart)
            end_word(e);
    }
    if (alone)
        end_word(e);
}

size_t tokenizer_encode(const struct tokenizer *t, const char *text, int *ids, size_t limit,
                        int *dropped)
{
    struct encoding e = {.tokenizer = t, .ids = ids, .limit = limit - 1};

    put(&e, t->cls);
    while (*text)
        read_character(&e, utf8_next(&text));
    end_word(&e);
    e.limit = limit;
    put(&e, t->sep);
    *dropped = e.dropped;
    return e.count;
}
