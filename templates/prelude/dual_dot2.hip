/* SPDX-License-Identifier: MIT */
// Dot products issued in pairs. The compiler makes such pairs of f16 on RDNA 3 alone: RDNA 4 has
// lost the single form of theirs, which bf16 never had. Two can be paired where their sums lie in
// an even and an odd register, their first operands in different banks, of which there are four,
// and their second ones too. Which registers they are is known when all are allocated, so that it
// is a macro of the assembler's that looks, and writes the pair or the two.

#define TYPE_TEXT_(type) #type
#define TYPE_TEXT(type)  TYPE_TEXT_(type)

// The macro's definition: once in a kernel, before the first pair.
DEVICE void define_dual_dot2()
{
    asm volatile(
        ".macro dot2_index symbol, register\n"
        "  .set \\symbol, 0\n"
        "  .irpc digit, \\register\n"
        "    .ifnc \\digit, v\n"
        "      .set \\symbol, \\symbol * 10 + \\digit\n"
        "    .endif\n"
        "  .endr\n"
        ".endm\n"
        ".macro dot2_pair d, a, b, e, f, g\n"
        "  dot2_index .Ld, \\d\n"
        "  dot2_index .La, \\a\n"
        "  dot2_index .Lb, \\b\n"
        "  dot2_index .Le, \\e\n"
        "  dot2_index .Lf, \\f\n"
        "  dot2_index .Lg, \\g\n"
        "  .set .Lodd, (.Ld ^ .Le) & 1\n"
        "  .if .Lodd & (((.La ^ .Lf) & 3) != 0) & (((.Lb ^ .Lg) & 3) != 0)\n"
        "    v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b :: "
        "v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\f, \\g\n"
        "  .elseif .Lodd & (((.La ^ .Lg) & 3) != 0) & (((.Lb ^ .Lf) & 3) != 0)\n"
        "    v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b :: "
        "v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\g, \\f\n"
        "  .else\n"
        "    v_dot2_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b, \\d\n"
        "    v_dot2_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\f, \\g, \\e\n"
        "  .endif\n"
        ".endm\n");
}

// sum += a * b and other += f * g, pairs of 16-bit values each.
DEVICE void dual_dot2(float &sum, u32 a, u32 b, float &other, u32 f, u32 g)
{
    asm("dot2_pair %0, %2, %3, %1, %4, %5"
        : "+v"(sum), "+v"(other)
        : "v"(a), "v"(b), "v"(f), "v"(g));
}
