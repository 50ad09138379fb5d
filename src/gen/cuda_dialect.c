/* SPDX-License-Identifier: MIT */
/* Source for NVRTC: which templates, what they ask of a processor, and the compiler's options. */
#include "gen/dialects.h"
#include "plan/family.h"

/* A test reads the templates and compares. */
#define ASKED 0

static void add_options(const struct plan *plan, struct str *options)
{
    if (plan->family->very_processor && plan->family->very_processor(plan))
        str_addf(options, "-arch=%sa\n", plan->target->name);
    /* Freestanding: --minimal leaves out the built-in headers, and -default-device makes constexpr
     * functions and tables without an attribute the GPU's. NVRTC's own cache would open the driver,
     * which no compile may need. Warning 1097 says that an attribute is ignored: a vector type of
     * clang's would become a scalar, and the kernel compute something else. */
    str_add(options, "-std=c++17\n--minimal\n-default-device\n-no-cache\n-diag-error=1097\n");
    str_add(options, "-diag-suppress=177\n"); /* constants that a shape has no use for */
}

const struct dialect dialect_nvidia = {template_files, ASKED, add_options};
