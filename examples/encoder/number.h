/* SPDX-License-Identifier: MIT */
/* Activations in the types that a device takes. */
#ifndef ENCODER_NUMBER_H
#define ENCODER_NUMBER_H

#include <quern/quern.h>

/* Size of an f32, f16 or bf16. */
size_t number_bytes(enum quern_dtype type);

/* Writes element i of an array of that type, rounded to nearest, ties to even. */
void number_store(enum quern_dtype type, void *array, size_t i, float x);

#endif
