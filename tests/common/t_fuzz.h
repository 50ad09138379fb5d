/* SPDX-License-Identifier: MIT */
/*
 * Fuzz targets. A file of tests/fuzz defines LLVMFuzzerTestOneInput and ends with FUZZ_MAIN(name).
 * Built as an ordinary test it replays the corpus of that name, and then inputs made from it by
 * changes that are the same in every run. `make fuzz` builds the same file with libFuzzer.
 *
 * A target returns 0 for every input; what it finds wrong it reports by abort(), or leaves to the
 * sanitizers.
 */
#ifndef T_FUZZ_H
#define T_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The main function of a replay: `changed` inputs are made from the corpus of that name. */
int t_fuzz_main(const char *corpus, unsigned changed,
                int (*target)(const uint8_t *data, size_t size));

#ifdef FUZZING
#define FUZZ_MAIN(CORPUS, CHANGED)
#else
#define FUZZ_MAIN(CORPUS, CHANGED)                                                                 \
    int main(void)                                                                                 \
    {                                                                                              \
        return t_fuzz_main(CORPUS, CHANGED, LLVMFuzzerTestOneInput);                               \
    }
#endif

/* Must hold whatever the input is. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
