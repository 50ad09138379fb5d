#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern-formats(5) from docs/formats.md, so that formats are described once.

Usage: formats_man.py docs/formats.md > quern-formats.5
Knows what that page uses: headings, paragraphs, lists, tables, `code` and **bold**.
"""

import re
import sys


def text(line):
    """One line as roff: escapes, then code as bold and emphasis as italic."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    line = re.sub(r"\*\*(.+?)\*\*|`(.+?)`", lambda m: f"\\fB{m[1] or m[2]}\\fP", line)
    line = re.sub(r"(?<![\w*])\*([^*]+)\*(?!\w)", r"\\fI\1\\fP", line)
    return "\\&" + line if line[:1] in ".'" else line


def table(rows):
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", r.strip().strip("|"))] for r in rows]
    # the columns after the first share the room that it leaves
    layout = " ".join(["l"] + ["lx"] * (len(cells[0]) - 1))
    out = [".PP", ".TS", "tab(\t);", layout + "."]
    for row in cells[:1] + cells[2:]:
        if any(row):
            out.append("\t".join([text(row[0]), "T{"]))
            for cell in row[1:-1]:
                out += [text(cell), "T}\tT{"]
            out += [text(row[-1]), "T}"]
    return [*out, ".TE"]


def page(source):
    out = [
        "'\\\" t",
        '.\\" SPDX-License-Identifier: MIT',
        '.TH QUERN-FORMATS 5 "" quern',
        ".SH NAME",
        "quern-formats \\- what quern reads and writes, byte for byte",
    ]
    lines = source.splitlines()[1:]
    while lines and not lines[0]:
        lines.pop(0)
    while lines:
        line = lines.pop(0)
        if line.startswith("## "):
            out.append(f'.SH "{text(line[3:].upper())}"')
        elif line.startswith("### "):
            out.append(f'.SS "{text(line[4:])}"')
        elif line.startswith("|"):
            rows = [line]
            while lines and lines[0].startswith("|"):
                rows.append(lines.pop(0))
            out += table(rows)
        elif line.startswith("```"):
            out += [".PP", ".EX"]
            while lines and not lines[0].startswith("```"):
                out.append(text(lines.pop(0)))
            lines[:1] = []
            out.append(".EE")
        elif re.match(r"[-*] ", line):
            while lines and lines[0].startswith("  "):
                line += " " + lines.pop(0).strip()
            out += [".IP \\(bu 2", text(line[2:])]
        elif not line:
            out.append(".PP")
        else:
            while lines and re.match(r"[^|#\-*`\s]|[*`][^ ]", lines[0]):
                line += " " + lines.pop(0)
            out.append(text(line.strip()))
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: formats_man.py docs/formats.md")
    with open(sys.argv[1], encoding="utf-8") as f:
        sys.stdout.write(page(f.read()))
