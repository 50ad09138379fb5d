/* SPDX-License-Identifier: MIT */
// Dot products issued in pairs. The compiler makes such pairs of f16 on RDNA 3 only: it makes them
// of an instruction's single form, which RDNA 4 has no more, and bf16 never had. Two products can
// be paired if one sum is in an even and the other in an odd register, their first operands are in
// different ones of the four register banks, and their second operands, too. That is known only
// when registers are allocated: so a macro of the assembler looks, and writes the pair or two
// single ones.

#define TYPE_TEXT_(type) #type
#define TYPE_TEXT(type)  TYPE_TEXT_(type)

// Defines the macro, once in a kernel, and for every register a symbol with its number: the macro
// gets operands as names, and cannot compute with those otherwise.
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
