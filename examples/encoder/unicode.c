/* SPDX-License-Identifier: MIT */
#include "unicode.h"

#include "unicode_tables.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

uint32_t utf8_next(const char **text)
{
    const unsigned char *const s = (const unsigned char *)*text;
    const int more = s[0] < 0x80   ? 0
                     : s[0] < 0xc2 ? -1
                     : s[0] < 0xe0 ? 1
                     : s[0] < 0xf0 ? 2
                     : s[0] < 0xf5 ? 3
                                   : -1;
    uint32_t c = more < 1 ? s[0] : s[0] & (0x3fu >> more);

    *text += 1;
    if (more < 0)
        return UNICODE_REPLACEMENT;
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return UNICODE_REPLACEMENT;
        c = c << 6 | (s[i] & 0x3f);
    }
    /* longer than need be, a surrogate, or beyond Unicode */
    if ((more == 2 && c < 0x800) || (more == 3 && (c < 0x10000 || c > 0x10ffff)) ||
        (c >= 0xd800 && c < 0xe000))
        return UNICODE_REPLACEMENT;
    *text += more;
    return c;
}

size_t utf8_put(char *to, uint32_t c)
{
    static const unsigned char lead[4] = {0, 0xc0, 0xe0, 0xf0};

    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    for (size_t i = more; i; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[more] | c);
    return more + 1;
}

static bool in_ranges(const struct range *ranges, size_t count, uint32_t c)
{
    size_t low = 0;

    while (count) { /* the last range that starts at or before c is in ranges[low … low+count-1] */
        const size_t half = count / 2;
        if (ranges[low + half].first <= c) {
            if (c <= ranges[low + half].last)
                return true;
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return false;
}

bool unicode_is_mark(uint32_t c)
{
    return in_ranges(marks, COUNT(marks), c);
}
bool unicode_is_punctuation(uint32_t c)
{
    return in_ranges(punctuation, COUNT(punctuation), c);
}
bool unicode_is_invisible(uint32_t c)
{
    return in_ranges(invisible, COUNT(invisible), c);
}

bool unicode_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool unicode_is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* The arithmetic of Unicode section 3.12: a syllable is one of 19 × 21 × 28 combinations. */
static size_t take_hangul_apart(uint32_t c, uint32_t to[3])
{
    const uint32_t index = c - 0xac00, trailing = index % 28;

    to[0] = 0x1100 + index / (21 * 28);
    to[1] = 0x1161 + index / 28 % 21;
    to[2] = 0x11a7 + trailing;
    return trailing ? 3 : 2;
}

size_t unicode_fold(uint32_t c, uint32_t to[3])
{
    size_t low = 0, count = COUNT(folds);

    if (unicode_is_mark(c))
        return 0;
    to[0] = c;
    if (c >= 'A' && c <= 'Z')
        to[0] = c + 'a' - 'A';
    if (c < 0x80)
        return 1;
    if (c >= 0xac00 && c <= 0xd7a3)
        return take_hangul_apart(c, to);
    /* runs of step 2 may interleave: look back over the few that start before c */
    while (count) {
        const size_t half = count / 2;
        if (folds[low + half].first <= c) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    for (size_t back = 0; back < 4 && low > back; back++) {
        const struct fold *const f = &folds[low - 1 - back];
        if (c <= f->last && (c - f->first) % (uint32_t)f->step == 0) {
            to[0] = (uint32_t)((int32_t)c + f->delta);
            return 1;
        }
    }
    return 1;
}
