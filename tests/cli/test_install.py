# SPDX-License-Identifier: MIT
"""`make install` into an empty root, moved, and used by programs that know only where it is now."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import COMMAND, EXPLORES, TOP, clean_environment
from test_command import VERBS

# opens a context, which needs the worker beside the library, and compiles one kernel
CONSUMER = r"""
#include <quern/quern.h>
#include <stdio.h>

int main(void)
{
    struct quern_options options = {};
    struct quern_problem problem = {};
    quern_ctx *ctx;
    quern_op *op;

    options.size = sizeof options;
    options.target = "gfx1151";
    problem.size = sizeof problem;
    if (quern_open(&options, &ctx) ||
        quern_problem_parse("wq=nf4 n=32 k=64 a=f32", &problem) ||
        quern_op_create(ctx, &problem, 1, &op)) {
        fprintf(stderr, "%s\n", quern_last_error()->message);
        return 1;
    }
    quern_op_release(op);
    quern_close(ctx);
    puts("one kernel");
    return 0;
}
"""

pytestmark = pytest.mark.skipif(
    "release" not in COMMAND.parts, reason="what is installed is the release build"
)


def run(*words, cwd, env=None):
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def make(*words):
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return run("make", "--no-print-directory", *words, cwd=TOP, env=env)


def files(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())


@pytest.fixture(scope="module", params=["lib"] * EXPLORES + ["lib/x86_64-linux-gnu"])
def moved(request, tmp_path_factory):
    """The tree after a move: nothing may remember where it was installed."""
    top = tmp_path_factory.mktemp("install")
    make("install", f"DESTDIR={top}/stage", "PREFIX=/usr", f"LIBDIR={request.param}")
    (top / "stage/usr").rename(top / "elsewhere")
    shutil.rmtree(top / "stage")
    return top / "elsewhere", request.param


def consume(moved, tmp_path, program):
    env = clean_environment(tmp_path / "cache")
    env["LD_LIBRARY_PATH"] = str(moved[0] / moved[1])
    # the rootless toolchain is found beside a build tree only; an installed quern is told
    env.setdefault("QUERN_ROCM_PATH", str(TOP / "build/rocm"))
    assert run(program, cwd=tmp_path, env=env) == "one kernel\n"


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_pkg_config(moved, tmp_path, compiler):
    if not shutil.which("pkg-config") or not shutil.which(compiler.split()[0]):
        pytest.skip(f"no pkg-config or no {compiler.split()[0]}")
    source = tmp_path / ("consumer.c" if compiler.startswith("gcc") else "consumer.cc")
    source.write_text(CONSUMER)
    env = {**os.environ, "PKG_CONFIG_PATH": str(moved[0] / moved[1] / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "quern", cwd=tmp_path, env=env).split()
    warnings = ["-Wall", "-Wextra", "-Werror"]
    if compiler.startswith("g++"):
        warnings.append("-Wpedantic")
    run(*compiler.split(), *warnings, source, "-o", "consumer", *flags, cwd=tmp_path)
    consume(moved, tmp_path, tmp_path / "consumer")
    said = run("pkg-config", "--modversion", "quern", cwd=tmp_path, env=env).strip()
    assert run(moved[0] / "bin/quern", "--version", cwd=tmp_path) == f"quern {said}\n"


@pytest.mark.parametrize("library", ["quern::quern", "quern::static"])
def test_cmake(moved, tmp_path, library):
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    (tmp_path / "consumer.c").write_text(CONSUMER)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(consumer LANGUAGES C)\n"
        "find_package(quern 0.1 REQUIRED)\nadd_executable(consumer consumer.c)\n"
        f"target_link_libraries(consumer {library})\n"
    )
    run("cmake", f"-DCMAKE_PREFIX_PATH={moved[0]}", "-B", "out", ".", cwd=tmp_path)
    run("cmake", "--build", "out", cwd=tmp_path)
    consume(moved, tmp_path, tmp_path / "out/consumer")  # if static, libexec is on its run path


def test_cmake_add_subdirectory(tmp_path):
    """The build is the Makefile's: nothing is left to make here, and the program runs where it is,
    with the worker and the software GPU of the checkout."""
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    (tmp_path / "consumer.c").write_text(CONSUMER)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(consumer LANGUAGES C)\n"
        f"add_subdirectory({TOP} quern)\nadd_executable(consumer consumer.c)\n"
        "target_link_libraries(consumer quern::quern)\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    run("cmake", "-B", "out", ".", cwd=tmp_path, env=env)
    run("cmake", "--build", "out", cwd=tmp_path, env=env)
    consume((TOP, "lib"), tmp_path, tmp_path / "out/consumer")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `make install` says, and where: the tree stays there."""
    prefix = tmp_path_factory.mktemp("prefix") / "quern"
    return prefix, make("install", f"PREFIX={prefix}")


def test_the_lines_of_the_readme(installed, tmp_path):
    """Each compiles and links a host, whose worker and software GPU are found: beside the shared
    library, or for a static one where PREFIX was."""
    readme = (TOP / "README.md").read_text()
    lines = re.findall(r"^    (cc host\.c .*?)(?: +# .*)?$", readme, re.M)
    assert len(lines) == 3 and "\n    #include <quern/quern.h>  " in readme
    (tmp_path / "host.c").write_text(CONSUMER)
    env = {**os.environ, "PKG_CONFIG_PATH": str(installed[0] / "lib/pkgconfig")}
    for line in lines:
        if "pkg-config" in line and not shutil.which("pkg-config"):
            continue
        run("sh", "-c", line.replace("$HOME/quern", str(installed[0])), cwd=tmp_path, env=env)
        consume((installed[0], "lib" if "pkg-config" in line else "none"), tmp_path,
                tmp_path / "host")


def test_what_installing_says_of_the_compiler(installed):
    """Where it is, and how it is found from now on; what it says comes true."""
    (line,) = [line for line in installed[1].splitlines() if line.startswith("compiler: ")]
    env = {k: v for k, v in clean_environment("/nonexistent").items() if k != "QUERN_ROCM_PATH"}
    if "must be named" in line:
        env["QUERN_ROCM_PATH"] = line.split("export QUERN_ROCM_PATH=")[1]
    said = subprocess.run([installed[0] / "bin/quern", "doctor", "--cache-mode", "off"], env=env,
                          capture_output=True, text=True).stdout
    assert f"ok       toolchain: {os.path.realpath(line.split()[1].rstrip(','))}\n" in said


def test_installing_builds_what_is_installed(tmp_path):
    """Neither tests nor examples, nor the runtime that stands in for HIP."""
    commands = make("-n", "install", f"B={tmp_path / 'build'}", f"PREFIX={tmp_path}", "V=1")
    assert "libexec/quern/quern-worker" in commands and "src/sim/exec/" in commands
    for part in ("tests/", "examples/", "fakehip", "cmocka"):
        assert part not in commands, part


def test_help_names_targets_that_there_are(tmp_path):
    """And makes nothing, nor wants anything to be there."""
    said = make("help", f"B={tmp_path / 'build'}")
    named = re.findall(r"^make (\S*) +\S.*$", said, re.M)
    assert {"", "install", "wheel", "check"} <= set(named)
    assert max(map(len, said.splitlines())) <= 100
    rules = re.findall(r"^([a-z-]+):(?!=)", (TOP / "Makefile").read_text(), re.M)
    assert [name for name in named if name and name not in rules] == []
    assert files(tmp_path) == []


def test_the_callers_jobs_are_taken(tmp_path):
    """make -j2 makes on two CPUs, and has nothing to warn of."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    for goal in ("install", "all", "hosts"):
        done = subprocess.run(["make", "-n", "-j2", goal, f"B={tmp_path / 'build'}",
                               f"PREFIX={tmp_path}"], cwd=TOP, env=env, capture_output=True,
                              text=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), goal


def test_what_installing_says_of_programs(installed, tmp_path):
    """What pkg-config and the loader must be told, with which a host is built and runs."""
    (line,) = [line for line in installed[1].splitlines() if line.startswith("programs: ")]
    export, rpath = re.fullmatch(r"programs: (export \S+), and link with (\S+)", line).groups()
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    (tmp_path / "host.c").write_text(CONSUMER)
    run("sh", "-euc", f"{export}\ncc host.c -o host $(pkg-config --cflags --libs quern) {rpath}",
        cwd=tmp_path)
    consume((installed[0], "none"), tmp_path, tmp_path / "host")


def test_what_is_installed_is_stripped(moved):
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    for name in files(moved[0]):
        if re.search(r"\.so[.\d]*$|\.a$|bin/quern$|quern-worker$", name):
            assert ".debug_info" not in run("readelf", "-SW", moved[0] / name, cwd=TOP), name


def test_cmake_refuses_other_series(moved, tmp_path):
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(consumer LANGUAGES C)\n"
        "find_package(quern 0.2 QUIET)\nif(quern_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n"
    )
    run("cmake", f"-DCMAKE_PREFIX_PATH={moved[0]}", "-B", "out", ".", cwd=tmp_path)


def exported(library):
    if not shutil.which("nm"):
        pytest.skip("no nm")
    return [
        line.split()[-1].split("@")[0]
        for line in run("nm", "-D", "--defined-only", library, cwd=TOP).splitlines()
        if line.split()[-2] not in ("A",)
    ]


def test_only_quern_names_are_exported(moved):
    names = exported(moved[0] / moved[1] / "libquern.so")
    assert "quern_op_launch" in names
    assert [n for n in names if not n.startswith("quern_")] == []


def test_the_library_is_small(moved):
    """What a host that owns a GPU loads: without the software GPU, which is files of its own.
    0.44 MB of it is zstd's compressor, by which bundles are made; 0.4 MB is the templates of both
    vendors, with their comments, and the machine that runs NVIDIA's on the CPU."""
    if not shutil.which("size"):
        pytest.skip("no size")
    text, data = map(int, run("size", moved[0] / moved[1] / "libquern.so", cwd=TOP)
                     .splitlines()[1].split()[:2])
    assert text + data <= 2_196_000
    isas = os.environ.get("ISAS", "x86_64 x86_64_v3 x86_64_v4").split()  # as the Makefile has it
    assert [p for p in files(moved[0]) if "quern-sim-" in p] == [
        f"libexec/quern/quern-sim-{isa}.so" for isa in isas]


def simulate(tree, tmp_path):
    env = clean_environment(tmp_path / "cache")
    env.setdefault("QUERN_ROCM_PATH", str(TOP / "build/rocm"))
    return subprocess.run(
        [tree / "bin/quern", "prewarm", "--target", "gfx1151", "--m", "1", "--verify",
         "wq=nf4 n=32 k=64 a=f32"], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=1800)


def test_software_gpu_of_a_moved_tree(moved, tmp_path):
    """It runs; without its files, with those of another build, or without those of the best
    instruction set, what is said is true."""
    tree = shutil.copytree(moved[0], tmp_path / "tree", symlinks=True)
    done = simulate(tree, tmp_path)
    assert done.returncode == 0, done.stderr
    parts = sorted(tree.glob("libexec/quern/quern-sim-*.so"))
    for part in parts[1:]:
        part.unlink()
    done = simulate(tree, tmp_path)
    assert done.returncode == 0, done.stderr
    stamp = re.search(rb"#define SIM_STAMP \"(\w{16})\"",
                      (COMMAND.parents[1] / "gen/sim_stamp.h").read_bytes()).group(1)
    whole = parts[0].read_bytes()
    assert whole.count(stamp) == 1
    parts[0].write_bytes(whole.replace(stamp, b"0" * 16))
    done = simulate(tree, tmp_path)
    assert done.returncode == 1 and "is not of this version of quern" in done.stderr
    parts[0].unlink()
    done = simulate(tree, tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the software GPU is not installed" in done.stderr
    assert f"{tree}/bin/../libexec/quern/quern-sim-x86_64.so" in done.stderr


def test_a_set_user_id_program_loads_only_what_is_roots(moved):
    """Whoever may start it may also make a hard link of it, in a tree of their own."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    with tempfile.TemporaryDirectory(prefix="quern-") as name:
        tree = pathlib.Path(name)
        tree.chmod(0o755)
        for part in ("bin", "libexec"):
            shutil.copytree(moved[0] / part, tree / part)
        (tree / "bin/quern").chmod(0o4755)
        as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env",
                     "-i", tree / "bin/quern", "prewarm", "--cache-mode", "off", "--target",
                     "gfx1151", "--m", "1", "--verify", "--rocm-path",
                     os.environ.get("QUERN_ROCM_PATH", TOP / "build/rocm"),
                     "wq=nf4 n=32 k=64 a=f32"]
        if os.statvfs(name).f_flag & os.ST_NOSUID or not reachable(TOP):
            pytest.skip("set-user-ID programs or the compiler are out of reach here")
        done = subprocess.run([*map(str, as_nobody)], capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr
        for part in tree.glob("libexec/quern/quern-sim-*.so"):
            os.chown(part, 65534, 65534)
        done = subprocess.run([*map(str, as_nobody)], capture_output=True, text=True, timeout=1800)
        assert done.returncode == 1 and "that is root's" in done.stderr, done.stderr


def reachable(path):
    """By anyone: every directory down to it may be entered."""
    return all(p.stat().st_mode & 0o001 for p in [path, *path.parents])


def test_bitsandbytes_names(moved):
    """Exactly these, and the library beside it is found wherever the tree is."""
    library = moved[0] / moved[1] / "libquern_bnb.so"
    assert sorted(exported(library)) == [
        "cgemm_4bit_bf16", "cgemm_4bit_fp16", "cgemm_4bit_fp32",
        "quern_bnb_last_error", "quern_bnb_last_status"]
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).quern_bnb_last_status())"
    assert run(sys.executable, "-c", code, library, cwd=TOP, env=env) == "0\n"


def test_man_pages(moved):
    pages = [p for p in files(moved[0]) if p.startswith("share/man/")]
    assert {"share/man/man1/quern.1", "share/man/man3/libquern.3"} <= set(pages)
    assert "share/man/man5/quern-formats.5" in pages
    assert {f"share/man/man1/quern-{verb}.1" for verb in VERBS} <= set(pages)
    if not shutil.which("man"):
        pytest.skip("no man")
    env = {**os.environ, "COLUMNS": "80"}
    for page in pages:
        if (moved[0] / page).read_text().startswith(".so "):
            continue  # a link, which `man -l` does not follow
        text = run("man", "--warnings", "-l", page, cwd=moved[0], env=env)
        assert "NAME" in text and "quern" in text
    # of a page that several verbs share, each is found by its own name
    for verb in VERBS:
        text = run("man", "-M", "share/man", f"quern-{verb}", cwd=moved[0], env=env)
        assert re.search(rf"^NAME\n(?: .*\n)*? .*\bquern-{verb}\b", text, re.M), verb


def test_pages_that_headers_name(moved):
    """docs/embedding.md is below share/doc/quern, as the head of quern.h says."""
    headers = "".join(p.read_text() for p in (moved[0] / "include/quern").iterdir())
    pages = set(re.findall(r"docs/[\w/-]+\.md", headers))
    assert "docs/formats.md" in pages and "docs/kernels.md" in pages
    assert [p for p in pages if not (moved[0] / "share/doc/quern" / p).exists()] == []


def test_bash_completion(moved):
    script = moved[0] / "share/bash-completion/completions/quern"

    def complete(*words):
        return run(
            "bash", "-c", f". {script}; COMP_WORDS=({' '.join(words)}); "
            f"COMP_CWORD={len(words) - 1}; _quern; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            cwd=TOP, env={**os.environ, "PATH": f"{moved[0]}/bin:{os.environ['PATH']}"},
        ).split()

    assert complete("quern", "pre") == ["prewarm"]
    assert "--out" in complete("quern", "build", "--")
    assert complete("quern", "cache", "\"\"") == ["stat", "list", "verify", "clear", "push", "pull",
                                                 "revoke"]
    assert complete("quern", "bundle", "\"\"") == BUNDLE_ACTIONS
    assert complete("quern", "build", "--target", "gfx115") == [f"gfx115{n}" for n in range(4)]
    assert complete("quern", "build", "--target", "sm_9") == ["sm_90"]
    assert complete("quern", "build", "--target", "gfx942,sm_9") == ["gfx942,sm_90"]
    assert complete("quern", "build", "--target", "sm_90,gfx942,gfx115") == [
        f"sm_90,gfx942,gfx115{n}" for n in range(4)]
    assert complete("quern", "build", "--target", "gfx942,x") == []
    everything = complete("quern", "build", "--target", "\"\"")
    assert len(everything) > 20 and "target" not in everything
    assert complete("quern", "build", "--target", "gfx942,") == [
        f"gfx942,{name}" for name in everything]


BUNDLE_ACTIONS = ["create", "list", "verify", "inspect", "check", "sign", "import", "diff",
                  "keygen"]  # fmt: skip


@pytest.mark.parametrize("script", ["zsh/site-functions/_quern",
                                    "fish/vendor_completions.d/quern.fish"])
def test_completions_know_every_option(moved, script):
    """What these shells read from the command's help, by the words of the scripts themselves."""
    text = (moved[0] / "share" / script).read_text()
    pattern, actions = re.findall(r"quern help \S+ 2>/dev/null \| sed -n '([^']*)'", text)
    usage = run(moved[0] / "bin/quern", "help", "prewarm", cwd=TOP)
    done = subprocess.run(["sed", "-n", pattern], input=usage, capture_output=True, text=True)
    offered = [re.split("[:\t]", line)[0] for line in done.stdout.splitlines()]
    assert "--verify" in offered and "--model" in offered
    assert offered == re.findall(r"^  (--[a-z0-9-]+)", usage, re.M)
    usage = run(moved[0] / "bin/quern", "help", "bundle", cwd=TOP)
    done = subprocess.run(["sed", "-n", actions], input=usage, capture_output=True, text=True)
    assert done.stdout.replace("\n", "|") == "|".join(BUNDLE_ACTIONS) + "|"


def test_uninstall(tmp_path):
    make("install", f"DESTDIR={tmp_path}", "PREFIX=/opt/quern")
    other = tmp_path / "opt/quern/lib/other.so"
    other.write_text("somebody else's")
    assert "opt/quern/bin/quern" in files(tmp_path)
    make("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/opt/quern")
    assert files(tmp_path) == ["opt/quern/lib/other.so"]
    assert sorted(p.name for p in pathlib.Path(tmp_path / "opt/quern").iterdir()) == ["lib"]
