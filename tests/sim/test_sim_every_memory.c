/* SPDX-License-Identifier: MIT */
/*
 * Every load, store and atomic of every space, on every target that has it: which bytes go where,
 * what the rest of a register and of memory keeps, old and new value of an atomic.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "every/changes.h"
#include "t_gpu.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum space { GLOBAL, FLAT, SCRATCH, BUFFER, LDS };
static const char *const space_names[] = {"global_", "flat_", "scratch_", "buffer_", "ds_"};

/* ---- The instructions ------------------------------------------------------------------------ */

/* Loads and stores: names from gfx11 on and before, bytes, whether the sign is continued, and of
 * which register half they are (' ': the whole). */
struct copy {
    const char *name, *old, *lds, *old_lds;
    unsigned bytes;
    bool is_signed;
    char half;
};
static const struct copy loads[] = {
    {"load_u8", "load_ubyte", "load_u8", "read_u8", 1, false, ' '},
    {"load_i8", "load_sbyte", "load_i8", "read_i8", 1, true, ' '},
    {"load_u16", "load_ushort", "load_u16", "read_u16", 2, false, ' '},
    {"load_i16", "load_sshort", "load_i16", "read_i16", 2, true, ' '},
    {"load_b32", "load_dword", "load_b32", "read_b32", 4, false, ' '},
    {"load_b64", "load_dwordx2", "load_b64", "read_b64", 8, false, ' '},
    {"load_b96", "load_dwordx3", "load_b96", "read_b96", 12, false, ' '},
    {"load_b128", "load_dwordx4", "load_b128", "read_b128", 16, false, ' '},
    {"load_d16_u8", "load_ubyte_d16", "load_u8_d16", "read_u8_d16", 1, false, 'l'},
    {"load_d16_i8", "load_sbyte_d16", "load_i8_d16", "read_i8_d16", 1, true, 'l'},
    {"load_d16_b16", "load_short_d16", "load_u16_d16", "read_u16_d16", 2, false, 'l'},
    {"load_d16_hi_u8", "load_ubyte_d16_hi", "load_u8_d16_hi", "read_u8_d16_hi", 1, false, 'h'},
    {"load_d16_hi_i8", "load_sbyte_d16_hi", "load_i8_d16_hi", "read_i8_d16_hi", 1, true, 'h'},
    {"load_d16_hi_b16", "load_short_d16_hi", "load_u16_d16_hi", "read_u16_d16_hi", 2, false, 'h'},
};
static const struct copy stores[] = {
    {"store_b8", "store_byte", "store_b8", "write_b8", 1, false, ' '},
    {"store_b16", "store_short", "store_b16", "write_b16", 2, false, ' '},
    {"store_b32", "store_dword", "store_b32", "write_b32", 4, false, ' '},
    {"store_b64", "store_dwordx2", "store_b64", "write_b64", 8, false, ' '},
    {"store_b96", "store_dwordx3", "store_b96", "write_b96", 12, false, ' '},
    {"store_b128", "store_dwordx4", "store_b128", "write_b128", 16, false, ' '},
    {"store_d16_hi_b8", "store_byte_d16_hi", "store_b8_d16_hi", "write_b8_d16_hi", 1, false, 'h'},
    {"store_d16_hi_b16", "store_short_d16_hi", "store_b16_d16_hi", "write_b16_d16_hi", 2, false,
     'h'},
};

/* ---- Kernels --------------------------------------------------------------------------------- */

/*
 * Each instruction is a statement of the kernel of its space. Work-item l of instruction n has 16
 * bytes of x, of y and of z to read, and of m (memory that it changes) and r (what registers then
 * hold) to write, all at 16 * (32 * n + l). Scratch and LDS are copied from and to m around it.
 */
enum { LANES = 32, BYTES = 16 * LANES, STATEMENTS = 192 };

static const char frame[] =
    "typedef u32 u32x3 __attribute__((ext_vector_type(3)));\n"
    "typedef u64 u64x2 __attribute__((ext_vector_type(2)));\n"
    "#define LDSP __attribute__((address_space(3)))\n"
    "#define PRIVATE __attribute__((address_space(5)))\n"
    "DEVICE u32x4 cat(u32 v) { return u32x4{v, 0xeeeeeeee, 0xeeeeeeee, 0xeeeeeeee}; }\n"
    "DEVICE u32x4 cat(u32x2 v) { return u32x4{v.x, v.y, 0xeeeeeeee, 0xeeeeeeee}; }\n"
    "DEVICE u32x4 cat(u32x3 v) { return u32x4{v.x, v.y, v.z, 0xeeeeeeee}; }\n"
    "DEVICE u32x4 cat(u32x4 v) { return v; }\n"
    "DEVICE void cut(u32x4 v, u32 &d) { d = v.x; }\n"
    "DEVICE void cut(u32x4 v, u32x2 &d) { d = v.xy; }\n"
    "DEVICE void cut(u32x4 v, u32x3 &d) { d = v.xyz; }\n"
    "DEVICE void cut(u32x4 v, u32x4 &d) { d = v; }\n"
    "DEVICE void join(u32 c, u32 e, u32 &p) { p = c; }\n"
    "DEVICE void join(u32 c, u32 e, u32x2 &p) { p = u32x2{c, e}; }\n"
    "DEVICE void join(u32x2 c, u32x2 e, u32x2 &p) { p = c; }\n"
    "DEVICE void join(u32x2 c, u32x2 e, u32x4 &p) { p = u32x4{c.x, c.y, e.x, e.y}; }\n"
    "#define BEGIN(N) KERNEL k##N(const u32x4 *x, const u32x4 *y, const u32x4 *z, u32x4 *m, u32x4 "
    "*r) { SHARED u32x4 s[32]; u32x4 t[2]; u32x4 rsrc = {(u32)(u64)m, (u32)((u64)m >> 32), 0x100000"
    ", 0x27000};\n"
    "#define GLOBAL(P) (P)\n"
    "#define FLAT(P) (P)\n"
    "#define SCRATCH(P) (u32)(PRIVATE u32x4 *)t\n"
    "#define BUFFER(P) (u32)((u64)(P) - (u64)m)\n"
    "#define LDS(P) (u32)(LDSP u32x4 *)(s + LANE)\n"
    "#define BEFORE_GLOBAL\n#define BEFORE_FLAT\n#define BEFORE_BUFFER\n"
    "#define AFTER_GLOBAL\n#define AFTER_FLAT\n#define AFTER_BUFFER\n"
    "#define BEFORE_SCRATCH t[0] = m[i]; asm volatile(\"\" :: \"v\"((PRIVATE u32x4 *)t) : "
    "\"memory\");\n"
    "#define AFTER_SCRATCH asm volatile(\"\" :: \"v\"((PRIVATE u32x4 *)t) : \"memory\"); m[i] = "
    "t[0];\n"
    "#define BEFORE_LDS s[LANE] = m[i]; asm volatile(\"\" :: \"v\"((LDSP u32x4 *)s) : "
    "\"memory\");\n"
    "#define AFTER_LDS asm volatile(\"\" :: \"v\"((LDSP u32x4 *)s) : \"memory\"); m[i] = "
    "s[LANE];\n"
    /* a register that is loaded holds y before; a compare-and-swap has z behind the data */
    "#define LOAD(N, SPACE, T, TEXT) { const u32 i = 32 * N + LANE; T d; cut(y[i], d); "
    "BEFORE_##SPACE asm volatile(TEXT : \"+&v\"(d) : \"v\"(SPACE(m + i)), \"s\"(rsrc) : "
    "\"memory\"); AFTER_##SPACE r[i] = cat(d); }\n"
    "#define STORE(N, SPACE, T, TEXT) { const u32 i = 32 * N + LANE; T d; cut(x[i], d); "
    "BEFORE_##SPACE asm volatile(TEXT :: \"v\"(d), \"v\"(SPACE(m + i)), \"s\"(rsrc) : \"memory\"); "
    "AFTER_##SPACE r[i] = cat(d); }\n"
    "#define ATOMIC(N, SPACE, T, TD, TEXT) { const u32 i = 32 * N + LANE; T d, c, e; TD p; "
    "cut(y[i], d); cut(x[i], c); cut(z[i], e); join(c, e, p); BEFORE_##SPACE asm volatile(TEXT : "
    "\"+&v\"(d) : \"v\"(SPACE(m + i)), \"v\"(p), \"v\"(e), \"v\"(c) : \"memory\"); AFTER_##SPACE "
    "r[i] = cat(d); }\n"
    /* of a buffer the data and the result are one operand */
    "#define BUFFER_ATOMIC(N, T, TD, TEXT) { const u32 i = 32 * N + LANE; T c, e; TD p; cut(x[i], "
    "c); cut(z[i], e); join(c, e, p); asm volatile(TEXT : \"+&v\"(p) : \"v\"(BUFFER(m + i)), "
    "\"s\"(rsrc) : \"memory\"); r[i] = cat(p); }\n";

/* Where the operands of an address stand in the text, and with which offset. */
static const char *address_text(enum space space, unsigned address, unsigned rsrc)
{
    static char text[64];

    switch (space) {
    case GLOBAL:
    case SCRATCH:
        snprintf(text, sizeof text, "%%%u, off", address);
        break;
    case BUFFER:
        snprintf(text, sizeof text, "%%%u, %%%u, NULL_OFFSET offen", address, rsrc);
        break;
    case FLAT:
    case LDS:
        snprintf(text, sizeof text, "%%%u", address);
        break;
    }
    return text;
}

static const char *type_of_bytes(unsigned bytes)
{
    return bytes <= 4 ? "u32" : bytes == 8 ? "u32x2" : bytes == 12 ? "u32x3" : "u32x4";
}

struct statement {
    const struct copy *copy;
    const struct change *change;
    bool load, returns;
};

struct program {
    unsigned target;
    enum space space;
    size_t count;
    struct statement statements[STATEMENTS];
    char *source;
    size_t used, room;
};

static void say(struct program *p, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    p->used += (size_t)vsnprintf(p->source + p->used, p->room - p->used, format, ap);
    va_end(ap);
    assert_true(p->used + 1 < p->room);
}

static const char *const space_words[] = {"GLOBAL", "FLAT", "SCRATCH", "BUFFER", "LDS"};

static void add_copy(struct program *p, const struct copy *c, bool load)
{
    const bool gfx9 = p->target < 3;
    const char *const name = p->space == LDS ? (gfx9 ? c->old_lds : c->lds)
                             : gfx9          ? c->old
                                             : c->name;
    const unsigned n = (unsigned)p->count;

    p->statements[p->count++] = (struct statement){.copy = c, .load = load};
    if (!p->source) {
        char row[64];
        snprintf(row, sizeof row, "%s%s", space_names[p->space], name);
        t_gpu_skip_row(row, targets[p->target]);
        return;
    }
    say(p, "%s(%u, %s, %s, \"", load ? "LOAD" : "STORE", n, space_words[p->space],
        type_of_bytes(c->bytes));
    if (load || p->space == BUFFER)
        say(p, "%s%s %%0, %s", space_names[p->space], name, address_text(p->space, 1, 2));
    else if (p->space == GLOBAL || p->space == SCRATCH)
        say(p, "%s%s %%1, %%0, off", space_names[p->space], name);
    else
        say(p, "%s%s %%1, %%0", space_names[p->space], name);
    say(p, "\\n WAIT\")\n");
}

static void add_change(struct program *p, const struct change *c, bool returns)
{
    const bool gfx9 = p->target < 3;
    const bool swap = c->kind == CMPSWAP || c->kind == MASK_OR || c->kind == WRAP;
    const bool compare_first = c->kind == MASK_OR || (c->kind == CMPSWAP && gfx9);
    const char *const on = p->space == LDS      ? c->lds_on
                           : p->space == FLAT   ? c->flat_on
                           : p->space == BUFFER ? c->buffer_on
                                                : c->on;
    const char *const flag = p->target == 0   ? " glc"
                             : p->target <= 2 ? " sc0"
                             : p->target == 5 ? " th:TH_ATOMIC_RETURN"
                                              : " glc";
    const unsigned n = (unsigned)p->count;
    char name[64], row[80];

    if (!strchr(on, (int)('0' + p->target)) || (*on == 'R' && !returns))
        return;
    if (p->space == LDS)
        snprintf(name, sizeof name, c->lds, returns ? "_rtn" : "");
    else
        snprintf(name, sizeof name, "%s", gfx9 ? c->old : c->name);
    snprintf(row, sizeof row, "%s%s", space_names[p->space], name);
    p->statements[p->count++] = (struct statement){.change = c, .returns = returns};
    if (!p->source) {
        t_gpu_skip_row(row, targets[p->target]);
        return;
    }
    const char *const type = type_of_bytes(c->bytes);
    const char *const data = !swap ? type : c->bytes == 4 ? "u32x2" : "u32x4";
    if (p->space == BUFFER) {
        say(p, "BUFFER_ATOMIC(%u, %s, %s, \"%s %%0, %s%s\\n WAIT\")\n", n, type, data, row,
            address_text(BUFFER, 1, 2), returns ? flag : "");
        return;
    }
    say(p, "ATOMIC(%u, %s, %s, %s, \"%s %s", n, space_words[p->space], type, data, row,
        returns ? "%0, " : "");
    if (p->space == LDS && swap)
        say(p, compare_first ? "%%1, %%3, %%4" : "%%1, %%4, %%3");
    else
        say(p, "%%1, %%2");
    say(p, "%s%s\\n WAIT\")\n", p->space == GLOBAL ? ", off" : "",
        returns && p->space != LDS ? flag : "");
}

static void add_all(struct program *p)
{
    p->count = 0;
    if (p->source)
        say(p, "BEGIN(%u)\n", (unsigned)p->space);
    for (size_t n = 0; n < COUNT(loads); n++)
        add_copy(p, &loads[n], true);
    for (size_t n = 0; n < COUNT(stores); n++)
        add_copy(p, &stores[n], false);
    for (size_t n = 0; n < COUNT(changes) && p->space != SCRATCH; n++) {
        if (p->space == LDS ? !changes[n].lds : !changes[n].name)
            continue;
        add_change(p, &changes[n], true);
        if (p->space != LDS || strstr(changes[n].lds, "%s"))
            add_change(p, &changes[n], false);
    }
    if (p->source)
        say(p, "}\n");
}

/* ---- Running --------------------------------------------------------------------------------- */

static uint32_t x_in[STATEMENTS * LANES][4], y_in[STATEMENTS * LANES][4],
    z_in[STATEMENTS * LANES][4], m_before[STATEMENTS * LANES][4], m_after[STATEMENTS * LANES][4],
    r_out[STATEMENTS * LANES][4];

static void fill(void)
{
    uint64_t random = 3;

    for (unsigned n = 0; n < STATEMENTS * LANES; n++)
        for (unsigned k = 0; k < 4; k++) {
            x_in[n][k] = (uint32_t)t_random(&random);
            y_in[n][k] = (uint32_t)t_random(&random);
            m_before[n][k] = (uint32_t)t_random(&random);
            /* numbers of moderate size in half of the lanes, equal values for swaps in others */
            if (n % 2) {
                x_in[n][k] = (x_in[n][k] & 0x83ff83ffu) | 0x3c003c00u;
                m_before[n][k] = (m_before[n][k] & 0x87ff87ffu) | 0x38003800u;
            }
            z_in[n][k] = n % 3 ? m_before[n][k] : x_in[n][k];
            m_after[n][k] = m_before[n][k];
        }
}

static uint64_t first_words(const uint32_t v[4], unsigned bytes)
{
    return bytes == 8 ? v[0] | (uint64_t)v[1] << 32 : v[0];
}

/* What a load leaves in the register, and a store in memory: m and r as they are to be. */
static void expect_copy(const struct statement *st, unsigned i, bool spoils_half, uint32_t m[4],
                        uint32_t r[4])
{
    const struct copy *const c = st->copy;
    const unsigned shift = c->half == 'h' ? 16 : 0;

    if (!st->load) {
        const uint32_t moved[4] = {x_in[i][0] >> shift, x_in[i][1], x_in[i][2], x_in[i][3]};
        memcpy(m, moved, c->bytes);
        memcpy(r, x_in[i], c->bytes <= 4 ? 4 : c->bytes);
        return;
    }
    if (c->bytes >= 4) {
        memcpy(r, m, c->bytes);
        return;
    }
    const uint32_t bits = 8 * c->bytes;
    uint32_t value = m[0] & ((1u << bits) - 1);
    if (c->is_signed && value >> (bits - 1))
        value -= 1u << bits;
    if (c->half == ' ')
        r[0] = value;
    else if (spoils_half)
        r[0] = (value & 0xffff) << shift;
    else
        r[0] = (y_in[i][0] & (0xffff0000u >> shift)) | (value & 0xffff) << shift;
}

static void expect_change(const struct statement *st, enum space space, unsigned i, uint32_t m[4],
                          uint32_t r[4])
{
    const struct change *const c = st->change;
    const unsigned words_ = c->bytes / 4;
    const uint64_t old = first_words(m, c->bytes), data = first_words(x_in[i], c->bytes);
    const uint64_t now = changed(c, old, data, first_words(z_in[i], c->bytes));

    if (space == BUFFER) {
        memcpy(r, x_in[i], c->bytes);
        if (c->kind == CMPSWAP)
            memcpy(r + words_, z_in[i], c->bytes);
    } else {
        memcpy(r, y_in[i], c->bytes);
    }
    if (st->returns)
        memcpy(r, m, c->bytes);
    memcpy(m, &now, c->bytes);
}

/* NaNs need not have the same bits. */
static bool same(const struct statement *st, const uint32_t want[4], const uint32_t got[4])
{
    const struct change *const c = st->change;

    if (!memcmp(want, got, 16))
        return true;
    if (!c || memcmp(want + c->bytes / 4, got + c->bytes / 4, 16 - c->bytes))
        return false;
    if (c->type == 'f')
        return c->bytes == 4 ? isnan(f32(want[0])) && isnan(f32(got[0]))
                             : isnan(f64(first_words(want, 8))) && isnan(f64(first_words(got, 8)));
    for (unsigned k = 0; k < 32; k += 16) {
        const uint32_t p = want[0] >> k & 0xffff, q = got[0] >> k & 0xffff;
        const bool both = c->type == 'h' ? isnan((float)half(p)) && isnan((float)half(q))
                                         : isnan(f32(p << 16)) && isnan(f32(q << 16));
        if (p != q && !(both && strchr("hb", c->type)))
            return false;
    }
    return true;
}

static void check(const struct program *p, const char *text, bool spoils_half)
{
    for (unsigned n = 0; n < p->count; n++)
        for (unsigned l = 0; l < LANES; l++) {
            const struct statement *const st = &p->statements[n];
            const unsigned i = n * LANES + l;
            uint32_t m[4], r[4] = {0xeeeeeeee, 0xeeeeeeee, 0xeeeeeeee, 0xeeeeeeee};
            memcpy(m, m_before[i], 16);
            if (st->copy)
                expect_copy(st, i, spoils_half, m, r);
            else
                expect_change(st, p->space, i, m, r);
            if (same(st, m, m_after[i]) && same(st, r, r_out[i]))
                continue;
            char line[32];
            snprintf(line, sizeof line, "(%u, ", n);
            const char *const at = strstr(text, line);
            fail_msg("%s, lane %u: memory %08x %08x %08x %08x (want %08x %08x %08x %08x), register "
                     "%08x %08x %08x %08x (want %08x %08x %08x %08x) after %.120s",
                     p->space == LDS ? "LDS" : space_names[p->space], l, m_after[i][0],
                     m_after[i][1], m_after[i][2], m_after[i][3], m[0], m[1], m[2], m[3],
                     r_out[i][0], r_out[i][1], r_out[i][2], r_out[i][3], r[0], r[1], r[2], r[3],
                     at ? at : "");
        }
}

static void run_space(struct t_gpu *g, unsigned target, enum space space)
{
    static char source[1 << 17];
    static struct program p;
    const struct t_buffer buffers[] = {{x_in, sizeof x_in, QUERN_SIM_READ, "x"},
                                       {y_in, sizeof y_in, QUERN_SIM_READ, "y"},
                                       {z_in, sizeof z_in, QUERN_SIM_READ, "z"},
                                       {m_after, sizeof m_after, QUERN_SIM_READ_WRITE, "m"},
                                       {r_out, sizeof r_out, QUERN_SIM_WRITE, "r"}};
    char name[8];

    p = (struct program){.target = target, .space = space, .source = source, .room = sizeof source};
    say(&p, "%s", frame);
    const size_t begin = p.used;
    add_all(&p);
    /* words that are not the same everywhere */
    static const char *const words_[][3] = {{"WAIT", "s_waitcnt 0\\n s_nop 1", "s_wait_idle"},
                                            {"NULL_OFFSET", "0", "null"}};
    for (unsigned k = 0; k < 2; k++)
        for (char *at = source + begin; (at = strstr(at, words_[k][0])) != NULL;) {
            const char *const to = words_[k][target == 5 ? 2 : 1];
            const size_t from = strlen(words_[k][0]), length = strlen(to);
            memmove(at + length, at + from, strlen(at + from) + 1);
            memcpy(at, to, length);
        }
    fill();
    t_gpu_load(g, source);
    snprintf(name, sizeof name, "k%u", (unsigned)space);
    const struct t_launch launch = {
        .kernel = name, .items = {LANES}, .buffers = buffers, .count = 5};
    t_gpu_run(g, &launch);
    check(&p, source + begin, target < 3); /* gfx9 writes all of a register */
}

static void run_target(unsigned target, enum quern_sim_check check_, enum quern_sim_isa isa)
{
    struct target_id id;
    struct t_gpu g;

    assert_int_equal(target_parse(targets[target], &id), QUERN_OK);
    if (!target_simulated(id.target)) {
        for (enum space space = GLOBAL; space <= LDS; space++) {
            struct program p = {.target = target, .space = space};
            add_all(&p);
        }
        return;
    }
    t_gpu_open(&g, targets[target], "", check_, isa, 0);
    for (enum space space = GLOBAL; space <= LDS; space++)
        run_space(&g, target, space);
    t_gpu_close(&g);
}

#define TARGET(NUMBER, NAME, CHECK, ISA)                                                           \
    static void NAME(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_target(NUMBER, CHECK, ISA);                                                            \
    }
TARGET(0, gfx90a, QUERN_CHECK_FAST, QUERN_ISA_AUTO)
TARGET(1, gfx942, QUERN_CHECK_FULL, QUERN_ISA_AUTO)
TARGET(2, gfx950, QUERN_CHECK_FAST, QUERN_ISA_AUTO)
TARGET(3, gfx1100, QUERN_CHECK_FULL, QUERN_ISA_X86_64)
TARGET(4, gfx1151, QUERN_CHECK_FAST, QUERN_ISA_AUTO)
TARGET(5, gfx1201, QUERN_CHECK_FULL, QUERN_ISA_AUTO)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx90a),  cmocka_unit_test(gfx942),  cmocka_unit_test(gfx950),
        cmocka_unit_test(gfx1100), cmocka_unit_test(gfx1151), cmocka_unit_test(gfx1201),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
