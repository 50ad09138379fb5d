/* SPDX-License-Identifier: MIT */
/* A kernel with explicit arguments of several sizes, static LDS and a barrier. */
typedef unsigned int u32;
#define kernel extern "C" __attribute__((global)) void

kernel axpy(float *y, const float *x, float a, long n, short twice)
{
    static __attribute__((shared)) float tile[64];
    const u32 t = __builtin_amdgcn_workitem_id_x();
    const long i = (long)__builtin_amdgcn_workgroup_id_x() * 64 + t;

    tile[t] = i < n ? x[i] : 0.0f;
    __builtin_amdgcn_s_barrier();
    if (i < n)
        y[i] += a * tile[t ^ 1] * (twice ? 2.0f : 1.0f);
}
