#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints compile_commands.json, for editors and clang-tidy, of what make says it would run.

Reads the output of make -n: each C file of each command of the compiler is an entry. `make compdb`.
"""

import json
import os
import shlex
import sys

entries = {}
for line in sys.stdin.read().replace("\\\n", " ").splitlines():
    words = shlex.split(line) if "-std=c11" in line else []
    options = [w for w in words if not w.endswith(".c")]
    for file in (w for w in words if w.endswith(".c")):
        # the software GPU's bodies are compiled once for each instruction set: the first will do
        entries.setdefault(file, {"directory": os.getcwd(), "file": file,
                                  "arguments": [*options, file]})  # fmt: skip
json.dump(list(entries.values()), sys.stdout, indent=1)
