# SPDX-License-Identifier: MIT
"""Commands in the documents, run as they stand; and the figures that the design bounds."""

import json
import os
import re
import resource
import shutil
import subprocess

import pytest

from conftest import COMMAND, EXPLORES, SANITIZED, TOP, clean_environment

BUILD = COMMAND.parents[1]
FAKEHIP = BUILD / "lib" / "fakehip"
PAGES = [*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")]


@pytest.fixture
def shell(tmp_path):
    """Runs lines in one directory, with the command on the path and a cache of its own."""
    env = clean_environment(tmp_path / "cache")
    env["PATH"] = f"{COMMAND.parent}:{env['PATH']}"

    def run(script, **more):
        done = subprocess.run(["sh", "-euc", script], cwd=tmp_path, env={**env, **more},
                              capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    run.directory = tmp_path
    yield run
    subprocess.run(["chmod", "-R", "u+w", str(tmp_path)], check=True)


def test_the_prewarm_guide(shell):
    text = (TOP / "docs/prewarm.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) >= 6
    for block in blocks:
        assert shell(block) or block.startswith("cat >model.json ")


def test_files_that_pages_name_exist():
    """`src/plan/plan.c`; `*` stands for several, and a name in capitals for any."""
    bad = []
    for page in PAGES:
        for name in re.findall(r"`((?:src|tools|templates|tests|include|examples|cache)/[^`\s]+)`",
                               page.read_text()):
            pattern = re.sub(r"\bNAME\b|_NAME\b", "*", name).rstrip("/")
            if "…" not in name and not list(TOP.glob(pattern)):
                bad.append(f"{page.relative_to(TOP)}: {name}")
    assert not bad


def test_links_between_pages_lead_somewhere():
    """Files, and headings where a link names one."""
    bad = []
    for page in [*PAGES, TOP / "tools/python/README.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, heading = link.partition("#")
            to = (page.parent / path) if path else page
            if "://" in link:
                continue
            if not to.exists():
                bad.append(f"{page.relative_to(TOP)}: {link}")
            elif heading:
                titles = re.findall(r"^#+ (.*)$", to.read_text(), re.M)
                slugs = [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]
                if heading not in slugs:
                    bad.append(f"{page.relative_to(TOP)}: {link}")
    assert not bad


@pytest.mark.parametrize("page", ["bitsandbytes", "new-gpu"])
def test_the_commands_of_a_page(shell, page):
    blocks = re.findall(r"^```sh\n(.*?)^```", (TOP / f"docs/{page}.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        assert shell(block)


@pytest.mark.skipif(SANITIZED, reason="what is installed is the release build")
@pytest.mark.parametrize("page, program, says", [
    ("embedding", "minimal", "c[0] = 32, expected 32\n"),
    ("pytorch", None, ""),
])  # fmt: skip
def test_what_is_installed_by_a_page(shell, page, program, says):
    """Its commands in the checkout, with a home of their own; the last one runs the program."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", (TOP / f"docs/{page}.md").read_text(), re.M | re.S)
    rocm = TOP / "build/rocm"  # an installed quern does not look for it
    more = {"QUERN_ROCM_PATH": str(rocm)} if rocm.is_dir() else {}
    unset = "unset MAKEFLAGS MAKELEVEL MFLAGS\n"
    done = shell(f"cd '{TOP}'\n{unset}{block}", HOME=str(shell.directory), **more)
    assert done.endswith(says)
    assert program is None or (shell.directory / program).exists()
    assert program or (shell.directory / "site/quern/__init__.py").exists()


def test_the_readme_in_the_shell(shell):
    """Every command of "Use it from the shell", in order; names in capitals stand for files."""
    text = (TOP / "README.md").read_text()
    (section,) = re.findall(r"^## Use it from the shell\n(.*?)\n## ", text, re.M | re.S)
    path, *lines = [line.split("#")[0].strip() for line in re.findall(r"^    (.*)", section, re.M)]
    assert path == "export PATH=$PWD/build/release/bin:$PATH"
    assert len(lines) >= 7 and all(line.startswith("quern ") for line in lines)
    seen = set()
    for line in lines:
        verb = line.split()[1]
        seen.add(verb)
        if verb in ("explain", "source", "build", "profile"):
            assert shell(line)
        elif verb == "sim":
            plan = json.loads((shell.directory / "DIR/plan.json").read_text())
            sizes = {o["name"]: o["bytes"] for o in plan["operands"]}
            (shell.directory / "A").write_bytes(bytes(sizes["a"]))
            shell(line)
            assert (shell.directory / "C").stat().st_size == sizes["c"]
        elif verb == "quantize":
            (shell.directory / "W").write_bytes(bytes(4 * 4096 * 4096))
            shell(line)
        elif verb == "lint":
            assert "nothing was found" in shell(line)
        elif verb == "tune":
            if not FAKEHIP.is_dir():
                continue
            shell("QUERN_RECORD=LAYERS quern prewarm --target gfx1151 --m 1 "
                  "'wq=nf4 n=64 k=64 a=f16'")
            shell(line + " --m 1 --shapes 2 --rotate 1K", LD_LIBRARY_PATH=str(FAKEHIP),
                  FAKEHIP_DEVICES="gfx1151", QUERN_DEVICE="hip")
        else:
            assert verb == "doctor"
            shell(line + " || test $? -eq 1")  # without a GPU it has something to say
    assert seen == {"explain", "source", "build", "quantize", "sim", "profile", "lint", "tune",
                    "doctor"}


def test_the_commands_behind_the_figures_exist():
    """The programs that they name; each has a run of its own elsewhere or is a benchmark."""
    text = (TOP / "README.md").read_text()
    (table,) = re.findall(r"^## Figures\n(.*?)\n## ", text, re.M | re.S)
    for command in re.findall(r"`([^`]+)` \|$", table, re.M):
        if command.startswith("build/release/"):
            program = command.split()[0].split("/")[-1]
            assert (TOP / "tests" / "bench" / f"{program}.c").exists(), command
        elif command.startswith("quern "):
            usage = subprocess.run([COMMAND, command.split()[1], "--help"], capture_output=True,
                                   text=True).stdout
            for option in re.findall(r"--[a-z-]+", command):
                assert f"  {option}" in usage, (command, option)


def test_the_smallest_example(tmp_path):
    """It is short, and right, on the software GPU and on a GPU."""
    source = (TOP / "examples/minimal/main.c").read_text()
    assert len(source.splitlines()) <= 40
    program = BUILD / "examples/minimal"
    env = clean_environment(tmp_path / "cache")
    ways = [{"QUERN_TARGET": "gfx1151"}]
    if FAKEHIP.is_dir():
        ways.append({"LD_LIBRARY_PATH": str(FAKEHIP), "QUERN_DEVICE": "hip"})
    for way in ways:
        done = subprocess.run([program], env={**env, **way}, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "c[0] = 32, expected 32\n"), done.stderr


def test_the_example_with_zero_points(tmp_path):
    """Every number of the result is the formula's, on the software GPU and on a GPU."""
    env = clean_environment(tmp_path / "cache")
    ways = [{"QUERN_TARGET": "gfx1151"}]
    if FAKEHIP.is_dir():
        ways.append({"LD_LIBRARY_PATH": str(FAKEHIP), "QUERN_DEVICE": "hip"})
    for way in ways:
        done = subprocess.run([BUILD / "examples/layer"], env={**env, **way}, capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stderr
        is_, expected, wrong, count = re.fullmatch(
            r"c\[2\]\[63\] = (\S+), expected (\S+); (\d+) of (\d+) are others\n", done.stdout
        ).groups()  # fmt: skip
        assert is_ == expected != "0" and (wrong, count) == ("0", "192")


def test_examples_want_stable_headers_alone():
    """What a host copies from them must not change under it: tool.h and sim.h may."""
    for source in (TOP / "examples").rglob("*.[ch]"):
        found = re.findall(r"#include <quern/(\w+)\.h>", source.read_text())
        assert set(found) <= {"quern", "weights"}, source


@pytest.mark.parametrize("example, says", [
    ("graph", ["token 1: 1", "token 2: 2", "token 3: 3", "token 4: 4"]),
    ("threads", ["4 threads, 8 launches each, 0 wrong answers"]),
])  # fmt: skip
@pytest.mark.skipif(not FAKEHIP.is_dir(), reason="no HIP headers here")
def test_examples_that_own_a_gpu(tmp_path, example, says):
    done = subprocess.run([BUILD / "examples" / example], capture_output=True, text=True,
                          env={**clean_environment(tmp_path / "cache"),
                               "LD_LIBRARY_PATH": str(FAKEHIP)})
    assert (done.returncode, done.stdout.splitlines()) == (0, says), done.stderr


def test_examples_on_cuda(tmp_path):
    """The same on fakecuda, where what kernels compute is computed by their texts on the CPU."""
    if not (BUILD / "examples/graph_cuda").exists():
        pytest.skip("no cuda.h, or no HIP headers to make fakecuda from")
    env = {**clean_environment(tmp_path / "cache"), "QUERN_DEVICE": "cuda",
           "LD_LIBRARY_PATH": str(FAKEHIP.parent / "fakecuda")}
    if subprocess.run([COMMAND, "doctor"], env=env, capture_output=True).returncode:
        assert os.environ.get("CI") != "true"
        pytest.skip("no NVRTC; `make setup-cuda` fetches it")
    examples = (("minimal", "c[0] = 32, expected 32"), ("graph_cuda", "token 4: 4"),
                ("threads_cuda", "4 threads, 8 launches each, 0 wrong answers"))
    # each makes a multiprocessor of its own, two seconds; test_cuda has threads, too
    for example, says in examples if EXPLORES else examples[:2]:
        done = subprocess.run([BUILD / "examples" / example], env=env, capture_output=True,
                              text=True)
        assert done.returncode == 0 and done.stdout.splitlines()[-1] == says, done.stderr


# ---- figures ------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_the_header_is_parsed_in_20_ms(tmp_path):
    """Processor time beyond what a compiler takes for an empty file; the least of some rounds."""
    (tmp_path / "empty.cc").write_text("")
    (tmp_path / "header.cc").write_text("#include <quern/quern.h>\n")

    def parse(name):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["g++", "-std=c++17", "-fsyntax-only", f"-I{TOP / 'include'}",
                        tmp_path / name], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    rounds = [(parse("empty.cc"), parse("header.cc")) for _ in range(10)]
    assert min(h for _, h in rounds) - min(e for e, _ in rounds) <= 0.020, rounds


OPENING = r"""
#include <quern/quern.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
    double least = 1e9;

    for (int i = 0; i < 20; i++) {
        struct timespec a, b;
        quern_ctx *ctx;
        clock_gettime(CLOCK_MONOTONIC, &a);
        const quern_status status = quern_open(NULL, &ctx);
        clock_gettime(CLOCK_MONOTONIC, &b);
        const double ms = (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6;
        if (status != QUERN_E_TARGET)
            return 1;
        least = ms < least ? ms : least;
    }
    printf("%g %s\n", least, quern_last_error()->message);
}
"""


@pytest.mark.skipif(os.path.exists("/dev/kfd") or os.path.exists("/dev/dxg"),
                    reason="this machine may have a GPU")
def test_opening_without_rocm_takes_a_millisecond(tmp_path):
    (tmp_path / "open.c").write_text(OPENING)
    library = BUILD / "lib"
    subprocess.run(["gcc", "-O2", f"-I{TOP / 'include'}", tmp_path / "open.c", "-o",
                    tmp_path / "open", f"-L{library}", "-lquern"], check=True)
    env = {**clean_environment(tmp_path / "cache"), "LD_LIBRARY_PATH": str(library)}
    done = subprocess.run([tmp_path / "open"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    ms, message = done.stdout.split(" ", 1)
    assert float(ms) <= 1 and "no AMD GPU" in message and "QUERN_TARGET" in message


def test_each_sentence_of_the_threat_model_has_a_test():
    """SECURITY.md says what quern trusts in a table alone: rows in the order of their numbers, each
    of one sentence, with tests that there are."""
    text = (TOP / "SECURITY.md").read_text()
    (section,) = re.findall(r"^## What quern trusts\n(.*?)^## ", text, re.M | re.S)
    head, bar, table = section.partition("|---|---|---|\n")
    assert bar and re.search(r"The table is the threat model\.", head)
    rows = table.strip().splitlines()
    assert len(rows) > 30
    for number, row in enumerate(rows, 1):
        first, sentence, tests = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert first.strip("| ") == str(number), row
        assert sentence.endswith(".") and ". " not in sentence, row
        named = re.findall(r"`(tests/[^`]+)`(?:: ((?:`\w+`(?:, )?)+))?", tests)
        assert named, row
        for path, names in named:
            code = (TOP / path).read_text()
            found = re.findall(r"`(\w+)`", names)
            assert found or path.startswith("tests/fuzz/"), row
            for name in found:
                one = rf"^def {name}\(" if path.endswith(".py") else rf"^static void {name}\("
                assert re.search(one, code, re.M), (path, name)
                # a test of C that is in no list does not run
                assert path.endswith(".py") or len(re.findall(rf"\b{name}\b", code)) > 1, name
