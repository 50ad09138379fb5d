/* SPDX-License-Identifier: MIT */
/*
 * fakehip: a libamdhip64.so.6 of ours whose GPUs are software GPUs. It has the functions that quern
 * and hosts like its tests and examples use, with the argument lists and error codes of the real
 * headers, and is as strict as the strictest runtime it stands for.
 *
 * FAKEHIP_DEVICES in the environment lists its GPUs, "gfx1151,gfx942:sramecc+:xnack-"; default one
 * gfx1151. A GPU that no software GPU runs loads modules and fails launches. Behind a name may
 * stand how a GPU differs from the software GPU with its fast arithmetic: "gfx1201/silicon" adds as
 * captured silicon; "gfx1201/transposed" does, too, but exchanges the factors of matrix
 * instructions, so that the elements of their results lie in other lanes; "gfx1201/nearest" rounds
 * the bf16 results of dot products to nearest, which no known GPU does.
 *
 * What follows is for tests, which find it with dlsym. All of it is thread-safe.
 */
#ifndef FAKEHIP_H
#define FAKEHIP_H

#include <stdbool.h>
#include <stddef.h>

#define FAKEHIP_API __attribute__((visibility("default")))

/* Calls made so far of a function by name, or (null) of all functions; 0 for an unknown name. */
FAKEHIP_API unsigned long fakehip_calls(const char *function);

/* From now on the nth call of `function` (1: the next) fails with this hipError_t, once. */
FAKEHIP_API void fakehip_fail(const char *function, int nth, int error);

/* The device is gone: what it is asked from now on fails with hipErrorLaunchFailure. */
FAKEHIP_API void fakehip_lose(int device);

/* Modules for another processor are taken, as some drivers do; launching their kernels fails. */
FAKEHIP_API void fakehip_take_any_object(bool yes);

/* Launches do everything but run the kernel: what is left is the cost of the call. */
FAKEHIP_API void fakehip_skip_kernels(bool yes);

/* Launches return at once, not even counted: what is left is the cost of what quern does. */
FAKEHIP_API void fakehip_empty_launches(bool yes);

/* Where the host finds memory of the current device; null if it has no such memory. */
FAKEHIP_API void *fakehip_host(const void *address, size_t bytes);

/* Undoes the four above and what fakehip_fail planned. Nothing may be in flight. */
FAKEHIP_API void fakehip_reset(void);

#endif
