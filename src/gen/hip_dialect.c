/* SPDX-License-Identifier: MIT */
/* Source for hipRTC: which templates, what they ask of a processor, and the compiler's options. */
#include "gen/dialects.h"
#include "plan/base.h"
#include "plan/family.h"

/* The capabilities that a template asks for; a test reads the templates and compares. */
#define ASKED                                                                                      \
    (CAP_MFMA | CAP_MFMA_WIDE_K | CAP_FP8_CVT | CAP_FP8_FNUZ | CAP_CVT_SCALEF32 |                  \
     CAP_CVT_PK_BF16 | CAP_SDWA | CAP_VOP3_LITERAL | CAP_ROW_XMASK | CAP_DPP_INTERLOCK |           \
     CAP_SPLIT_BARRIER)

static void add_options(const struct plan *plan, struct str *options)
{
    /* kernels use no header and no device library, whose reading would be most of a compile */
    str_add(options, "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O3\n-std=c++17\n");
    /* the newest version that the loaders of all of ROCm 6 and 7 accept; the compilers' default
     * differs from release to release */
    str_add(options, "-mcode-object-version=5\n");
    /* a workgroup stays in one compute unit, next to its LDS and its first-level cache */
    if (plan->target->wgp)
        str_add(options, "-mcumode\n");
    /* LLVM 21 uses one half of a register while a load of the other half is under way; on RDNA 3
     * that load may overwrite it (LLVM 22 waits for the load). Without the use of halves there are
     * no such loads. */
    if (plan->target->capabilities & CAP_D16_CLOBBERS)
        str_add(options, "-Xclang\n-target-feature\n-Xclang\n-real-true16\n");
    /* Two passes of LLVM look for loads and addresses that occur twice. In kernels with decoding
     * tables, and in those that make f16 of fp8, they find none, and take a tenth of the compile
     * (plain_text in plan/family.h). Other kernels gain by them. */
    if (plan->family->plain_text && plan->family->plain_text(plan))
        str_add(options, "-mllvm\n-amdgpu-scalar-ir-passes=false\n"
                         "-mllvm\n-enable-gvn-memdep=false\n");
    /* The compiler names a symbol by a hash of the text, which has the target's name in its first
     * comment. Without that hash, targets of the same code have the same objects. */
    if (plan_is_base(plan))
        str_add(options, "-cuid=base\n");
    /* For targets that may replay loads (XNACK), a pass of LLVM 21 ties loads into clauses, and
     * writes past its memory where part of a tuple of registers is loaded. Clauses of one load keep
     * it from that. Nothing is lost: LLVM's hazard recogniser, too, keeps apart what must be. */
    if (plan->target->xnack)
        str_add(options, "-mllvm\n-amdgpu-max-memory-clause=1\n");
}

const struct dialect dialect_amd = {template_files, ASKED, add_options};
