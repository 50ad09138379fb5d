#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens of C in src and tools by folder: how much there is to read, however it is laid out.

Comments and blank lines do not count, .def files do. Usage: tests/tokens.py [DIRECTORY]
"""

import collections
import pathlib
import re
import sys

STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''
COMMENT = re.compile(rf"/\*.*?\*/|//[^\n]*|({STRING})", re.S)
TOKEN = re.compile(
    rf"{STRING}|[A-Za-z_]\w*|\.?\d(?:[\w.]|[eEpP][+-])*"
    r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|##|\S")


def count(text):
    text = COMMENT.sub(lambda m: m[1] or " ", text).replace("\\\n", " ")
    return len(TOKEN.findall(text))


def by_folder(top):
    folders = collections.Counter()
    for root in ("src", "tools"):
        for path in sorted((top / root).rglob("*")):
            if path.suffix in (".c", ".h", ".def"):
                folders[str(path.parent.relative_to(top))] += count(path.read_text())
    return folders


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    folders = by_folder(top)
    for name, tokens in sorted(folders.items()):
        print(f"{tokens:8,} {name}")
    print(f"{sum(folders.values()):8,} in all")


if __name__ == "__main__":
    main()
