/* SPDX-License-Identifier: MIT */
/* The one place where bytes of anywhere become text that is safe to print: for error messages and
 * log lines of the library, and through tool.h for all that the command prints. */

#include <quern/tool.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The character at the beginning of `size` bytes, of *length bytes; -1 if they begin with none, by
 * table 3-7 of the Unicode standard: no surrogates, nothing above U+10FFFF, none that is longer
 * than it need be. */
static int32_t character(const unsigned char *p, size_t size, size_t *length)
{
    const unsigned n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int32_t c = n == 1 ? p[0] : p[0] & (0x7f >> n);

    *length = n;
    if ((p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4 || n > size)
        return -1;
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return -1;
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? -1 : c;
}

/* Whether a terminal would not print a character but do something: control characters (C0, DEL,
 * C1), ends of lines, and those that change the direction of what is around them (all that have the
 * property Bidi_Control), with which a line can seem to say something else. */
static bool controls(int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t quern_text_shown(enum quern_shown how, const char *bytes, size_t size, char *out,
                        size_t room)
{
    size_t n = 0, length;

    for (size_t i = 0; i < size; i += length) {
        const unsigned char *const p = (const unsigned char *)bytes + i;
        const int32_t c = character(p, size - i, &length);
        const bool kept = how == QUERN_SHOWN_DATA || !controls(c) ||
                          (how == QUERN_SHOWN_LINES && (c == '\n' || c == '\t'));
        char escape[8];
        const char *shown = escape;
        size_t more = length;
        if (c < 0) {
            length = 1;
            more = (size_t)snprintf(escape, sizeof escape, "\\x%02x", *p);
        } else if (!kept) {
            more = (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        } else {
            shown = (const char *)p;
        }
        if (n + more + 1 > room)
            break;
        memmove(out + n, shown, more); /* a message may be copied onto itself */
        n += more;
    }
    if (room)
        out[n] = 0;
    return n;
}
