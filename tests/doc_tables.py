#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of figures in README.md and docs/: for whoever changed a kernel or a target.

    tests/doc_tables.py           says which tables do not hold what docs/counts.csv, tiles.csv
                                  and ports.csv, `quern targets` and `quern explain` say
    tests/doc_tables.py --write   writes them into the pages
    tests/doc_tables.py --count   runs every kernel on the software GPU again, writes the three
                                  files and the tables (a few minutes)

A table stands in its page between the lines `<!-- table NAME -->` and `<!-- end -->`. Figures of
counts.csv are exact counts of `quern prewarm --verify=all`, which also compares each result with
the double-precision reference; those of tiles.csv and ports.csv are counts and a model, by `quern
profile`. They belong to one compiler: the first line of each file names it.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
COMMAND = pathlib.Path(os.environ.get("QUERN_COMMAND", TOP / "build/release/bin/quern"))
COUNTS = TOP / "docs" / "counts.csv"
TILES = TOP / "docs" / "tiles.csv"
PORTS = TOP / "docs" / "ports.csv"
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->\n)", re.S)

RDNA = ["gfx1151", "gfx1100", "gfx1201"]
CDNA = ["gfx950", "gfx942", "gfx90a"]
FEW = (1, 2, 4, 8)  # rows of A that the vector units may serve
MANY = (16, 32, 64)  # those that matrix units serve without tiles
SIZE = "n=4096 k=4096"
PORT_M = 16  # rows of the table of ports, which matrix units serve
TILE_M = 2048
TILE_SIZE = "n=19456 k=2560"

# What simt_skinny's table shows of each target: words of the problem behind the size.
SKINNY = {
    "gfx1151": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32", "wq=fp8 a=fp8 c=bf16",
                "wq=fp8 a=f16", "wq=fp8 a=bf16"],
    "gfx1100": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32"],
    "gfx1201": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32", "wq=fp8 a=fp8 c=bf16",
                "wq=fp8 a=f16", "wq=fp8 a=bf16"],
    "gfx950": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32", "wq=fp8 a=fp8 c=bf16",
               "wq=fp8 a=f16", "wq=fp8 a=bf16", "wq=fp8fnuz a=f16"],
    "gfx942": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32",
               "wq=fp8fnuz a=fp8fnuz c=bf16", "wq=fp8 a=fp8 c=bf16", "wq=fp8 a=f16",
               "wq=fp8 a=bf16", "wq=fp8fnuz a=bf16"],
    "gfx90a": ["wq=none a=f16", "wq=none a=bf16", "wq=none a=f32", "wq=fp8 a=fp8 c=bf16",
               "wq=fp8 a=f16", "wq=fp8 a=bf16"],
}  # fmt: skip


def w4(a):
    return f"wq=nf4 {SIZE} a={a}"


def int4(a, zero, group=128):
    return f"wq=int4 {SIZE} a={a} zero={zero}" + (f" group={group}" if group != 128 else "")


def skinny(words):
    return f"{words} {SIZE}"


def all_counts():
    """(target, problem) -> the numbers of rows that it is counted for."""
    wanted = {}
    for target in RDNA + CDNA:
        for a in ("f16", "bf16", "f32"):
            wanted[target, w4(a)] = FEW + (MANY if a != "f32" else ())
        for a in ("f16", "bf16"):
            for zero in ("none", "u8"):
                wanted[target, int4(a, zero)] = FEW + MANY
                wanted[target, int4(a, zero, 32)] = (8, *MANY)
        for words in SKINNY[target]:
            wanted[target, skinny(words)] = FEW
    return wanted


# ---- counting -----------------------------------------------------------------------------------


def quern(*words, cache=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
    env.update({k: os.environ[k] for k in ("QUERN_ROCM_PATH", "QUERN_JOBS") if k in os.environ})
    env["QUERN_CACHE_DIR"] = str(cache or "/nonexistent")
    env["QUERN_CACHE_MODE"] = "rw" if cache else "off"
    done = subprocess.run([COMMAND, *words], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"quern {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def toolchain():
    """What makes the kernels, as tests/regress/kernels.csv names it; None without a compiler."""
    env = dict(os.environ, QUERN_DEVICE="none")
    done = subprocess.run([COMMAND, "doctor", "--json"], env=env, capture_output=True, text=True)
    return next((line["text"] for line in json.loads(done.stdout)
                 if line["subject"] == "identity"), None)


def families(target, problem, rows):
    """rows -> the family whose kernel serves as many; None where the problem is declined."""
    try:
        told = quern("explain", "--json", "--target", target, "--m", ",".join(map(str, rows)),
                     problem)
    except RuntimeError as declined:
        if '"verb":"quern explain"' not in str(declined):
            raise
        return None
    return {e["m"]: re.search(r", family (\w+) on ", e["text"])[1] for e in told["explanations"]}


def count(target, problem, rows, cache):
    """Lines of counts.csv. Of the rows that one kernel serves, prewarm runs the most; the others
    are asked for one by one."""
    of = families(target, problem, rows)
    ran, vgprs = {}, {}
    for wanted in (rows, *((m,) for m in rows)):
        if set(wanted) <= set(ran):
            continue
        made = quern("prewarm", "--target", target, "--m", ",".join(map(str, wanted)),
                     "--verify=all", "--json", problem, cache=cache)["problems"][0]
        vgprs.update((k["kernel"], k["vgpr"]) for k in made["kernels"])
        ran.update((v["m"], v) for v in made["verified"])
    assert set(ran) == set(rows) and all(v["ok"] for v in ran.values()), (target, problem)
    return [[target, problem, m, of[m], ran[m]["kernel"],
             f"{ran[m]['instructions_per_weight']:.2f}", vgprs[ran[m]["kernel"]]]
            for m in rows]  # fmt: skip


def profile(target, problem, m, *more):
    (launch,) = quern("profile", "--json", *more, "--target", target, "--m", str(m),
                      problem)["launches"]
    return launch


def count_tile(target, problem):
    """A line of tiles.csv: cycles are those of the fullest compute unit's ports, by workgroup."""
    launch = profile(target, problem, TILE_M, "--workgroups=kinds")
    n = int(re.search(r"\bn=(\d+)", problem)[1])
    model, ports = launch["model"], launch["model"]["port_cycles"]
    each = {name: cycles / model["fullest"] for name, cycles in ports.items()}
    valu = each["valu"] - (each["matrix"] if "gfx1" in target else 0)
    tile = f"{TILE_M // launch['grid'][0]}x{n // launch['grid'][1]}"
    return [target, problem, TILE_M, tile, *(f"{round(c, -1):.0f}" for c in (each["matrix"], valu,
            each["issue"], each["lds"])), model["bound"], f"{model['matrix_percent']:.1f}"]


def count_ports(target, problem):
    """A line of ports.csv: what the fullest SIMD's ports take, as a percentage of memory time, and
    what workgroups ask for of A, for each byte of packed weights."""
    launch = profile(target, problem, PORT_M)
    model = launch["model"]
    (ghz,) = (t["clock_ghz"] for t in quern("targets", "--json") if t["name"] == target)
    buffers = {b["name"]: b for b in launch["buffers"]}

    def share(port):
        return round(model["port_cycles"][port] / ghz / 10 / model["memory_us"])

    return [target, problem, PORT_M, share("valu"), share("matrix"),
            f"{buffers['a']['bytes_by_workgroup'] / buffers['b']['size']:.1f}",
            model["fill_percent"]]


def port_problems():
    return [w4("bf16"), int4("f16", "none"), int4("bf16", "none")]


def tile_problems():
    return [f"wq=int4 {TILE_SIZE} a={a} zero={zero}" for a in ("f16", "bf16")
            for zero in ("none", "u8")] + [f"wq=nf4 {TILE_SIZE} a={a}" for a in ("f16", "bf16")]


def write_csv(path, header, rows):
    with path.open("w", newline="") as f:
        f.write(f"# toolchain {toolchain()}\n")
        csv.writer(f, lineterminator="\n").writerows([header.split(), *rows])


def count_all():
    with tempfile.TemporaryDirectory(prefix="quern-tables-") as cache:
        rows = [row for (t, p), m in all_counts().items() for row in count(t, p, m, cache)]
    write_csv(COUNTS, "target problem m family kernel slots vgprs", rows)
    rows = [count_tile(t, p) for t in RDNA + CDNA for p in tile_problems()]
    write_csv(TILES, "target problem m tile matrix valu issue lds bound share", rows)
    rows = [count_ports(t, p) for t in RDNA + CDNA for p in port_problems()]
    write_csv(PORTS, "target problem m valu matrix a busy", rows)


def read_csv(path):
    with path.open(newline="") as f:
        f.readline()
        return list(csv.DictReader(f))


def counted_with(path):
    with path.open() as f:
        return f.readline().removeprefix("# toolchain ").strip()


# ---- tables -------------------------------------------------------------------------------------


class Figures:
    def __init__(self):
        self.counts = {(r["target"], r["problem"], int(r["m"])): r for r in read_csv(COUNTS)}
        self.tiles = {(r["target"], r["problem"]): r for r in read_csv(TILES)}
        self.ports = {(r["target"], r["problem"]): r for r in read_csv(PORTS)}

    def slots(self, target, problem, m, family=None):
        """Empty where another family serves as many rows."""
        row = self.counts[target, problem, m]
        return row["slots"] if family in (None, row["family"]) else ""

    def vgprs(self, target, problem, rows, family):
        of = [self.counts[target, problem, m] for m in rows]
        return " / ".join(r["vgprs"] for r in of if r["family"] == family)


def grid(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("|  |", "| |")


def rows_head(rows, at_most=""):
    return [f"M {'≤' if at_most else '='} {m}" for m in rows]


def table_simt_w4(f):
    return grid(["", *rows_head(FEW), "VGPRs"],
                [[f"{t} {a}", *(f.slots(t, w4(a), m, "simt_w4") or "`mma_w4`" for m in FEW),
                  f.vgprs(t, w4(a), FEW, "simt_w4")]
                 for t in RDNA + CDNA for a in ("f16", "bf16", "f32")])  # fmt: skip


def table_mma_w4(f):
    return grid(["", *rows_head(MANY, "≤"), "VGPRs"],
                [[f"{t} {a}", *(f.slots(t, w4(a), m) for m in MANY),
                  f.vgprs(t, w4(a), MANY, "mma_w4")]
                 for t in RDNA + CDNA for a in ("f16", "bf16")])  # fmt: skip


def table_simt_int4(f):
    return grid(["", "zero", *rows_head(FEW)],
                [[f"{t} {a}", z, *(f.slots(t, int4(a, z), m, "simt_int4") or "`mma_int4`"
                                   for m in FEW)]
                 for t in RDNA + CDNA for a in ("f16", "bf16") for z in ("none", "u8")])


def mma_int4_of(f, group):
    return grid(["", *rows_head(MANY, "≤")],
                [[f"{t} {a}", *(" / ".join(f.slots(t, int4(a, z, group), m)
                                           for z in ("none", "u8")) for m in MANY)]
                 for t in RDNA + CDNA for a in ("f16", "bf16")])


def table_mma_int4(f):
    return mma_int4_of(f, 128)


def table_mma_int4_g32(f):
    return mma_int4_of(f, 32)


def table_eight_rows(f):
    rows = []
    for t in RDNA + CDNA:
        for a in ("f16", "bf16"):
            row = [f"{t} {a}"]
            for z in ("none", "u8"):
                few, many = (f.counts[t, int4(a, z, g), 8] for g in (32, 128))
                row += [f"{few['slots']} `{few['family']}`", f"{many['slots']} `{many['family']}`",
                        f"{float(few['slots']) / float(many['slots']):.2f}"]
            rows.append(row)
    return grid(["", "none: groups of 32", "of 128", "ratio", "u8: groups of 32", "of 128",
                 "ratio"], rows)  # fmt: skip


def words_of(words):
    """`fp8 × f16`: weights, activations."""
    w, a = re.search(r"wq=(\w+)", words)[1], re.search(r"\ba=(\w+)", words)[1]
    return a if w == "none" else f"{w} × {a}"


def table_simt_skinny(f):
    return grid(["", *rows_head(FEW), "VGPRs"],
                [[f"{t} {words_of(w)}", *(f.slots(t, skinny(w), m) for m in FEW),
                  f.vgprs(t, skinny(w), FEW, "simt_skinny")]
                 for t in RDNA + CDNA for w in SKINNY[t]])  # fmt: skip


def table_mma_tile(f):
    rows = []
    for t in RDNA + CDNA:
        for p in tile_problems():
            r = f.tiles[t, p]
            words = dict(word.split("=") for word in p.split())
            zero = ", u8" if words.get("zero") == "u8" else ""
            rows.append([f"{t} {words['wq']} {words['a']}{zero}", r["tile"], r["matrix"],
                         r["valu"], r["issue"], r["lds"], r["bound"], f"{r['share']} %"])
    return grid(["", "tile", "matrix", "VALU", "issue", "LDS", "bound by", "share"], rows)


def table_ports(f):
    rows = []
    for t in RDNA + CDNA:
        of = [f.ports[t, p] for p in port_problems()]
        beside = t in CDNA  # matrix instructions have a pipe of their own
        rows.append([t, *(f"{r['valu']} and {r['matrix']} %" if beside else f"{r['valu']} %"
                          for r in of), "; ".join(r["a"] for r in of), f"{of[0]['busy']} %"])
    return grid(["", "NF4 bf16", "int4 f16", "int4 bf16", "A", "busy"], rows)


# README: what serves 1, 16 and 2048 rows.
UNITS = {"simt_w4": "V", "simt_int4": "V", "simt_skinny": "V", "mma_w4": "M", "mma_int4": "M",
         "mma_tile": "T", "lane_w4": "V", "ring": "M", "slab_w4": "M"}  # fmt: skip
# Generations that are one column.
COLUMNS = {"RDNA 3.5": "RDNA 3", "Ampere": "NVIDIA Ampere, Ada", "Ada Lovelace":
           "NVIDIA Ampere, Ada", "Hopper": "NVIDIA Hopper",
           "Blackwell": "NVIDIA Blackwell"}  # fmt: skip
FORMATS = [
    ("NF4, FP4 with f16 or bf16", ["wq=nf4 a=f16", "wq=nf4 a=bf16", "wq=fp4 a=f16",
                                   "wq=nf4 a=bf16 scale=nested"]),
    ("MXFP4 with f16 or bf16", ["wq=mxfp4 a=f16", "wq=mxfp4 a=bf16"]),
    ("int4 (GPTQ, AWQ) with f16 or bf16", ["wq=int4 a=f16", "wq=int4 a=bf16",
                                           "wq=int4 a=bf16 zero=u8", "wq=int4 a=f16 group=32"]),
    ("all of these with f32", ["wq=nf4 a=f32", "wq=mxfp4 a=f32", "wq=int4 a=f32"]),
    ("fp8 (OCP e4m3) with fp8 or f16", ["wq=fp8 a=fp8 c=bf16", "wq=fp8 a=f16"]),
    ("fp8 (OCP e4m3) with bf16", ["wq=fp8 a=bf16"]),
    ("fp8 (FNUZ e4m3) with bf16", ["wq=fp8fnuz a=bf16"]),
    ("unquantised f16, bf16", ["wq=none a=f16", "wq=none a=bf16"]),
    ("unquantised f32", ["wq=none a=f32"]),
]  # fmt: skip


def serves(target, problems):
    """`V M T`, or – where one of the problems is declined."""
    said = set()
    for problem in problems:
        of = families(target, f"{problem} {SIZE}", (1, 16, TILE_M))
        units = sorted({UNITS[x] for x in of.values()}, key="VMT".index) if of else ["–"]
        said.add(" ".join(units))
    assert len(said) == 1, (target, problems, said)
    return said.pop()


def table_facts(_):
    return grid(["fact", "assumed", "that", "who relies on it", "source", "sure",
                 "where it is false"],
                [[f"`{f['fact']}`", f["assumed"] if "/" not in f["assumed"] else "(a rate)",
                  f["meaning"], f["relies"], f["source"], f["sure"], f["fallback"]]
                 for f in quern("probe", "--list", "--json")["facts"]])


def table_formats(_):
    """One column for targets of a generation that do the same; those that differ are named."""
    columns = {}
    for t in quern("targets", "--json"):
        columns.setdefault((COLUMNS.get(t["family"], t["family"]), t["verified"]),
                           []).append(t["name"])
    columns = dict(sorted(columns.items(), key=lambda c: not c[0][1]))  # verified ones first
    rows = []
    for title, problems in FORMATS:
        row = [title]
        for names in columns.values():
            said = {}
            for name in names:
                said.setdefault(serves(name, problems), []).append(name)
            most = max(said, key=lambda s: len(said[s]))
            rest = ", ".join(f"{n}: {s}" for s, ns in said.items() if s != most for n in ns)
            row.append(most + (f" ({rest})" if rest else ""))
        rows.append(row)
    head = [f"{family}{'' if verified else ' *'}<br>{names_of(names)}"
            for (family, verified), names in columns.items()]  # fmt: skip
    return grid(["weights with activations", *head], rows)


def names_of(names):
    """gfx1150–1153, or what there is of them; sm_80, sm_86."""
    if names[0].startswith("sm_"):
        return "sm_" + ", ".join(n.removeprefix("sm_") for n in names)
    numbers = [n.removeprefix("gfx") for n in names]
    runs = []
    for n in numbers:
        if runs and n[:-1] == runs[-1][-1][:-1] and int(n, 16) == int(runs[-1][-1], 16) + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return "gfx" + ", ".join(r[0] if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs)


def table_readme(f):
    """Counted figures of the first page."""
    peers = {(r["target"], r["type"]): r
             for r in csv.DictReader((TOP / "tests/bench/bitsandbytes.csv").open())
             if r["m"] == "1"}

    def bitsandbytes(target, a):
        row = peers[target, a]  # lane slots, linear in steps of 1024 weights
        return (int(row["lane slots of a row"]) + 4 * int(row["lane slots of a step"])) / 4096

    def several(targets, problem, m):
        return " / ".join(f.slots(t, problem, m) for t in targets)

    types = ("bf16", "f16", "f32")
    return grid(["issue slots per weight, N = K = 4096", "quern", "peer"], [
        ["NF4, M = 1, gfx1151: bf16 / f16 / f32",
         " / ".join(f.slots("gfx1151", w4(a), 1) for a in types),
         "bitsandbytes 0.50.2: " + " / ".join(f"{bitsandbytes('gfx1151', a):.1f}"
                                              for a in types)],
        ["NF4 bf16, M = 16 by matrix units, gfx1201 / gfx942 / gfx1151",
         several(("gfx1201", "gfx942", "gfx1151"), w4("bf16"), 16), ""],
        ["int4 f16, M = 1, zero points, gfx1151 / gfx1201 / gfx942",
         several(("gfx1151", "gfx1201", "gfx942"), int4("f16", "u8"), 1),
         "plain Triton 3.9 kernel: 11.3 / 10.0 / 10.5"],
        ["unquantised f16, M = 1, gfx1151 / gfx1201 / gfx942",
         several(("gfx1151", "gfx1201", "gfx942"), skinny("wq=none a=f16"), 1),
         "vLLM's wvSplitK: 2.1 / 2.1 / 3.0"],
        ["fp8 with fp8 activations, M = 1, gfx1201",
         f.slots("gfx1201", skinny("wq=fp8 a=fp8 c=bf16"), 1), "vLLM's wvSplitKQ: 1.2"],
    ])  # fmt: skip


def table_counters(_):
    """The rows of QUERN_STATS: the library, the command and this table have them from there."""
    header = (TOP / "include/quern/quern.h").read_text().replace("\\\n", "")
    rows = re.findall(r'\bX\((\d+), \w+, (\w+),((?:\s*"[^"]*")+)\)', header)
    return grid(["", "counter", "counts"],
                [[number, f"`{name}`", "".join(re.findall('"(.*?)"', counts))] for number, name,
                 counts in sorted(rows, key=lambda row: int(row[0]))])  # fmt: skip


def printed(name, figures):
    return globals()[f"table_{name}"](figures)


def compare(write=False):
    """Names of tables, with their page, that are not what they should be; then written, if so."""
    figures = Figures()
    wrong, seen = [], []
    for page in PAGES:
        text = page.read_text()

        def fresh(block):
            seen.append(block[2])
            table = printed(block[2], figures)
            if table != block[3]:
                wrong.append(f"{page.relative_to(TOP)}: table {block[2]}")
            return block[1] + table + block[4]

        made = BLOCK.sub(fresh, text)
        if write and made != text:
            page.write_text(made)
    known = {name.removeprefix("table_") for name in globals() if name.startswith("table_")}
    return wrong + [f"no page has table {name}" for name in sorted(known - set(seen))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    parser.add_argument("--count", action="store_true", help="count anew, and write")
    options = parser.parse_args()
    if options.count:
        count_all()
    wrong = compare(options.write or options.count)
    print("\n".join(wrong))
    return 1 if wrong and not (options.write or options.count) else 0


if __name__ == "__main__":
    sys.exit(main())
