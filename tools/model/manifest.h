/* SPDX-License-Identifier: MIT */
/*
 * A manifest of layers: what QUERN_RECORD notes of a run, and `quern prewarm --manifest` makes
 * elsewhere. Text, one layer a line: "target=gfx1151 m=1-8 PROBLEM"; the words target and m, each
 * of which may be missing, stand before the problem's. Empty lines and lines that begin with '#'
 * say nothing; a layer that comes again is one layer, with the rows of all its lines.
 */
#ifndef TOOLS_MANIFEST_H
#define TOOLS_MANIFEST_H

#include "command/options.h"

struct manifest_line {
    char target[32]; /* "": for any */
    char text[QUERN_TEXT_MAX];
    struct m_set m; /* count 0: not said */
};

struct manifest {
    size_t count;
    struct manifest_line *lines; /* by target and problem */
};

/* EXIT_FAILED with the file's name and the line's number when something in it is wrong. */
int manifest_read(const char *path, struct manifest *manifest);
void manifest_free(struct manifest *manifest);

#endif
