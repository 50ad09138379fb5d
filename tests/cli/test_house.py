# SPDX-License-Identifier: MIT
"""Rules of the house that a script can check."""

import collections
import os
import re
import shutil
import subprocess

import pytest
from conftest import COMMAND, TOP

CODE = {".c", ".h", ".py", ".sh", ".hip", ".cu"}
ROOTS = ("src", "tools")
LINES_MAX = 500
FUNCTION_LINES_MAX = 80
COLUMNS_MAX = 100
# Tables of numbers written by a program, and generated lists.
LONG = re.compile(r"unicode_tables\.h$|^tests/golden/")


def tracked():
    """Files that are, or are about to be, part of the project."""
    if not (TOP / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={TOP}", "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"],
        cwd=TOP, capture_output=True, check=True,
    )  # fmt: skip
    paths = [TOP / name for name in listed.stdout.decode().split("\0") if name]
    return [p for p in paths if p.is_file()]


def sources():
    return [p for p in tracked() if p.suffix in CODE or p.name in ("Makefile", "run")]


def test_every_source_file_says_its_licence():
    bad = [p for p in sources()
           if "SPDX-License-Identifier: MIT" not in "".join(p.open().readlines()[:3])]
    assert not bad


def test_a_long_file_says_why_it_is_long():
    """Over LINES_MAX lines, its head has a sentence: "This file is long because …". A template is
    one kernel and a public header one interface: as long as that is."""
    bad = []
    for path in sources():
        name = str(path.relative_to(TOP))
        lines = path.read_text().splitlines()
        head = " ".join(line.lstrip(" *#/") for line in lines[:40])
        excused = path.suffix in (".hip", ".cu") or name.startswith("include/") or LONG.search(name)
        if len(lines) > LINES_MAX and not excused and "This file is long because " not in head:
            bad.append(f"{name}: {len(lines)} lines")
    assert not bad


def test_no_function_is_too_long():
    """From its name's line to its closing brace; clang-format puts the braces in column 1."""
    bad = []
    for path in sources():
        if path.suffix not in (".c", ".h"):
            continue
        lines = path.read_text().splitlines()
        begins = 0
        for i, line in enumerate(lines):
            if not line or line.startswith(("#", "}", "/*", " */")):
                begins = i + 1
            elif line == "{":
                ends = lines.index("}", i)
                if ends + 1 - begins > FUNCTION_LINES_MAX:
                    bad.append(f"{path.relative_to(TOP)}:{begins + 1}: {ends + 1 - begins} lines")
    assert not bad


def test_no_source_line_is_too_wide():
    bad = []
    for path in sources():
        name = str(path.relative_to(TOP))
        if LONG.search(name):
            continue
        for i, line in enumerate(path.read_text().splitlines(), 1):
            if len(line.expandtabs(8)) > COLUMNS_MAX:
                bad.append(f"{name}:{i}: {len(line)} columns")
    assert not bad


def test_no_two_files_share_a_name():
    """In src and tools a name without its ending is one folder's: "cost_model.c" says which."""
    folders = collections.defaultdict(set)
    for path in tracked():
        if path.suffix in (".c", ".h", ".def") and path.relative_to(TOP).parts[0] in ROOTS:
            folders[path.stem].add(path.parent.relative_to(TOP))
    assert len(folders) > 150
    assert not {name: where for name, where in folders.items() if len(where) > 1}


def test_only_rows_of_targets_name_processors():
    """Code asks a target for a capability: a new processor must not be looked for elsewhere."""
    asks = re.compile(r'(?:cmp|strstr)\s*\([^;]*"gfx|[>.]generation\b|__gfx|__GFX')
    names = re.compile(r'"(?:gfx|sm_)[0-9]\w*"')
    comment = re.compile(r"/\*.*?\*/", re.S)
    bad = []
    for path in sources():
        name = str(path.relative_to(TOP))
        if name.startswith(("src/", "tools/", "templates/")) and not name.startswith("src/target/"):
            text = path.read_text()
            bad += [f"{name}: {found[0]}" for found in asks.finditer(text)]
            if name.startswith("src/"):
                bad += [f"{name}: {found}" for found in names.findall(comment.sub("", text))]
    assert not bad


def test_what_touches_memory_is_volatile():
    """Of templates for NVIDIA: NVRTC may run other assembly where no condition lets it."""
    arithmetic = ("add", "cvt", "ex2", "fma", "lop3", "max", "mma", "mov", "mul", "popc", "prmt",
                  "sub")
    found = [f"{path.name}: asm({text}"
             for path in sorted((TOP / "templates/cuda").rglob("*.cu"))
             for text in re.findall(r"\basm\s*\(([^;]*)", path.read_text())
             if re.match(r'\s*"([a-z0-9]*)', text)[1] not in arithmetic]
    assert not found


def test_patches_apply():
    """Of templates, for a library that shows something: whoever changes them changes the patch."""
    for path in sorted((TOP / "tests").rglob("*.patch")):
        done = subprocess.run(["git", "apply", "--check", str(path)], cwd=TOP, text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stderr


def test_every_c_file_is_formatted():
    """By the version that setup.sh pins; where it could not be had, this is skipped."""
    if not (TOP / "build/deps/format/bin/clang-format").exists():
        pytest.skip("no clang-format in build/deps: setup could not fetch it")
    tracked()  # skips where there is no git
    done = subprocess.run(["sh", "tools/format.sh", "--all", "--dry-run", "-Werror"],
                          cwd=TOP, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, "run make format\n" + done.stderr[-4000:]


def test_no_file_names_a_machine():
    """Nothing that is only true of the machine it was written on."""
    # in two parts, so that this file passes its own test
    pattern = re.compile("(?<![\\w.$}])/(?:" + "wo" + "rk|ro" + "ot|tmp/" + "t)(?:/|\\b)")
    bad = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # data
        for i, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                bad.append(f"{path.relative_to(TOP)}:{i}: {line.strip()[:100]}")
    assert not bad


def test_every_c_file_begins_with_what_it_is():
    bad = [str(path.relative_to(TOP)) for path in sources()
           if path.suffix in (".c", ".h") and path.relative_to(TOP).parts[0] in ROOTS
           and not path.read_text().splitlines()[1].startswith("/*")]  # fmt: skip
    assert not bad


def test_setup_takes_a_compiler_of_two_words():
    """CC="ccache gcc" finds the libraries that CC=gcc finds: of setup.sh, the part that looks."""
    text = (TOP / "tools/setup.sh").read_text()
    parts = [re.search(r"^have\(\).*", text, re.M)[0],
             re.search(r"^links\(\) {.*?^}$", text, re.M | re.S)[0],
             re.search(r"^have_libraries\(\) {.*?\nC\n}$", text, re.M | re.S)[0]]  # fmt: skip
    script = "\n".join(["libdir=usr/lib/x86_64-linux-gnu", *parts, "have_libraries"])
    status = [subprocess.run(["sh", "-c", f"cc='{cc}'\n{script}"], cwd=TOP).returncode
              for cc in ("gcc", "env gcc", "none gcc")]  # fmt: skip
    assert status == [0, 0, 1]


def test_building_fetches_nothing_that_tests_alone_need(tmp_path):
    """With a Python that has no packages: `setup.sh build` and `compile` have all they want, and
    say nothing; without such a word the same script asks for the test packages."""
    for part in ("setup.sh", "pip.sh", "format.sh"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        shutil.copy(TOP / "tools" / part, tmp_path / "tools" / part)
    (tmp_path / "build/deps").mkdir(parents=True)
    for part in ("deps/usr", "rocm"):
        if (TOP / "build" / part).exists():
            (tmp_path / "build" / part).symlink_to(TOP / "build" / part)
    (tmp_path / "bin").mkdir()
    for name, text in (("python3", "exit 1"), ("apt-get", f"echo $* >>{tmp_path}/asked; exit 1")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    env = {k: v for k, v in env.items() if k not in ("DEVICE", "PYTHONPATH")}

    def setup(*words):
        return subprocess.run(["sh", tmp_path / "tools/setup.sh", *words], env=env,
                              capture_output=True, text=True)

    for word in ("build", "compile"):
        done = setup(word)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "asked").exists()
    done = setup()
    assert done.returncode == 1 and "pytest, hypothesis and numpy" in done.stderr
    # only what compiles the tests wants cmocka
    (tmp_path / "bin/gcc").write_text('#!/bin/sh\ncase " $* " in *" -lcmocka "*) exit 1 ;; esac\n'
                                      f'exec {shutil.which("gcc")} "$@"\n')
    (tmp_path / "bin/gcc").chmod(0o755)
    assert setup("build").returncode == 0
    done = setup("compile")
    assert done.returncode == 1 and "libcmocka-dev" in done.stderr
    done = setup("complie")
    assert done.returncode == 2 and "build|compile|pip" in done.stderr
    makes = subprocess.run(["make", "-n", "install", f"SETUP={tmp_path / 'none'}",
                            f"B={tmp_path / 'B'}"], cwd=TOP, capture_output=True, text=True,
                           env={k: v for k, v in env.items() if not k.startswith("M")}).stdout
    assert "sh tools/setup.sh build\n" in makes and "sh tools/setup.sh\n" not in makes


def test_manual_pages_are_clean():
    pages = sorted((TOP / "docs/man").glob("*.1"))
    assert pages
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc here")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True)
    assert done.stdout == b""


def test_rooms_include_only_what_they_may():
    done = subprocess.run(["sh", TOP / "tools/check_includes.sh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/sim/x.c", '#include "plan/plan.h"'),
        ("src/sim/x.c", "#include <gen/gen.h>"),
        ("src/sim/x.c", '# include "../gen/gen.h"'),
        ("src/base/x.h", '#include "target/target.h"'),
        ("src/sim/deep/x.c", '#include "gen/gen.h"'),
        ("src/sim/x.c", '#include "files/files.h"'),
        ("tools/files/x.c", '#include "base/os.h"'),
        ("tools/files/x.c", "#include <files/files.h>"),
        ("examples/x/x.c", '#include "../../src/base/os.h"'),
        ("include/quern/x.h", '#include "base/os.h"'),
    ],
)
def test_a_forbidden_include_is_found(tmp_path, path, line):
    for room in ("include/quern", "src/sim/deep", "src/base", "tools/files", "examples/x"):
        (tmp_path / room).mkdir(parents=True)
    shutil.copy(TOP / "tools/check_includes.sh", tmp_path / "tools")
    (tmp_path / "src/sim/ok.c").write_text(
        '#include "object/object.h"\n#include <quern/sim.h>\n#include <sys/stat.h>\n')
    (tmp_path / "src/sim/deep/ok.c").write_text(
        '#include "sim/deep/ok.h"\n#include "base/os.h"\n#include "target/target.h"\n')
    (tmp_path / "tools/files/ok.c").write_text(
        '#include "files/files.h"\n#include <quern/tool.h>\n')
    check = ["sh", tmp_path / "tools/check_includes.sh"]
    assert subprocess.run(check).returncode == 0
    (tmp_path / path).write_text("#include <stdint.h>\n" + line + "\n")
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:2: may not include ")


# Rooms that have one circle still, in each set of instructions that they are compiled for, of at
# most so many files.
CIRCLES = {"sim": 24}


def test_no_files_need_each_other_in_a_circle(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP / "tests"))
    import cycles

    directory = COMMAND.parents[1] / "src"
    edges = cycles.graph(directory)
    assert len(edges) > 80
    bad = []
    for component in cycles.components(edges):
        rooms = {name.partition("/")[0] for name in component}
        if len(rooms) > 1 or len(component) > CIRCLES.get(*rooms, 0):
            bad.append(sorted(component))
    assert not bad, "tests/cycles.py says by which symbols"


def test_a_circle_of_files_is_found(tmp_path):
    sources = {"a": "int b(void); int a(void) { return b(); }",
               "b": "int c(void); int b(void) { return c(); }",
               "c": "int d(void); int c(void) { return d(); }",
               "d": "int d(void) { return 1; }"}  # fmt: skip

    def made():
        for name, text in sources.items():
            subprocess.run(["cc", "-x", "c", "-c", "-", "-o", tmp_path / f"{name}.o"],
                           input=text.encode(), check=True)  # fmt: skip
        return subprocess.run([TOP / "tests/cycles.py", tmp_path], capture_output=True, text=True)

    assert (made().returncode, made().stdout) == (0, "")
    sources["d"] = "int b(void); int d(void) { return b(); }"
    done = made()
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["a circle of 3 files:", "  b -> c: c", "  c -> d: d",
                                        "  d -> b: b"]  # fmt: skip
    # the same source for two sets of instructions is no circle of the two
    for name in "abcd":
        (tmp_path / f"{name}.o").unlink()
    sources = {"x.v1": "int y(void); int x(void) { return y(); }",
               "y.v1": "int y(void) { return 1; }",
               "x.v2": "int x(void) { return 1; }",
               "y.v2": "int x(void); int y(void) { return x(); }"}  # fmt: skip
    assert made().returncode == 0


def test_loops_over_threads_are_under_thread_sanitizer():
    listed = (TOP / "tests/threads.txt").read_text()
    for path in sorted((TOP / "src").rglob("*.c")):
        name = str(path.relative_to(TOP))
        if re.search(r"\bparallel_for\(", path.read_text()):
            assert re.search(rf"^tests/\S+ .*{re.escape(name)}\b", listed, re.MULTILINE), name


def test_every_call_of_the_system_goes_through_the_table():
    """What the objects of the library import, but for the table's own (src/base/os.h)."""
    table = set(re.findall(r"(?:X\(|\(\*|\) \*)(\w+)", (TOP / "src/base/os.h").read_text()))
    assert len(table) > 40 and {"malloc", "openat", "fsync", "clock_gettime"} <= table
    others = """fopen fclose opendir stat lstat access mkdir rename link unlink symlink readlink
        pipe fork vfork execve waitid kill mmap munmap strdup strndup asprintf vasprintf getline
        posix_memalign getenv time usleep sleep pwrite sendmsg""".split()
    forbidden = {name + end for name in [*table, *others] for end in ("", "64")}
    objects = [o for o in (COMMAND.parents[1] / "src").rglob("*.o")
               if o.name != "os.o" and not o.name.startswith(("worker", "exec"))]  # fmt: skip
    assert len(objects) > 80
    nm = subprocess.run(["nm", "-A", "-u", *objects], capture_output=True, check=True, text=True)
    bad = set()
    for line in nm.stdout.splitlines():
        path, _, name = line.partition(":")
        name = name.split()[-1].split("@")[0]
        if name in forbidden:
            bad.add((path.rsplit("/", 1)[-1], name))
    assert bad == {("directory.o", "free")}  # what realpath allocated itself


def test_the_library_ends_no_process_and_prints_nothing():
    """The compiler's worker and the helper that fetches are programs of their own, and may."""
    pattern = re.compile(
        r"(?<![\w.>])(?:abort|assert|_?exit|quick_exit|printf|puts|perror|setenv|putenv|setlocale"
        r"|chdir)\(|\bstd(?:out|err)\b")
    library = [p for p in sources() if p.is_relative_to(TOP / "src") and p.suffix in (".c", ".h")
               and not p.name.startswith(("worker", "remote_helper"))]  # fmt: skip
    assert len(library) > 100
    bad = []
    for path in library:
        code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', lambda m: "\n" * m[0].count("\n"),
                      path.read_text(), flags=re.S)
        bad += [f"{path.relative_to(TOP)}:{code.count(chr(10), 0, m.start()) + 1}: {m[0]}"
                for m in pattern.finditer(code)]
    assert not bad


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
@pytest.mark.parametrize("page", ["docs/embedding.md", "docs/sim.md"])
def test_the_examples_of_a_page_compile(page):
    examples = re.findall(r"^```c\n(.*?)^```", (TOP / page).read_text(), re.M | re.S)
    assert examples
    gcc = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc", "-"]
    for example in examples:
        done = subprocess.run([*gcc, f"-I{TOP / 'include'}"], input=example, text=True,
                              capture_output=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_the_embedding_guide_is_complete():
    """A row for every variable that the library knows, and for every status."""
    guide = (TOP / "docs/embedding.md").read_text()
    known = re.search(r"known_variables\[\] = \{(.*?)\}",
                      (TOP / "src/dispatch/context_options.c").read_text(), re.S).group(1)
    strings = re.search(r"#define STRING_SETTINGS\(X\)(.*?)\n\n",
                        (TOP / "src/dispatch/dispatch.h").read_text(), re.S).group(1)
    variables = re.findall(r'"(QUERN_\w+)"', known + strings)
    statuses = re.findall(r"^    (QUERN_E_\w+)", (TOP / "include/quern/status.h").read_text(), re.M)
    assert len(variables) > 10 and len(statuses) > 15
    rows = set(re.findall(r"^\| `(QUERN_\w+)` \|", guide, re.M))
    assert rows == set(variables) | set(statuses)


def test_the_page_has_the_librarys_counters():
    """Their numbers and names, which quern.h lists once."""
    header = (TOP / "include/quern/quern.h").read_text()
    rows = re.findall(r"^    X\((\d+), (\w+), (\w+),", header, re.M)
    assert len(rows) >= 20 and all(upper == name.upper() for _, upper, name in rows)
    section = (TOP / "docs/formats.md").read_text().partition("\n## Cache counters\n")[2]
    section = section.partition("\n## ")[0]
    documented = re.findall(r"^\| (\d+) \| `(\w+)` \| \w", section, re.M)
    assert documented == sorted(((n, name) for n, _, name in rows), key=lambda row: int(row[0]))


def test_what_the_command_prints_is_safe():
    """JSON is made by json_make and json_words, which take bytes of anywhere; people's lines go to
    stdout, which begin_output makes safe, or through report.c and progress.c to stderr."""
    bad = []
    for path in tracked():
        name = str(path.relative_to(TOP))
        if not re.match(r"tools/(?!bnb/|model/).*\.c$", name):
            continue
        own = name in ("tools/command/report.c", "tools/command/progress.c")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bjson_v?(pack|string|sprintf)(_ex|_nocheck|n)?\(", line) \
                    and name != "tools/files/json_file.c":  # fmt: skip
                bad.append(f"{name}:{number}: not through json_make")
            if not own and re.search(r"\b(stderr|STDOUT_FILENO|STDERR_FILENO|perror)\b", line):
                bad.append(f"{name}:{number}: not through report.c")
    assert not bad


def test_nothing_reaches_a_network():
    """No program and no library of ours imports a function that does. What they load besides, a
    GPU's runtime or a compiler, is others'."""
    build = COMMAND.parents[1]
    built = [COMMAND, build / "libexec/quern/quern-worker", *(build / "lib").glob("*.so"),
             *(build / "libexec/quern").glob("*.so")]  # fmt: skip
    assert len(built) >= 4
    reaching = re.compile(r"^(socket|connect|bind|listen|accept4?|getaddrinfo"
                          r"|gethostby\w+|res_\w*(query|search))$")
    for path in built:
        nm = subprocess.run(["nm", "-D", "-u", path], capture_output=True, check=True, text=True)
        names = {line.split()[-1].split("@")[0] for line in nm.stdout.splitlines()}
        assert len(names) > 10 or path.name.startswith("quern-sim"), path
        assert not [name for name in names if reaching.match(name)], path
