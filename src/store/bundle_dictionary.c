/* SPDX-License-Identifier: MIT */
/*
 * Choosing what goes into a bundle's dictionary (bundle_pack.h): the stretches of entries that have
 * most in common with others. The method is COVER (Liao, Petri, Moffat and Wirth, "Effective
 * Construction of Relative Lempel-Ziv Dictionaries", 2016), counting by hashes: the entries are cut
 * into as many epochs as there is room for stretches, and of each epoch the stretch is taken whose
 * words occur most often anywhere and are not in the dictionary yet.
 *
 * zstd brings the same, but Debian's libzstd.a has it in a form that no shared library can link.
 */
#include "store/bundle_pack.h"

#include "base/os.h"

#include <stdint.h>
#include <string.h>

#define WORD_BYTES    8                 /* of which occurrences are counted */
#define STRETCH_BYTES ((size_t)4 << 10) /* what is shared are whole functions of source text */
#define HASH_BITS     20
/* An epoch is several times what is taken of it, so that there is something to choose. */
#define EPOCH_BYTES_MIN (10 * STRETCH_BYTES)
/* So often the room is gone through; a stretch taken in one round changes what the next finds. */
#define ROUNDS 4
/* Epochs in a row without anything in common after which the dictionary is done. */
#define BARREN_MAX 10
/* It is learnt from this many bytes at most, of entries evenly spread over all. */
#define SAMPLES_BYTES_MAX ((size_t)64 << 20)

struct cover {
    uint8_t *samples; /* entries one behind another */
    size_t bytes;
    uint32_t *count;  /* how often words of a hash occur besides the first time; 0: or are taken */
    uint16_t *inside; /* and how often in the stretch that is looked at */
};

static uint32_t word_at(const struct cover *c, size_t at)
{
    uint64_t word;

    memcpy(&word, c->samples + at, sizeof word);
    return (uint32_t)(word * 0x9E3779B97F4A7C15u >> (64 - HASH_BITS));
}

/* Finds the stretch of an epoch whose words, each taken once, occur most often; returns the score.
 */
static uint64_t best_stretch(struct cover *c, size_t begin, size_t end, size_t *best)
{
    const size_t words = STRETCH_BYTES - WORD_BYTES + 1;
    uint64_t score = 0, most = 0;
    size_t first = begin;

    for (size_t at = begin; at + WORD_BYTES <= end; at++) {
        const uint32_t in = word_at(c, at);
        if (!c->inside[in]++)
            score += c->count[in];
        if (at - first == words) {
            const uint32_t out = word_at(c, first++);
            if (!--c->inside[out])
                score -= c->count[out];
        }
        if (score > most) {
            most = score;
            *best = first;
        }
    }
    memset(c->inside, 0, sizeof *c->inside << HASH_BITS);
    return most;
}

/* Fills the dictionary from its end, where matches have the shortest distances; returns the bytes
 * that are left free before it. */
static size_t fill(struct cover *c, uint8_t *dictionary, size_t room)
{
    const size_t epochs_wanted = room / STRETCH_BYTES / ROUNDS;
    size_t size = c->bytes / epochs_wanted, left = room;

    if (size < EPOCH_BYTES_MIN)
        size = c->bytes < EPOCH_BYTES_MIN ? c->bytes : EPOCH_BYTES_MIN;
    const size_t epochs = c->bytes / size;
    for (size_t i = 0, barren = 0; left && barren < BARREN_MAX && barren < epochs; i++) {
        const size_t begin = i % epochs * size;
        size_t at = begin;
        barren = best_stretch(c, begin, begin + size, &at) ? 0 : barren + 1;
        if (barren)
            continue;
        size_t n = begin + size - at < STRETCH_BYTES ? begin + size - at : STRETCH_BYTES;
        n = n < left ? n : left;
        for (size_t j = at; j + WORD_BYTES <= at + n; j++)
            c->count[word_at(c, j)] = 0;
        left -= n;
        memcpy(dictionary + left, c->samples + at, n);
    }
    return left;
}

/* Copies entries one behind another, every `step`th, and counts their words. */
static void count_words(struct cover *c, const struct piece_bytes *entries, size_t count,
                        size_t step)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i += step) {
        memcpy(c->samples + at, entries[i].bytes, entries[i].size);
        at += entries[i].size;
    }
    for (at = 0; at + WORD_BYTES <= c->bytes; at++) {
        const uint32_t word = word_at(c, at);
        if (c->inside[word])
            c->count[word]++;
        c->inside[word] = 1;
    }
    memset(c->inside, 0, sizeof *c->inside << HASH_BITS);
}

/* How many entries one stands for among the samples, so that these are no more than allowed; *bytes
 * is what they have. */
static size_t sample_step(const struct piece_bytes *entries, size_t count, size_t *bytes)
{
    for (size_t step = 1;; step *= 2) {
        *bytes = 0;
        for (size_t i = 0; i < count; i += step)
            *bytes += entries[i].size;
        if (*bytes <= SAMPLES_BYTES_MAX || step >= count)
            return step;
    }
}

quern_status dictionary_make(const struct piece_bytes *entries, size_t count, void **dictionary,
                             size_t *size)
{
    struct cover c = {0};

    *dictionary = NULL;
    *size = 0;
    if (count < 2) /* nothing is shared; an entry alone is smaller without */
        return QUERN_OK;
    const size_t step = sample_step(entries, count, &c.bytes);
    uint8_t *const made = os.malloc(DICTIONARY_BYTES_MAX);
    c.samples = os.malloc(c.bytes);
    c.count = os.calloc((size_t)1 << HASH_BITS, sizeof *c.count);
    c.inside = os.calloc((size_t)1 << HASH_BITS, sizeof *c.inside);
    const bool enough = made && c.samples && c.count && c.inside;
    if (enough) {
        count_words(&c, entries, count, step);
        const size_t left = fill(&c, made, DICTIONARY_BYTES_MAX);
        *size = DICTIONARY_BYTES_MAX - left;
        memmove(made, made + left, *size);
    }
    os.free(c.samples);
    os.free(c.count);
    os.free(c.inside);
    if (*size)
        *dictionary = made;
    else
        os.free(made);
    FAIL_IF(!enough, QUERN_E_MEMORY, "no memory to learn a bundle's dictionary");
    return QUERN_OK;
}
