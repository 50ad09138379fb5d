/* SPDX-License-Identifier: MIT */
/*
 * BERT's uncased WordPiece tokenizer: clean, set ideographs apart, drop accents, lower; split at
 * spaces and punctuation; cover each word with the longest pieces that the vocabulary has. Names of
 * special tokens in the text ("[SEP]") are ordinary text here.
 */
#ifndef ENCODER_TOKENIZER_H
#define ENCODER_TOKENIZER_H

#include <stddef.h>

struct tokenizer;

/* Reads vocab.txt: one piece a line, its number is its id. Fails with a message. */
struct tokenizer *tokenizer_open(const char *vocab_path);
void tokenizer_close(struct tokenizer *t);

size_t tokenizer_size(const struct tokenizer *t);

/*
 * Writes [CLS], the text's tokens, [SEP] into ids, whose `limit` (2 at least) is never exceeded:
 * what does not fit is dropped from the end of the text. Returns how many; *dropped tells whether
 * any were.
 */
size_t tokenizer_encode(const struct tokenizer *t, const char *text, int *ids, size_t limit,
                        int *dropped);

#endif
