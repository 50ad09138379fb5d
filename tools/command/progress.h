/* SPDX-License-Identifier: MIT */
/* A progress bar on stderr, when stderr is a terminal; otherwise nothing. Not thread-safe. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stddef.h>

/* Draws "LABEL [=====     ] 3/10 WHAT" over the last one. */
void progress_draw(const char *label, size_t done, size_t total, const char *what);
/* Takes the bar away; call it before anything else is printed. */
void progress_clear(void);

#endif
