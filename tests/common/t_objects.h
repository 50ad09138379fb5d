/* SPDX-License-Identifier: MIT */
/* The code objects of tests/golden/objects, inside the test program. */
#ifndef T_OBJECTS_H
#define T_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

struct t_object {
    const char *name;   /* "axpy.gfx1151" */
    const char *target; /* "gfx1151" */
    const uint8_t *bytes;
    size_t size;
};

enum {
    T_AXPY_GFX1151,
    T_AXPY_GFX1201,
    T_AXPY_GFX942,
    T_HIDDEN_GFX1201,
    T_HIDDEN_GFX90A,
    T_OBJECT_COUNT
};

struct t_object t_object(int which);

#endif
