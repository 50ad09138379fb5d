/* SPDX-License-Identifier: MIT */
// Dot products issued in pairs. The compiler makes such pairs of f16 on RDNA 3 alone: RDNA 4 has
// lost the single form of theirs, which bf16 never had. Two can be paired where their sums lie in
// an even and an odd register, their first operands in different banks, of which there are four,
// and their second ones too. Which registers they are is known when all are allocated, so that it
// is a macro of the assembler's that looks, and writes the pair or the two.

#define TYPE_TEXT_(type) #type
#define TYPE_TEXT(type)  TYPE_TEXT_(type)

// What pairs need, once in a kernel: the macro, and for every register a symbol of its number, as
// operands are no more than names to it.
DEVICE void define_dual_dot2()
{
    asm volatile(
        ".irpc ones, 0123456789\n"
        "  .set .Lv\\ones, \\ones\n"
        ".endr\n"
        ".irp tens, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25\n"
        "  .irpc ones, 0123456789\n"
        "    .set .Lv\\tens\\ones, \\tens\\ones\n"
        "  .endr\n"
        ".endr\n"
        ".macro dot2_pair d, a, b, e, f, g\n"
        "  .set .Lodd, (.L\\d ^ .L\\e) & 1\n"
        "  .if .Lodd & (((.L\\a ^ .L\\f) & 3) != 0) & (((.L\\b ^ .L\\g) & 3) != 0)\n"
        "    v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\d, \\a, \\b :: "
        "v_dual_dot2acc_f32_" TYPE_TEXT(PAIR_TYPE) " \\e, \\f, \\g\n"
        "  .elseif .Lodd & (((.L\\a ^ .L\\g) & 3) != 0) & (((.L\\b ^ .L\\f) & 3) != 0)\n"
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
