/* SPDX-License-Identifier: MIT */
/* What a shared library file says about itself, read from its ELF headers without loading it. */
#ifndef QUERN_COMPILE_LIBRARY_FILE_H
#define QUERN_COMPILE_LIBRARY_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes what identifies the file's contents, as hexadecimal text: its GNU build-id, or, where the
 * linker left none, "x" and the XXH3-128 of the whole file. 64 bytes suffice. False: not a readable
 * 64-bit ELF file.
 */
bool library_file_id(const char *path, char *id, size_t size);

/* Writes the first needed library (DT_NEEDED) whose name starts with `prefix`. False: none. */
bool library_file_needs(const char *path, const char *prefix, char *name, size_t size);

#endif
