/* SPDX-License-Identifier: MIT */
/*
 * What a finding says: who did what to which bytes, to the lane and the byte. More mistakes are in
 * test_sim_faults.c.
 */
#include "mistake.h"

static const struct mistake mistakes[] = {
    {.name = "arguments read past their end",
     .groups = 1,
     .items = 1,
     .body = "u32 v; asm volatile(S_LOAD \"%0, %1, 0x14\" LOADED : \"=s\"(v) : \"s\"(KERNARG + "
             "WRONG * 4)); c[LANE] = v;",
     .insn = "S_LOAD",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"out of bounds, offset 24 of buffer \"kernarg\", which has 24 bytes"}},
    {.name = "scalar load that is half outside",
     .groups = 1,
     .items = 1,
     .body = "u64 v; asm volatile(S_LOAD_2 \"%0, %1, 0x3f8\" LOADED : \"=s\"(v) : \"s\"(a + "
             "WRONG)); c[LANE] = (u32)v;",
     .insn = "S_LOAD_2",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"offset 1020 of buffer \"a\", which has 1024 bytes"}},
    {.name = "scalar load by a descriptor that reaches too far",
     .groups = 1,
     .items = 1,
     .body = "u32x4 r = {(u32)(u64)a, (u32)((u64)a >> 32), 1024 + 8 * WRONG, DESCRIPTOR}, v;\n"
             "asm volatile(S_BUFFER_LOAD_4 \"%0, %1, 0x3fc\" LOADED : \"=s\"(v) : \"s\"(r)); "
             "c[LANE] = v.x + v.y + v.z + v.w;",
     .insn = "S_BUFFER_LOAD_4",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"read of 12 bytes", "offset 1020 of buffer \"a\""}},
    {.name = "atomic on a buffer that may only be read",
     .groups = 2,
     .items = TWO_WAVES,
     .body = "__atomic_fetch_add(WRONG && GROUP && LANE == WAVE + 3 ? (u32 *)a + 9 : b + LANE, 1u, "
             "0); c[GROUP * 128 + LANE] = 0;",
     .insn = "ATOMIC_ADD",
     .where = "workgroup 1,0,0, wave 1, lane 3",
     .found = {"offset 36 of buffer \"a\", which may only be read"}},
    {.name = "LDS atomic out of range",
     .groups = 1,
     .items = TWO_WAVES,
     .body = "SHARED u32 s[128]; s[LANE] = 0; barrier(); asm volatile(\"ds_add_u32 %0, %1\" LOADED "
             ":: \"v\"((u32)(LDS u32 *)s + (WRONG && LANE == WAVE + 5 ? 512 : LANE * 4)), "
             "\"v\"(1) : \"memory\"); barrier(); c[LANE] = s[LANE];",
     .insn = "ds_add_u32 ",
     .where = "workgroup 0,0,0, wave 1, lane 5",
     .found = {"LDS access of 4 bytes at 0x200 is outside the 512 bytes of the workgroup"}},
    {.name = "LDS pair of which one is out of range",
     .groups = 1,
     .items = 32,
     .body = "SHARED u32 s[64]; s[LANE] = s[LANE + 32] = 0; barrier(); u64 v;\n"
             "asm volatile(DS_LOAD_PAIR \"%0, %1 offset0:0 offset1:%2\" LOADED : \"=v\"(v) : "
             "\"v\"((u32)(LDS u32 *)s + LANE * 4), \"n\"(32 + WRONG)); c[LANE] = (u32)v;",
     .insn = "DS_LOAD_PAIR",
     .where = "workgroup 0,0,0, wave 0, lane 31",
     .found = {"LDS access of 4 bytes at 0x100 is outside the 256 bytes of the workgroup"}},
    {.name = "LDS race of one lane, among others that read what is known",
     .full = true,
     .groups = 1,
     .items = TWO_WAVES,
     .body =
         "SHARED u32 s[128]; volatile LDS u32 *const t = (LDS u32 *)s; t[LANE] = 1; barrier();\n"
         "u32 v = t[LANE]; if (LANE == 9) t[9] = v + 1; if (!WRONG) barrier();\n"
         "v += t[LANE == WAVE + 9 ? 9 : LANE]; c[LANE] = v;",
     .insn = "DS_LOAD",
     .where = "workgroup 0,0,0, wave 1, lane 9",
     .found =
         {"LDS race: byte 0x24 was written by wave 0 since the last barrier and is read here"}},
    {.name = "LDS race with a wave that has read what it wrote",
     .full = true,
     .groups = 1,
     .items = TWO_WAVES,
     .body = "SHARED u32 s[128]; volatile LDS u32 *const t = (LDS u32 *)s; t[LANE] = 1;\n"
             "u32 v = t[LANE]; if (!WRONG) barrier(); v += t[LANE % WAVE]; c[LANE] = v;",
     .insn = "DS_LOAD",
     .where = "workgroup 0,0,0, wave 1, lane 0",
     .found = {"LDS race: byte 0x0 was written by wave 0 since the last barrier and is read here"}},
    {.name = "LDS race of a byte with those who read its dword",
     .full = true,
     .groups = 1,
     .items = TWO_WAVES,
     .body =
         "SHARED u32 s[128]; volatile LDS u32 *const t = (LDS u32 *)s; t[LANE] = 1; barrier();\n"
         "u32 v = t[LANE % WAVE]; if (!WRONG) barrier();\n"
         "if (LANE == WAVE + 9) ((volatile LDS u8 *)t)[38] = 7; c[LANE] = v;",
     .where = "workgroup 0,0,0, wave 1, lane 9",
     .found =
         {"LDS race: byte 0x26 was read by several waves since the last barrier and is written "
          "here"}},
    {.name = "LDS that one lane reads before it is written",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = "SHARED u32 s[32]; volatile LDS u32 *const t = (LDS u32 *)s;\n"
             "if (!WRONG || LANE != 9) t[LANE] = 1; barrier(); c[LANE] = t[LANE];",
     .where = "workgroup 0,0,0, wave 0, lane 9",
     .found = {"reach a store to memory", "`ds_", "from LDS 0x24, which was never written"}},
    {.name = "trap",
     .groups = 1,
     .items = 32,
     .body = "if (WRONG) __builtin_trap(); c[LANE] = 1;",
     .insn = "s_trap ",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"trap"}},
    {.name = "undefined condition of a branch on VCC",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = "u32 x = 1; if (WRONG) UNDEFINED(x); asm volatile(\"v_cmp_lt_u32 \" VCC \", 5, %0\\n "
             "s_cbranch_vccnz 1f\\n s_nop 1\\n 1:\" :: \"v\"(x) : \"vcc\"); c[LANE] = 1;",
     .insn = "s_cbranch_vccnz ",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"undefined bits", "reach a branch condition (VCC)", "which was never written"}},
    {.name = "undefined value read from a lane decides a branch",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = "u32 x; UNDEFINED(x); x = WRONG && LANE == 7 ? x : LANE;\n"
             "if (__builtin_amdgcn_readlane(x, 7) > 9) asm volatile(\"s_nop 1\"); c[LANE] = 1;",
     .insn = "s_cbranch_",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"undefined bits", "which was never written"}},
    {.name = "undefined first operand, of two with modifiers, in a wave's last lane",
     .full = true,
     .groups = 1,
     .items = TWO_WAVES,
     .body = "u32 x, v; UNDEFINED(x); x = WRONG && LANE == WAVE - 1 ? x : LANE;\n"
             "asm volatile(\"v_add_f32 %0, -%1, |%2|\" : \"=v\"(v) : \"v\"(x), \"v\"(LANE)); "
             "c[LANE] = v;",
     .found = {"undefined bits", "reach a store to memory", "which was never written"}},
    {.name = "undefined address of a scalar load",
     .full = true,
     .groups = 1,
     .items = 1,
     .body = "u32 x = 0, v; if (WRONG) UNDEFINED_SCALAR(x); asm volatile(S_LOAD \"%0, %1, 0x0\" "
             "LOADED : \"=s\"(v) : \"s\"(a + (x & 1))); c[LANE] = v;",
     .insn = "S_LOAD",
     .where = "workgroup 0,0,0, wave 0",
     .found = {"reach an address", "scalar register 77, which was never written"}},
    {.name = "undefined operand of an atomic",
     .full = true,
     .groups = 1,
     .items = 32,
     .body = "u32 x; UNDEFINED(x); x = WRONG && LANE == 9 ? x : 1;\n"
             "__atomic_fetch_add(b + LANE, x, 0); c[LANE] = 1;",
     .insn = "ATOMIC_ADD",
     .where = "workgroup 0,0,0, wave 0, lane 9",
     .found = {"undefined bits 0xffffffff reach an atomic", "which was never written"}},
};

static void every_finding(void **state)
{
    (void)state;
    check_mistakes(mistakes, COUNT(mistakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_finding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
