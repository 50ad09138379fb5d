# SPDX-License-Identifier: MIT
"""Hosts that were compiled against another version's header, with the library as it is: headers
with fewer and with more fields are made from the real ones, and one host, tests/cli/host.c, is
compiled against each. It must say the same each time."""

import os
import re
import subprocess

import pytest
from conftest import COMMAND, TOP, clean_environment

HEADERS = TOP / "include/quern"
STRUCT = re.compile(r"^struct (quern_\w+) \{\n(.*?)^\};\n", re.M | re.S)
SMALLEST = re.compile(r"^#define (QUERN_\w+)_SIZE_MIN\s.*?QUERN_SIZE_TO\(struct (\w+), (\w+)\)",
                      re.M | re.S)
# made by the library, and only read by hosts
GIVEN_OUT = {"quern_event", "quern_progress", "quern_lint_finding"}
EMBEDDED = {"quern_sim_counts"}  # stands within others too, whose fields it would move

pytestmark = pytest.mark.skipif("release" not in COMMAND.parts,
                                reason="links with the release build")


NAMES = ("status.h", "quern.h", "weights.h", "tool.h", "sim.h")


def text_of(name):
    return (HEADERS / name).read_text()


def declarations(body):
    """The declarations of a struct's body, without comments; those of a struct within are one."""
    found, depth, start = [], 0, 0
    counters = re.findall(r"^    X\(\d+, \w+, (\w+),", text_of("quern.h"), re.M)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S).replace(
        "QUERN_STATS(QUERN_STAT_FIELD)", "".join(f"uint64_t {name};" for name in counters))
    for at, c in enumerate(body):
        depth += (c == "{") - (c == "}")
        if c == ";" and not depth:
            found.append(" ".join(body[start:at].split()))
            start = at + 1
    return found


def structs():
    """The declarations of every struct that begins with `size`, by name."""
    found = {}
    for name in NAMES:
        for tag, body in STRUCT.findall(text_of(name)):
            listed = declarations(body)
            if listed[0] == "size_t size":
                found[tag] = listed
    return found


def last_fields():
    """The field that the smallest accepted size of each struct ends with."""
    return {tag: field for name in NAMES
            for _, tag, field in SMALLEST.findall(text_of(name))}


def cut(listed, field):
    """The declarations up to and with that of `field`, which may share one with later fields."""
    for at, declared in enumerate(listed):
        if re.search(rf"\b{field}\b(?!\()", declared):
            return [*listed[:at], re.match(rf".*\b{field}\b(\[\w+\])*", declared)[0]]
    raise AssertionError(field)


def write_headers(directory, change):
    """The real headers, with the declarations of each struct with `size` as `change` gives them."""
    target = directory / "include/quern"
    target.mkdir(parents=True)
    sized = structs()
    for name in NAMES:
        def changed(match):
            tag = match[1]
            if tag not in sized:
                return match[0]
            return f"struct {tag} {{\n" + "".join(
                f"    {d};\n" for d in change(tag, sized[tag])) + "};\n"
        (target / name).write_text(STRUCT.sub(changed, text_of(name)))
    return target.parent


def same(tag, listed):
    return listed


def fewer(tag, listed):
    return listed if tag in GIVEN_OUT else cut(listed, last_fields()[tag])


def more(tag, listed):
    return listed if tag in EMBEDDED else [*listed, "uint64_t added[2]"]


def more_counts(tag, listed):
    return [*listed, "uint64_t added[2]"] if tag in EMBEDDED else listed


def run_host(directory, include, *flags, standard="c11"):
    library = COMMAND.parents[1] / "lib"
    compiler = os.environ.get("CC", "cc").split()
    program = directory / "host"
    built = subprocess.run(
        [*compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", *flags,
         f"-I{include}", TOP / "tests/cli/host.c", "-o", program, f"-L{library}", "-lquern",
         f"-Wl,-rpath,{library}"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    env = clean_environment(directory / "cache")
    env.setdefault("QUERN_ROCM_PATH", str(TOP / "build/rocm"))
    done = subprocess.run([program], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    directory = tmp_path_factory.mktemp("same")
    said = run_host(directory, write_headers(directory, same))
    assert len(said.splitlines()) > 10
    return said


@pytest.mark.parametrize("change, flags", [(fewer, ["-DFEWER"]), (more, ["-DMORE"]),
                                           (more_counts, ["-DMORE_COUNTS"])])
def test_a_host_of_another_version(tmp_path, expected, change, flags):
    assert run_host(tmp_path, write_headers(tmp_path, change), *flags) == expected


def test_every_struct_states_its_smallest_size():
    sized, last = structs(), last_fields()
    assert len(sized) >= 20
    assert set(last) == set(sized) - GIVEN_OUT
    # and the tests of the helper are for all of them
    rows = re.findall(r"\bROW\(\s*(quern_\w+),", (TOP / "tests/unit/test_extensible.c").read_text())
    assert sorted(rows) == sorted(last)
    named = {m[0] for name in NAMES
             for m in SMALLEST.findall(text_of(name))}
    assert named == {tag.upper() for tag in last}


def test_only_the_helper_compares_sizes():
    """No function has a rule of its own for the `size` of a caller's struct."""
    pattern = re.compile(r"(?:->|\.)size\s*(?:[!=<>]=|[<>])\s*sizeof\s*\(?(?:\*|struct quern_)")
    bad = [f"{p.relative_to(TOP)}: {m[0]}" for p in (TOP / "src").rglob("*.[ch]")
           for m in pattern.finditer(p.read_text())]
    assert not bad


def test_fields_of_released_structs_stay_where_they_are(tmp_path):
    """tests/golden/structs.txt has the offset of each field of quern.h and each struct's sizeof, as
    compiled hosts have them. New fields are added to it; they begin at or behind the former sizeof,
    since a host's padding holds anything; one called `unused` or `unused2`, which nothing reads,
    fills it."""
    sized = {tag: listed for tag, listed in structs().items()
             if re.search(rf"^struct {tag} \{{", text_of("quern.h"), re.M)}
    sized["quern_error"] = declarations(
        next(body for tag, body in STRUCT.findall(text_of("status.h")) if tag == "quern_error"))
    lines = []
    for tag, listed in sized.items():
        for declared in listed:
            first, *others = declared.split(",")
            for field in [re.search(r"(\w+)(?:\[\d+\])?$", first)[1], *(o.strip() for o in others)]:
                lines.append(f'printf("{tag}.{field} %zu\\n", offsetof(struct {tag}, {field}));')
        lines.append(f'printf("sizeof {tag} %zu\\n", sizeof(struct {tag}));')
    source = tmp_path / "offsets.c"
    source.write_text("#include <quern/quern.h>\n#include <stdio.h>\nint main(void)\n{\n"
                      + "\n".join(lines) + "\n}\n")
    subprocess.run([*os.environ.get("CC", "cc").split(), f"-I{TOP}/include", source, "-o",
                    tmp_path / "offsets"], check=True)
    said = subprocess.run([tmp_path / "offsets"], capture_output=True, text=True, check=True).stdout
    now = [line for line in said.splitlines() if not line.startswith("sizeof ")]
    golden = (TOP / "tests/golden/structs.txt").read_text().splitlines()
    released = [line for line in golden if not line.startswith("sizeof ")]
    assert [line for line in released if line not in now] == []
    former = {words[1]: int(words[2]) for words in map(str.split, golden) if words[0] == "sizeof"}
    for line in now:
        if line not in released and not re.search(r"\.unused\d? ", line):
            name, offset = line.split()
            assert int(offset) >= former.get(name.split(".")[0], 0), line
    assert set(former) == set(sized)


def test_stages_are_the_words_that_the_header_lists():
    """And every folder of the library has one, so that none is told as another by mistake."""
    rows = dict(re.findall(r'\{"(src/\w+/)", "(\w+)"\}', (TOP / "src/base/error.c").read_text()))
    (comment,) = re.findall(r"/\*\n((?: \*.*\n)*?) \*/\nstruct quern_error \{", text_of("status.h"))
    listed = re.findall(r'^ \*     "(\w+)" ', comment, re.M)
    assert sorted(set(rows.values())) == sorted(listed)
    folders = {f"{p.relative_to(TOP)}/" for p in (TOP / "src").iterdir() if p.is_dir()}
    assert set(rows) == folders
