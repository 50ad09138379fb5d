/* SPDX-License-Identifier: MIT */
#include "t_objects.h"

/* Taken in by the assembler, whose paths start where the build runs: the root of the tree. */
#define GOLDEN(symbol, file)                                                                       \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #symbol "_begin, " #symbol "_end\n"                                         \
            ".balign 16\n" #symbol "_begin:\n"                                                     \
            ".incbin \"tests/golden/objects/" file "\"\n" #symbol "_end:\n"                        \
            ".byte 0\n"                                                                            \
            ".text\n");                                                                            \
    extern const uint8_t symbol##_begin[], symbol##_end[]

GOLDEN(t_axpy_gfx1151, "axpy.gfx1151.co");
GOLDEN(t_axpy_gfx1201, "axpy.gfx1201.co");
GOLDEN(t_axpy_gfx942, "axpy.gfx942.co");
GOLDEN(t_hidden_gfx1201, "hidden.gfx1201.co");
GOLDEN(t_hidden_gfx90a, "hidden.gfx90a.co");

struct t_object t_object(int which)
{
#define OBJECT(name, target, symbol)                                                               \
    {name, target, symbol##_begin, (size_t)(symbol##_end - symbol##_begin)}
    const struct t_object objects[T_OBJECT_COUNT] = {
        [T_AXPY_GFX1151] = OBJECT("axpy.gfx1151", "gfx1151", t_axpy_gfx1151),
        [T_AXPY_GFX1201] = OBJECT("axpy.gfx1201", "gfx1201", t_axpy_gfx1201),
        [T_AXPY_GFX942] = OBJECT("axpy.gfx942", "gfx942", t_axpy_gfx942),
        [T_HIDDEN_GFX1201] = OBJECT("hidden.gfx1201", "gfx1201", t_hidden_gfx1201),
        [T_HIDDEN_GFX90A] = OBJECT("hidden.gfx90a", "gfx90a", t_hidden_gfx90a),
    };

    return objects[which];
}
