/* SPDX-License-Identifier: MIT */
/* Source for hipRTC: which templates, what they ask of a processor, and the compiler's options. */
#include "gen/dialects.h"
#include "plan/family.h"

/* A test reads the templates and compares. */
#define ASKED                                                                                      \
    (CAP_MFMA | CAP_MFMA_WIDE_K | CAP_FP8_CVT | CAP_FP8_FNUZ | CAP_CVT_SCALEF32 |                  \
     CAP_CVT_PK_BF16 | CAP_SDWA | CAP_VOP3_LITERAL | CAP_ROW_XMASK | CAP_DPP_INTERLOCK |           \
     CAP_SPLIT_BARRIER)

static void add_options(const struct plan *plan, struct str *options)
{
    /* freestanding: no header and no device library, which are most of a compile */
    str_add(options, "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17\n");
    /* the newest that loaders of all of ROCm 6 and 7 accept; compilers' own choice differs */
    str_add(options, "-mcode-object-version=5\n");
    /* a workgroup stays in one compute unit, next to its LDS and its first-level cache */
    if (plan->target->wgp)
        str_add(options, "-mcumode\n");
    /* LLVM 21 uses one half of a register while a load of the other half is under way, which on
     * RDNA 3 disturbs it (LLVM 22 waits for the load). No halves, no such loads. */
    if (plan->target->capabilities & CAP_D16_CLOBBERS)
        str_add(options, "-Xclang\n-target-feature\n-Xclang\n-real-true16\n");
    /* Kernels by table name each load and each address once: two searches of LLVM for what is there
     * twice find nothing to change in them, nor in fp8 that becomes f16, and take a tenth of the
     * compile. Others gain by them. */
    if (plan->family->plain_text && plan->family->plain_text(plan))
        str_add(options, "-mllvm\n-amdgpu-scalar-ir-passes=false\n"
                         "-mllvm\n-enable-gvn-memdep=false\n");
    /* LLVM 21's pass that ties loads into clauses, for targets that may replay them, writes past
     * its memory where a tuple of registers is loaded in part; no clauses, no harm. What clauses
     * must keep apart its hazard recogniser keeps apart too. */
    if (plan->target->xnack)
        str_add(options, "-mllvm\n-amdgpu-max-memory-clause=1\n");
}

const struct dialect dialect_amd = {template_files, ASKED, add_options};
