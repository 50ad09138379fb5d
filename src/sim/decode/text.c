/* SPDX-License-Identifier: MIT */
/*
 * The words of LLVM's AMDGPU assembly; text.h says what they are. This file is long because it
 * holds the names of all registers, modifiers and special operands of every instruction set, which
 * share their readers.
 */
#include "sim/decode/text.h"
#include "sim/wave.h"

#include <quern/tool.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers and lists ----------------------------------------------------------------------- */

static bool number_after(const char *word, const char *name, long *value)
{
    const size_t n = strlen(name);
    char *end;

    if (strncmp(word, name, n) || !word[n])
        return false;
    *value = strtol(word + n, &end, 0);
    return *end == 0;
}

/* "name:[1,0,1]": up to `max` values; the number of them, or 0. */
static unsigned list_after(const char *word, const char *name, uint8_t *values, unsigned max)
{
    const size_t n = strlen(name);
    unsigned count = 0;

    if (strncmp(word, name, n) || word[n] != '[')
        return 0;
    for (const char *at = word + n + 1; count < max;) {
        char *end;
        const long value = strtol(at, &end, 0);
        if (end == at || value < 0 || value > 255)
            return 0;
        values[count++] = (uint8_t)value;
        if (*end == ']')
            return end[1] ? 0 : count;
        if (*end != ',')
            return 0;
        at = end + 1;
    }
    return 0;
}

static bool bits_after(const char *word, const char *name, uint8_t *bits)
{
    uint8_t values[8];
    const unsigned count = list_after(word, name, values, 8);

    *bits = count ? 0 : *bits;
    for (unsigned n = 0; n < count; n++)
        *bits |= (uint8_t)((values[n] & 1) << n);
    return count > 0;
}

/* ---- Modifiers ------------------------------------------------------------------------------- */

static bool parse_dpp(const char *word, struct text_modifiers *m)
{
    static const struct {
        const char *name;
        enum text_dpp dpp;
    } numbered[] = {
        {"row_shl:", DPP_ROW_SHL},     {"row_shr:", DPP_ROW_SHR},
        {"row_ror:", DPP_ROW_ROR},     {"wave_shl:", DPP_WAVE_SHL},
        {"wave_rol:", DPP_WAVE_ROL},   {"wave_shr:", DPP_WAVE_SHR},
        {"wave_ror:", DPP_WAVE_ROR},   {"row_bcast:", DPP_ROW_BCAST},
        {"row_share:", DPP_ROW_SHARE}, {"row_newbcast:", DPP_ROW_SHARE},
        {"row_xmask:", DPP_ROW_XMASK},
    };
    long value;

    for (size_t n = 0; n < sizeof numbered / sizeof *numbered; n++)
        if (number_after(word, numbered[n].name, &value) && value >= 0 && value < 64) {
            m->dpp = numbered[n].dpp;
            m->dpp_values[0] = (uint8_t)value;
            return true;
        }
    if (!strcmp(word, "row_mirror"))
        m->dpp = DPP_ROW_MIRROR;
    else if (!strcmp(word, "row_half_mirror"))
        m->dpp = DPP_ROW_HALF_MIRROR;
    else if (list_after(word, "quad_perm:", m->dpp_values, 4) == 4)
        m->dpp = DPP_QUAD_PERM;
    else if (list_after(word, "dpp8:", m->dpp_values, 8) == 8)
        m->dpp = DPP_LANES_8;
    else
        return false;
    return true;
}

unsigned text_dpp_lane(const struct text_modifiers *m, unsigned lane)
{
    const unsigned row = lane & 48, at = lane & 15, n = m->dpp_values[0];

    switch (m->dpp) {
    case DPP_QUAD_PERM:
        return (lane & 60) | (m->dpp_values[lane & 3] & 3);
    case DPP_ROW_SHL:
        return at + n < 16 ? row + at + n : LANE_NONE;
    case DPP_ROW_SHR:
        return at >= n ? row + at - n : LANE_NONE;
    case DPP_ROW_ROR:
        return row + ((at - n) & 15);
    case DPP_WAVE_SHL:
        return lane + 1 < 64 ? lane + 1 : LANE_NONE;
    case DPP_WAVE_ROL:
        return (lane + 1) & 63;
    case DPP_WAVE_SHR:
        return lane ? lane - 1 : LANE_NONE;
    case DPP_WAVE_ROR:
        return (lane - 1) & 63;
    case DPP_ROW_MIRROR:
        return row + 15 - at;
    case DPP_ROW_HALF_MIRROR:
        return (lane & 56) + 7 - (lane & 7);
    case DPP_ROW_BCAST:
        if (n == 31)
            return lane >= 32 ? 31 : LANE_NONE;
        return row ? row - 1 : LANE_NONE;
    case DPP_ROW_SHARE:
        return row + (n & 15);
    case DPP_ROW_XMASK:
        return lane ^ (n & 15);
    case DPP_LANES_8:
        return (lane & 56) | (m->dpp_values[lane & 7] & 7);
    case DPP_NONE:
        break;
    }
    return lane;
}

static bool parse_sdwa(const char *word, struct text_modifiers *m)
{
    static const char *const names[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                        "BYTE_3", "WORD_0", "WORD_1"};
    static const char *const unused[] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"};
    const char *const colon = strchr(word, ':');

    if (!colon)
        return false;
    for (unsigned n = 0; n < 7; n++)
        if (!strcmp(colon + 1, names[n])) {
            uint8_t *const to = !strncmp(word, "dst_sel:", 8)    ? &m->dst_sel
                                : !strncmp(word, "src0_sel:", 9) ? &m->src0_sel
                                : !strncmp(word, "src1_sel:", 9) ? &m->src1_sel
                                                                 : NULL;
            if (to)
                *to = (uint8_t)n;
            m->sdwa = true;
            return to != NULL;
        }
    for (unsigned n = 0; n < 3; n++)
        if (!strncmp(word, "dst_unused:", 11) && !strcmp(colon + 1, unused[n])) {
            m->dst_unused = (uint8_t)n;
            m->sdwa = true;
            return true;
        }
    return false;
}

/* offset:swizzle(MODE,…) of ds_swizzle_b32. */
static bool parse_swizzle(const char *word, struct text_modifiers *m)
{
    long a[4];
    char *end;

    if (!strncmp(word, "QUAD_PERM,", 10)) {
        const char *at = word + 10;
        m->offset = 0x8000;
        for (unsigned n = 0; n < 4; n++) {
            a[n] = strtol(at, &end, 0);
            if (end == at || *end != (n < 3 ? ',' : ')'))
                return false;
            m->offset |= (int32_t)(a[n] & 3) << 2 * n;
            at = end + 1;
        }
        return true;
    }
    if (!strncmp(word, "BITMASK_PERM,\"", 14)) {
        unsigned and = 0, or = 0, xor = 0;
        for (unsigned n = 0; n < 5; n++) {
            const unsigned bit = 1u << (4 - n);
            switch (word[14 + n]) {
            case '0':
                break;
            case '1':
                or |= bit;
                break;
            case 'p':
                and |= bit;
                break;
            case 'i':
                and |= bit;
                xor |= bit;
                break;
            default:
                return false;
            }
        }
        m->offset = (int32_t)(and| or << 5 | xor<< 10);
        return true;
    }
    /* ROTATE,direction,lanes and FFT,bits that stay: modes of their own */
    if (!strncmp(word, "ROTATE,", 7)) {
        a[0] = strtol(word + 7, &end, 0);
        m->offset = (int32_t)(0xc000 | (a[0] & 1) << 10 | (strtol(end + 1, NULL, 0) & 31) << 5);
        return *end == ',';
    }
    if (!strncmp(word, "FFT,", 4)) {
        m->offset = (int32_t)(0xe000 | (strtol(word + 4, &end, 0) & 31));
        return true;
    }
    /* SWAP,n and REVERSE,n flip bits; BROADCAST,group,lane keeps the group and sets the lane */
    a[0] = strtol(strchr(word, ',') ? strchr(word, ',') + 1 : "", &end, 0);
    if (a[0] < 1 || a[0] > 32)
        return false;
    if (!strncmp(word, "SWAP,", 5))
        m->offset = (int32_t)(31 | a[0] << 10);
    else if (!strncmp(word, "REVERSE,", 8))
        m->offset = (int32_t)(31 | (a[0] - 1) << 10);
    else if (!strncmp(word, "BROADCAST,", 10) && *end == ',')
        m->offset = (int32_t)((32 - a[0]) & 31) | (int32_t)(strtol(end + 1, NULL, 0) & 31) << 5;
    else
        return false;
    return true;
}

static bool parse_flag(const char *word, struct text_modifiers *m)
{
    /* hints to caches and schedulers, which change no result */
    static const char *const ignored[] = {"slc",  "dlc",  "nt",  "sc1",    "scc", "tfe",
                                          "off",  "done", "th:", "scope:", "nv",  "temporal_hint:",
                                          "r128", "wait_"};
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"glc", &m->glc},
                 {"sc0", &m->glc},
                 {"lds", &m->lds},
                 {"gds", &m->gds},
                 {"idxen", &m->idxen},
                 {"offen", &m->offen},
                 {"clamp", &m->clamp},
                 {"fi:1", &m->fetch_inactive},
                 {"bound_ctrl:0", &m->bound_ctrl},
                 {"bound_ctrl:1", &m->bound_ctrl}};

    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++)
        if (!strcmp(word, flags[n].name))
            return *flags[n].flag = true;
    if (!strncmp(word, "th:", 3) && strstr(word, "RETURN"))
        return m->glc = true;
    for (size_t n = 0; n < sizeof ignored / sizeof *ignored; n++) {
        const size_t length = strlen(ignored[n]);
        if (ignored[n][length - 1] == ':' || ignored[n][length - 1] == '_'
                ? !strncmp(word, ignored[n], length)
                : !strcmp(word, ignored[n]))
            return true;
    }
    return false;
}

static bool parse_modifier(const char *word, struct text_modifiers *m)
{
    long value;

    if (!strncmp(word, "offset:swizzle(", 15))
        return parse_swizzle(word + 15, m);
    if (number_after(word, "offset:", &value) || number_after(word, "offset0:", &value))
        m->offset = (int32_t)value;
    else if (number_after(word, "offset1:", &value))
        m->offset1 = (uint8_t)value;
    else if (!strcmp(word, "mul:2"))
        m->omod = 1;
    else if (!strcmp(word, "mul:4"))
        m->omod = 2;
    else if (!strcmp(word, "div:2"))
        m->omod = 3;
    else if (number_after(word, "row_mask:", &value))
        m->row_mask = (uint8_t)value;
    else if (number_after(word, "bank_mask:", &value))
        m->bank_mask = (uint8_t)value;
    else if (number_after(word, "cbsz:", &value))
        m->cbsz = (uint8_t)value;
    else if (number_after(word, "abid:", &value))
        m->abid = (uint8_t)value;
    else if (number_after(word, "blgp:", &value))
        m->blgp = (uint8_t)value;
    else if (number_after(word, "bitop3:", &value))
        m->bitop3 = (uint8_t)value;
    else if (number_after(word, "byte_sel:", &value) || number_after(word, "index_key:", &value))
        m->op_sel = (uint8_t)value;
    else if (bits_after(word, "op_sel_hi:", &m->op_sel_hi))
        m->has_op_sel_hi = true;
    else
        return bits_after(word, "op_sel:", &m->op_sel) || bits_after(word, "neg_lo:", &m->neg_lo) ||
               bits_after(word, "neg_hi:", &m->neg_hi) || bits_after(word, "neg:", &m->neg_lo) ||
               parse_flag(word, m) || parse_dpp(word, m) || parse_sdwa(word, m);
    return true;
}

/* ---- Splitting ------------------------------------------------------------------------------- */

bool text_split(const char *text, struct text_insn *t)
{
    struct text_modifiers *const m = &t->modifiers;
    size_t n = 0;

    *m = (struct text_modifiers){.op_sel_hi = 0xff, .row_mask = 15, .bank_mask = 15};
    t->count = 0;
    while (isspace((unsigned char)*text))
        text++;
    while (text[n] && !isspace((unsigned char)text[n]) && n < sizeof t->mnemonic - 1) {
        t->mnemonic[n] = text[n];
        n++;
    }
    t->mnemonic[n] = 0;
    if (!strncmp(t->mnemonic, "v_dual_", 7))
        memmove(t->mnemonic + 2, t->mnemonic + 7, strlen(t->mnemonic + 7) + 1);
    text += n;
    if (!n || strlen(text) >= sizeof t->buffer)
        return false;
    strcpy(t->buffer, text);

    /* a comma outside brackets ends an operand, and a space outside them begins a modifier */
    char *at = t->buffer;
    bool operand = true;
    for (;;) {
        int depth = 0;
        while (isspace((unsigned char)*at))
            at++;
        if (!*at)
            return true;
        char *const word = at;
        while (*at && (depth || (*at != ',' && !isspace((unsigned char)*at)))) {
            depth += *at == '[' || *at == '(';
            depth -= (*at == ']' || *at == ')') && depth;
            at++;
        }
        const char end = *at;
        if (end)
            *at++ = 0;
        if (operand) {
            /* the first word may be a modifier of an instruction without operands */
            if (!t->count && end != ',' && parse_modifier(word, m) && strcmp(word, "off")) {
                operand = false;
                continue;
            }
            if (t->count == TEXT_OPERANDS_MAX)
                return false;
            t->operands[t->count++] = word;
            operand = end == ',';
        } else if (!parse_modifier(word, m)) {
            /* s_waitcnt, s_delay_alu: words that are not read, joined by & and | */
            if (strcmp(word, "&") && strcmp(word, "|") && !strchr(word, '('))
                return false;
        }
    }
}

bool text_strip_suffix(char *mnemonic)
{
    static const char *const suffixes[] = {"_e64_dpp", "_e32", "_e64", "_dpp8", "_dpp", "_sdwa"};
    const size_t n = strlen(mnemonic);

    for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
        const size_t length = strlen(suffixes[k]);
        if (n > length && !strcmp(mnemonic + n - length, suffixes[k])) {
            mnemonic[n - length] = 0;
            return true;
        }
    }
    return false;
}

bool text_strip_modifiers(const char *operand, char *body, size_t size, uint8_t *mods)
{
    static const struct {
        const char *open;
        char close;
        uint8_t mod;
    } wraps[] = {{"neg(", ')', MOD_NEG},
                 {"abs(", ')', MOD_ABS},
                 {"sext(", ')', MOD_SEXT},
                 {"lit(", ')', 0},
                 {"|", '|', MOD_ABS}};
    size_t n = strlen(operand);

    if (!n || n >= size)
        return false;
    memcpy(body, operand, n + 1);
    for (bool again = true; again;) {
        again = false;
        if (*body == '-') {
            *mods |= MOD_NEG;
            memmove(body, body + 1, n--);
            again = true;
        }
        for (size_t k = 0; k < sizeof wraps / sizeof *wraps; k++) {
            const size_t open = strlen(wraps[k].open);
            if (n > open + 1 && !strncmp(body, wraps[k].open, open) &&
                body[n - 1] == wraps[k].close) {
                *mods |= wraps[k].mod;
                n -= open + 1;
                memmove(body, body + open, n);
                body[n] = 0;
                again = true;
            }
        }
    }
    return n > 0;
}

/* ---- Registers ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum text_file file;
    unsigned index, count;
} named_registers[] = {
    {"vcc", FILE_SGPR, S_VCC, 2},
    {"vcc_lo", FILE_SGPR, S_VCC, 1},
    {"vcc_hi", FILE_SGPR, S_VCC + 1, 1},
    {"exec", FILE_SGPR, S_EXEC, 2},
    {"exec_lo", FILE_SGPR, S_EXEC, 1},
    {"exec_hi", FILE_SGPR, S_EXEC + 1, 1},
    {"m0", FILE_SGPR, S_M0, 1},
    {"scc", FILE_SGPR, S_SCC, 1},
    {"src_scc", FILE_SGPR, S_SCC, 1},
    {"flat_scratch", FILE_SGPR, S_FLAT_SCRATCH, 2},
    {"flat_scratch_lo", FILE_SGPR, S_FLAT_SCRATCH, 1},
    {"flat_scratch_hi", FILE_SGPR, S_FLAT_SCRATCH + 1, 1},
    {"xnack_mask", FILE_SGPR, S_XNACK_MASK, 2},
    {"xnack_mask_lo", FILE_SGPR, S_XNACK_MASK, 1},
    {"xnack_mask_hi", FILE_SGPR, S_XNACK_MASK + 1, 1},
    {"src_shared_base", FILE_APERTURE, APERTURE_SHARED, 2},
    {"src_private_base", FILE_APERTURE, APERTURE_PRIVATE, 2},
};

bool text_register(const char *operand, struct text_register *r)
{
    unsigned base = 0;

    *r = (struct text_register){.count = 1};
    for (size_t n = 0; n < sizeof named_registers / sizeof *named_registers; n++)
        if (!strcmp(operand, named_registers[n].name)) {
            r->file = named_registers[n].file;
            r->index = named_registers[n].index;
            r->count = named_registers[n].count;
            return true;
        }
    if (!strncmp(operand, "ttmp", 4)) {
        base = S_TTMP;
        operand += 3;
        r->file = FILE_SGPR;
    } else if (*operand == 's') {
        r->file = FILE_SGPR;
    } else if (*operand == 'v') {
        r->file = FILE_VGPR;
    } else if (*operand == 'a') {
        r->file = FILE_AGPR;
    } else {
        return false;
    }
    operand++;
    const bool range = *operand == '[';
    char *end;
    if (!isdigit((unsigned char)operand[range]))
        return false;
    const unsigned long first = strtoul(operand + range, &end, 10);
    unsigned long last = first;
    if (range) {
        if (*end == ':') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (*end++ != ']')
            return false;
    }
    if (*end == '.' && (end[1] == 'l' || end[1] == 'h')) {
        r->half = end[1];
        end += 2;
    }
    const unsigned long limit = r->file == FILE_SGPR ? (base ? 16 : 106) : 512;
    if (*end || last < first || last >= limit || last - first >= 64)
        return false;
    r->index = base + (unsigned)first;
    r->count = (unsigned)(last - first + 1);
    return true;
}

bool text_hardware_register(const char *operand, int32_t *field)
{
    static const struct {
        const char *name;
        unsigned id;
    } names[] = {
        {"HW_REG_MODE", 1},         {"HW_REG_STATUS", 2},         {"HW_REG_TRAPSTS", 3},
        {"HW_REG_HW_ID", 4},        {"HW_REG_GPR_ALLOC", 5},      {"HW_REG_LDS_ALLOC", 6},
        {"HW_REG_IB_STS", 7},       {"HW_REG_SH_MEM_BASES", 15},  {"HW_REG_FLAT_SCR_LO", 20},
        {"HW_REG_FLAT_SCR_HI", 21}, {"HW_REG_HW_ID1", 23},        {"HW_REG_HW_ID2", 24},
        {"HW_REG_XCC_ID", 20},      {"HW_REG_SHADER_CYCLES", 29}, {"HW_REG_WAVE_MODE", 1},
        {"HW_REG_WAVE_STATUS", 2}};
    char name[32];
    size_t n = 0;
    unsigned long id = 0, offset = 0, width = 32;
    char *end;

    if (strncmp(operand, "hwreg(", 6)) {
        *field = (int32_t)strtoul(operand, &end, 0);
        return end != operand && !*end;
    }
    operand += 6;
    while (operand[n] && operand[n] != ',' && operand[n] != ')' && n < sizeof name - 1) {
        name[n] = operand[n];
        n++;
    }
    name[n] = 0;
    operand += n;
    id = strtoul(name, &end, 0);
    if (*end) {
        size_t k = 0;
        while (k < sizeof names / sizeof *names && strcmp(names[k].name, name))
            k++;
        if (k == sizeof names / sizeof *names)
            return false;
        id = names[k].id;
    }
    if (*operand == ',') {
        offset = strtoul(operand + 1, &end, 0);
        if (*end != ',')
            return false;
        width = strtoul(end + 1, &end, 0);
        operand = end;
    }
    if (*operand != ')' || id > 63 || offset > 31 || width < 1 || width > 32)
        return false;
    *field = (int32_t)(id | offset << 6 | (width - 1) << 11);
    return true;
}

int64_t quern_branch_target(const char *text, uint64_t offset)
{
    const char *const space = strrchr(text, ' '), *const word = space ? space + 1 : text;
    char *end;
    const long words = strtol(word, &end, 0);

    return *end || end == word ? -1 : (int64_t)offset + 4 + 4 * (int64_t)(int16_t)words;
}
