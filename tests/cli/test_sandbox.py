# SPDX-License-Identifier: MIT
"""What the compiler's sandbox refuses is told by name, and it refuses no compile its calls: with
the toolchain's own loader and C library, and with the host's."""

import fcntl
import os
import pathlib
import re
import subprocess
import time

import pytest
from conftest import COMMAND, SANITIZED, TARGET, TOP, clean_environment

ROCM = pathlib.Path(os.environ.get("QUERN_ROCM_PATH", TOP / "build/rocm"))

# A libhiprtc and a libamd_comgr in one, of the functions that the worker looks for. When it is
# loaded it calls what no compiler has to do with, and one thing that is unknown to the sandbox.
HOSTILE = """
#include <sys/syscall.h>
#include <sys/resource.h>
#include <unistd.h>
const char *hiprtcGetErrorString(int e) { return e ? "an error" : "none"; }
__attribute__((constructor)) static void attack(void)
{
    syscall(SYS_chmod, ".", 0777);
    syscall(SYS_prlimit64, 1, RLIMIT_CPU, (long[]){0, 0}, 0);
    syscall(SYS_eventfd2, 0, 0);
    syscall(SYS_chmod, ".", 0777);
}
"""


def names_of(file, prefix):
    """What the worker looks for in a library, by the list in that file."""
    text = (TOP / "src/compile" / file).read_text()
    return [prefix + name for name in re.findall(r'X\(\w+, [\w *]+, "(\w+)",', text)]


@pytest.mark.skipif(SANITIZED, reason="the worker is the same")
def test_refused_calls_are_named(quern, tmp_path):
    functions = names_of("worker_rtc.c", "hiprtc") + ["hiprtcGetCode", "hiprtcGetCodeSize"]
    functions += names_of("worker_comgr.c", "amd_comgr_")
    assert len(functions) > 20
    source = tmp_path / "hostile.c"
    source.write_text(HOSTILE + "".join(f"int {name}() {{ return 1; }}\n"
                                         for name in functions if not name.endswith("String")))
    library = tmp_path / "rocm/lib/libhiprtc.so.6"
    library.parent.mkdir(parents=True)
    subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", source, "-o", library],
                   check=True)  # fmt: skip
    (library.parent / "libamd_comgr.so.3").write_bytes(library.read_bytes())
    done = quern("doctor", "--rocm-path", tmp_path / "rocm", status=1)
    if ", seccomp" not in quern("doctor").stdout:
        pytest.skip("no seccomp here")
    assert "refused system calls: chmod, prlimit64, number 290" in done.stdout


def test_nothing_is_refused_to_a_compile(quern):
    said = quern("doctor").stdout
    assert "ok       compile: " in said
    assert "refused system" not in said
    for target in ("gfx906", "gfx942", TARGET, "gfx1201"):
        quern("prewarm", "--target", target, "--m", "1,16", "--allow-unverified",
              "wq=nf4 n=64 k=128 a=bf16")


@pytest.mark.skipif(SANITIZED, reason="the worker is the same")
@pytest.mark.parametrize("kib", [128, 1024])
def test_a_small_stack_of_the_hosts_is_not_the_compilers(quern, tmp_path, kib):
    """LLVM dies on a stack of 128 KB, and a limit that is lowered for good cannot be raised."""
    limited = ("sh", "-c", f'ulimit -s {kib} && exec "$@"', "sh")
    quern("build", "--target", TARGET, "--m", "1", "--out", tmp_path / "out",
          "wq=nf4 n=64 k=128 a=f16", prefix=limited)  # fmt: skip


@pytest.mark.skipif(SANITIZED, reason="sanitizers make frames larger")
def test_a_small_stack_is_enough_for_the_command(quern, tmp_path):
    """Of 64 KB, for the main thread and those that it starts."""
    limited = ("sh", "-c", 'ulimit -s 64 && exec "$@"', "sh")
    problem = "wq=nf4 n=64 k=128 a=f16"
    words = ["--target", TARGET, "--m", "1,16"]
    secret, public, bundle = tmp_path / "secret", tmp_path / "public", tmp_path / "a.qkb"
    for verb in (["prewarm", *words, "--verify", problem],
                 ["build", "--target", TARGET, "--m", "1", "--out", tmp_path / "out", problem],
                 ["profile", *words[:3], "1", problem],
                 ["inspect", tmp_path / "out/plan.json", "--disassemble"],
                 ["explain", *words, "--why-miss", problem], ["source", *words[:3], "1", problem],
                 ["cache", "list"], ["cache", "verify"], ["targets"], ["doctor"],
                 ["bundle", "create", bundle], ["bundle", "keygen", secret, public],
                 ["bundle", "sign", bundle, "--key", secret],
                 ["bundle", "import", bundle, "--key", public]):  # fmt: skip
        quern(*verb, prefix=limited)


def test_what_a_killed_supervisor_left_is_removed(quern, tmp_path):
    """Its directory holds up to 256 MB, in memory; of living workers and of strangers nothing is
    touched."""
    base = tmp_path / "base"

    def left(name, seconds=3600):
        (base / name / "inner").mkdir(parents=True)
        (base / name / "inner" / "scratch.o").write_bytes(b"0" * 1000)
        os.utime(base / name, (time.time() - seconds,) * 2)
        return base / name

    dead, living, young = left("quern-worker-aaaaaa"), left("quern-worker-bbbbbb"), left(
        "quern-worker-cccccc", 0)
    foreign, longer = left("quern-wherever-aaaa"), left("quern-worker-aaaaaaa")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (base / "quern-worker-dddddd").symlink_to(elsewhere)
    held = os.open(living, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    quern("build", "--target", TARGET, "--m", "1", "--out", tmp_path / "out",
          "wq=nf4 n=64 k=128 a=f16", env={"TMPDIR": str(base)})  # fmt: skip
    os.close(held)
    assert not dead.exists() and elsewhere.exists()
    assert sorted(base.iterdir()) == sorted([living, young, foreign, longer,
                                             base / "quern-worker-dddddd"])


def test_nothing_is_refused_with_the_hosts_loader(tmp_path):
    """The toolchain laid over /usr, in a mount namespace, is one that uses the host's C library."""
    script = (
        f"mount -t overlay overlay -o lowerdir={ROCM.resolve()}/usr:/usr /usr || exit 77\n"
        f"{COMMAND} doctor --rocm-path /usr || exit 1\n"
        f"for t in gfx906 gfx942 {TARGET} gfx1201; do\n"
        f"  {COMMAND} prewarm --rocm-path /usr --target $t --m 1,16 --allow-unverified"
        " 'wq=nf4 n=64 k=128 a=bf16' || exit 1\ndone\n"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True,
                          env=clean_environment(tmp_path / "cache"))  # fmt: skip
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no mount namespace here")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "loader: the host's own" in done.stdout
    assert "ok       compile: " in done.stdout
    assert "refused system" not in done.stdout
