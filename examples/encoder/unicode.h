/* SPDX-License-Identifier: MIT */
/* What a tokenizer needs to know about characters. */
#ifndef ENCODER_UNICODE_H
#define ENCODER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNICODE_REPLACEMENT 0xfffd

/* Reads one character and moves *text behind it; bytes that are no UTF-8 give UNICODE_REPLACEMENT,
 * one at a time. *text must not be at its final NUL. */
uint32_t utf8_next(const char **text);

/* Writes a character as one to four bytes without a NUL; returns how many. */
size_t utf8_put(char *to, uint32_t c);

bool unicode_is_space(uint32_t c);       /* White_Space */
bool unicode_is_mark(uint32_t c);        /* a non-spacing mark: what stripping accents drops */
bool unicode_is_punctuation(uint32_t c); /* for BERT: also $ + < = > ^ ` | ~ */
bool unicode_is_invisible(uint32_t c);   /* control, format and private-use characters */
bool unicode_is_ideograph(uint32_t c);   /* the CJK blocks that BERT sets apart */

/* Takes off accents and makes lower case: at most three characters, as Hangul syllables come apart.
 * Returns how many. */
size_t unicode_fold(uint32_t c, uint32_t to[3]);

#endif
