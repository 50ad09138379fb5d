/* SPDX-License-Identifier: MIT */
/*
 * fakeblas: a libhipblaslt.so.0 of ours on fakehip, and a libcublasLt.so.12 on fakecuda. Products
 * are computed by the host, in f32, in the order of their streams; what is wrong with a call has
 * the status that the real library documents. As there, a product's code is loaded when it is first
 * run, which no capture survives.
 *
 * What follows is for tests. All of it is thread-safe.
 */
#ifndef FAKEBLAS_H
#define FAKEBLAS_H

/* Products run so far. */
__attribute__((visibility("default"))) unsigned long fakeblas_products(void);

/* From now on the nth call of `function` (1: the next) gives this status, once. */
__attribute__((visibility("default"))) void fakeblas_fail(const char *function, int nth,
                                                          int status);

#endif
