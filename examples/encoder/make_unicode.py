#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unicode_tables.h from Python's own Unicode tables.

    python3 make_unicode.py > unicode_tables.h

What BERT's text normaliser asks of a character: what is left of it without accents and in lower
case (as far as that is one character), whether it is a combining mark, punctuation, or invisible.
Left out: CJK compatibility ideographs, and characters that decompose into several that are not
marks.
"""

import unicodedata

LAST = 0x110000


def category(code):
    return unicodedata.category(chr(code))


def folded(code):
    """Decompose, drop combining marks, lower. None if that is not exactly one other character."""
    parts = [c for c in unicodedata.normalize("NFD", chr(code)) if unicodedata.category(c) != "Mn"]
    text = "".join(c.lower() for c in parts)
    return ord(text) if len(text) == 1 and text != chr(code) else None


def fold_runs():
    """(first, last, step, delta) such that first, first + step … last become delta more."""
    skip = lambda c: 0xAC00 <= c <= 0xD7A3 or 0xF900 <= c <= 0xFAFF or 0x2F800 <= c <= 0x2FA1F
    delta = {c: folded(c) - c for c in range(LAST) if not skip(c) and folded(c) is not None}
    rest = sorted(delta)
    while rest:
        first, best = rest[0], (1, 1)
        for step in (1, 2):
            n = 1
            while n < len(rest) and rest[n] == first + step * n and delta[rest[n]] == delta[first]:
                n += 1
            best = max(best, (n, step), key=lambda b: b[0])
        n, step = best
        yield first, first + step * (n - 1), step, delta[first]
        rest = rest[n:]


def ranges(test):
    start = None
    for c in range(LAST + 1):
        inside = c < LAST and test(c)
        if inside and start is None:
            start = c
        elif not inside and start is not None:
            yield start, c - 1
            start = None


def table(declaration, comment, rows):
    print(f"\n/* {comment} */\n{declaration} = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(row) + "},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(f"{line}\n}};")


def hexes(rows):
    return [[f"0x{x:x}" for x in row] for row in rows]


print(f"""/* SPDX-License-Identifier: MIT */
/* Made by make_unicode.py from Unicode {unicodedata.unidata_version}. */
/* clang-format off */
#ifndef ENCODER_UNICODE_TABLES_H
#define ENCODER_UNICODE_TABLES_H

#include <stdint.h>

struct fold {{
    uint32_t first, last;
    int32_t step, delta;
}};

struct range {{
    uint32_t first, last;
}};""")
table("static const struct fold folds[]",
      "first, first + step … last: without accent, in lower case.",
      [[f"0x{a:x}", f"0x{b:x}", str(step), str(delta)] for a, b, step, delta in fold_runs()])
table("static const struct range marks[]", "Category Mn.",
      hexes(ranges(lambda c: category(c) == "Mn")))
table("static const struct range punctuation[]", "Categories P*, and all of ASCII that is neither "
      "letter nor digit.",
      hexes(ranges(lambda c: category(c)[0] == "P" or (32 < c < 127 and not chr(c).isalnum()))))
table("static const struct range invisible[]", "Categories Cc, Cf and Co.",
      hexes(ranges(lambda c: category(c) in ("Cc", "Cf", "Co"))))
print("\n#endif")
