/* SPDX-License-Identifier: MIT */
/* What an entry of a cache or a bundle is, in an operator's words: read out of its key text, which
 * has the head of the kernel's source (docs/formats.md). */
#ifndef TOOLS_LAYER_WORDS_H
#define TOOLS_LAYER_WORDS_H

#include "command/command.h"

/* "" where the key text does not say: it is of a kernel that a foreign hand, or none, made. */
struct layer_words {
    char target[64], m[48], kernel[128];
    char problem[QUERN_TEXT_MAX]; /* canonical */
};

void layer_words_of(const char *key_text, struct layer_words *words);

/* Orders by target, problem, and the first of the rows. */
int layer_words_compare(const struct layer_words *a, const struct layer_words *b);

#endif
