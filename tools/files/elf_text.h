/* SPDX-License-Identifier: MIT */
/* The machine code of a code object, for a listing: every kernel's place in it. */
#ifndef TOOLS_ELF_TEXT_H
#define TOOLS_ELF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the bytes of symbol `name` (a function) in a 64-bit ELF file, with its address. False when
 * the file has no such symbol, or anything about it lies outside the file. */
bool elf_function(const void *file, size_t size, const char *name, const void **code,
                  size_t *code_bytes, uint64_t *address);

#endif
