/* SPDX-License-Identifier: MIT */
/* Two kernels: one reads the hidden arguments, uses scratch and a table of addresses that the
 * loader
 * must relocate; one does nothing. */
typedef unsigned int u32;
typedef unsigned short u16;
#define kernel extern "C" __attribute__((global)) void
#define constant __attribute__((address_space(4)))

__attribute__((device)) u32 first[4] = {1, 2, 3, 4}, second[4];
__attribute__((device)) u32 *table[2] = {first, second + 1};

kernel hidden(u32 *out, int which)
{
    const constant u32 *const words = (const constant u32 *)__builtin_amdgcn_implicitarg_ptr();
    const constant u16 *const halves = (const constant u16 *)words;
    volatile u32 kept[8];

    for (int i = 0; i < 8; i++)
        kept[i] = out[i];
    for (int i = 0; i < 3; i++) {
        out[i] = words[i];          /* block counts */
        out[3 + i] = halves[6 + i]; /* group sizes */
        out[6 + i] = halves[9 + i]; /* remainders */
    }
    out[9] = halves[32]; /* grid dimensions */
    out[10] = kept[which & 7];
    out[11] = *table[which & 1];
}

kernel nothing() {}
