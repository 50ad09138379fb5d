/* SPDX-License-Identifier: MIT */
/*
 * A vendor that is made up, for the test that a vendor is new files and rows: Mill, whose GPU
 * mill_1 multiplies f32 matrices. What it has is written as a real vendor's would be: a compiler
 * that is a shared library (mill_compiler.c), a format of objects that is no ELF (below), a runtime
 * (mill_device.c), a dialect and one family of kernels (mill_kernels.c). mill_tables.c registers
 * them beside AMD's.
 */
#ifndef MILL_H
#define MILL_H

#include "target/target.h"

#define VENDOR_MILL VENDOR_COUNT /* behind those of the library */

#define MILL_MAGIC "MILLOBJ1"

/* A whole object: one kernel that multiplies. Numbers are in the byte order of the machine. */
struct mill_object {
    char magic[8];
    uint32_t machine; /* elf_machine of the target's row */
    uint32_t lanes;   /* of a wave */
    uint32_t n, k;    /* of W */
    uint32_t m_tile;  /* rows of A of a slice */
    uint32_t rows;    /* of W, that a workgroup computes */
    char symbol[64];
};

/* How many GPUs the made-up runtime has; launches so far. */
extern int mill_devices, mill_launches;

#endif
