/* SPDX-License-Identifier: MIT */
/* What fakecuda (fakecuda.c) has for tests beside what fakehip.h declares, and what hosts call of
 * the CUDA driver, as cuda.h declares it. */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include "fakehip.h"

/* How often the primary context of a device is retained. */
FAKEHIP_API int fakecuda_retained(int device);
/* How many launches so far were allowed to begin before the one in front of them ended. */
FAKEHIP_API unsigned fakecuda_early_launches(void);

FAKEHIP_API int cuCtxGetDevice(int *device);
FAKEHIP_API int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);
FAKEHIP_API int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream);
FAKEHIP_API int cuStreamCreate(void **stream, unsigned flags);
FAKEHIP_API int cuStreamDestroy_v2(void *stream);
FAKEHIP_API int cuStreamBeginCapture_v2(void *stream, int mode);
FAKEHIP_API int cuStreamEndCapture(void *stream, void **graph);
FAKEHIP_API int cuStreamSynchronize(void *stream);
FAKEHIP_API int cuLaunchHostFunc(void *stream, void (*function)(void *), void *user);
FAKEHIP_API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
FAKEHIP_API int cuGraphLaunch(void *exec, void *stream);
FAKEHIP_API int cuGraphExecDestroy(void *exec);
FAKEHIP_API int cuGraphDestroy(void *graph);
FAKEHIP_API int cuFuncGetAttribute(int *value, int attribute, void *function);

#endif
