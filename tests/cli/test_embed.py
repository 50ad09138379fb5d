# SPDX-License-Identifier: MIT
"""What hosts meet when they open a context: what is not needed degrades with one warning, what is
needed fails with its remedy, and a kernel that is missing says what became of the bundles."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from conftest import COMMAND, TARGET, TOP, Quern, clean_environment

pytestmark = pytest.mark.skipif("release" not in COMMAND.parts,
                                reason="links with the release build")

LAYER = "wq=nf4 n=64 k=128 a=f16"

# Opens a context by the environment and creates the op of a layer for one row, if it is named.
HOST = r"""
#include <quern/tool.h>
#include <stdio.h>

static void line(void *user, enum quern_log_level level, const char *text)
{
    (void)user, (void)level;
    printf("log: %s\n", text);
}

int main(int argc, char **argv)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;
    char memory[64];
    uint64_t address;

    options.log = line;
    options.allow_unverified = 1;
    if (quern_open(&options, &ctx)) {
        printf("open: %s\n", quern_last_error()->message);
        return 1;
    }
    if (argc > 1 && (quern_problem_parse(argv[1], &problem) ||
                     quern_op_create(ctx, &problem, 1, &op)))
        printf("op: %s\n", quern_last_error()->message);
    else if (argc > 1)
        printf("served %d\n", quern_all_served(ctx));
    else if (quern_sim_map(quern_ctx_sim(ctx), memory, 64, QUERN_SIM_READ, "x", &address))
        printf("map: %s\n", quern_last_error()->message);
    quern_op_release(op);
    quern_close(ctx);
    return 0;
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The program, beside a libexec of its own: as a host is installed."""
    top = tmp_path_factory.mktemp("host")
    (top / "host.c").write_text(HOST)
    (top / "bin").mkdir()
    build = COMMAND.parents[1]
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{TOP / 'include'}",
                    top / "host.c", build / "lib/libquern.a", "-o", top / "bin/host", "-lm", "-ldl",
                    "-pthread"], check=True)
    shutil.copytree(build / "libexec", top / "libexec")
    return top / "bin/host"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A cache with one kernel, its bundle, signed, and another key's pair."""
    top = tmp_path_factory.mktemp("shipped")
    quern = Quern(top / "cache")
    quern("prewarm", "--target", TARGET, "--m", "1", LAYER)
    quern("bundle", "create", top / "signed.qkb")
    for name in ("ours", "theirs"):
        quern("bundle", "keygen", top / name, top / f"{name}.pub")
    quern("bundle", "sign", top / "signed.qkb", "--key", top / "ours")
    return top


def run(host, *words, prefix=(), **env):
    done = subprocess.run([*map(str, prefix), str(host), *words], capture_output=True, text=True,
                          env={**clean_environment("/nonexistent"), "QUERN_TARGET": TARGET,
                               "QUERN_DEVICE": "none", **{k: str(v) for k, v in env.items()}})
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_target_asks_for_a_software_gpu(host, tmp_path):
    """One that is not installed fails at open; where there can be none, a warning says so."""
    bare = shutil.copy(host, tmp_path / "bare")
    cache = {"QUERN_CACHE_DIR": tmp_path / "cache"}
    (line,) = run(bare, QUERN_DEVICE="auto", **cache)
    assert line.startswith("open: a target without a device asks for a software GPU")
    assert "is not installed" in line and "QUERN_DEVICE=none makes kernels without one" in line
    lines = run(bare, QUERN_DEVICE="auto", QUERN_TARGET="gfx1030", **cache)
    assert lines[0].startswith("log: this context has no device, as no software GPU runs gfx1030")
    assert lines[1:] == ["map: sim is null, which is what a context without a software GPU gives"]
    assert run(bare, QUERN_TARGET="gfx1030", **cache) == lines[1:]  # none is what was meant


def as_nobody(tree):
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def test_a_user_without_a_home(host, shipped):
    """A full bundle serves: the cache is not needed, whatever its directory is."""
    with tempfile.TemporaryDirectory(prefix="quern-") as name:
        tree = pathlib.Path(name)
        tree.chmod(0o755)
        program = shutil.copy(host, tree / "host")
        for part in ("signed.qkb", "ours.pub"):
            shutil.copy(shipped / part, tree / part)
        (tree / "closed").mkdir()
        env = {"QUERN_BUNDLE_PATH": tree / "signed.qkb", "QUERN_BUNDLE_KEYS": tree / "ours.pub",
               "QUERN_JIT": "off", "QUERN_CACHE_DIR": "", "HOME": "/nonexistent",
               "QUERN_ROCM_PATH": tree}
        env |= {"XDG_CACHE_HOME": ""}
        nobody = as_nobody(tree)
        for directory, says in (("", "/nonexistent/.cache/quern cannot be created"),
                                (tree / "closed", f"{tree}/closed cannot be written to")):
            lines = run(program, LAYER, prefix=nobody, **{**env, "QUERN_CACHE_DIR": directory})
            assert len(lines) == 2 and lines[1] == "served 1", lines
            assert lines[0].startswith("log: nothing is stored in the cache for now: ")
            assert says in lines[0]
        # what a host names is had, or opening fails
        (line,) = run(program, LAYER, prefix=nobody, **{**env, "QUERN_CACHE_MODE": "rw"})
        assert line.startswith("open: ") and "cannot be created" in line
        # without compiling and without a bundle, the cache is the only way to a kernel
        (tree / "closed").chmod(0o777)
        env["QUERN_CACHE_DIR"] = tree / "closed"
        (line,) = run(program, LAYER, prefix=nobody, **env)
        assert line.startswith("open: ") and "chmod go-w" in line  # serials are kept there
        del env["QUERN_BUNDLE_KEYS"]
        lines = run(program, LAYER, prefix=nobody, **env)
        assert lines[0].startswith("log: there is no cache for now: ") and lines[1] == "served 1"
        del env["QUERN_BUNDLE_PATH"]
        (line,) = run(program, LAYER, prefix=nobody, **env)
        assert line.startswith("open: ") and "chmod go-w" in line


def test_a_missing_kernel_says_what_became_of_the_bundles(host, shipped, tmp_path):
    """Why each was not used: cut short, of another version, unsigned, of another key; or that it
    was used, and has no such kernel."""
    data = (shipped / "signed.qkb").read_bytes()
    (tmp_path / "short.qkb").write_bytes(data[:-200])
    (tmp_path / "version.qkb").write_bytes(data[:8] + b"\x09" + data[9:])
    Quern(shipped / "cache")("bundle", "create", tmp_path / "unsigned.qkb")
    env = {"QUERN_JIT": "off", "QUERN_CACHE_DIR": tmp_path / "cache"}
    reasons = {"short": "header says", "version": "format version 9", "nowhere": "No such file"}
    paths = [tmp_path / f"{name}.qkb" for name in reasons] + [shipped / "signed.qkb"]
    lines = run(host, "wq=nf4 n=96 k=128 a=f16", **env, QUERN_BUNDLE_PATH=":".join(map(str, paths)))
    assert [line for line in lines if line.startswith("log: ")] == lines[:-1] and len(lines) == 4
    message = lines[-1]
    assert message.startswith("op: kernel quern_nf4_f16_n96_") and "compiling is off" in message
    for (name, reason), path in zip(reasons.items(), paths):
        part = message.split(f"bundle {path} is not used: ")[1].split("; bundle ")[0]
        assert reason in part, (name, part)
    assert f"; bundle {shipped / 'signed.qkb'} has 1 for {TARGET}, not this one; mend " in message
    (target,) = run(host, LAYER, **env, QUERN_TARGET="gfx1201", QUERN_BUNDLE_PATH=paths[-1])
    assert f"has 1 for {TARGET}, not this one; made by: quern prewarm --target gfx1201" in target

    both = f"{tmp_path / 'unsigned.qkb'}:{shipped / 'signed.qkb'}"
    env["QUERN_BUNDLE_KEYS"] = shipped / "theirs.pub"
    message = run(host, LAYER, **env, QUERN_BUNDLE_PATH=both)[-1]
    assert "unsigned.qkb is not used: the bundle is not signed" in message
    assert "signed.qkb is not used: " in message and "not among the 1 trusted" in message
    # a sealed prewarm says the same
    done = Quern(tmp_path / "cache")("prewarm", "--target", TARGET, "--m", "1", LAYER, status=1,
                                     env={k: str(v) for k, v in env.items()}
                                     | {"QUERN_BUNDLE_PATH": both})
    assert "unsigned.qkb is not used: the bundle is not signed" in done.stderr


@pytest.mark.parametrize("verb", [["prewarm", "--m", "1"], ["explain", "--m", "1"],
                                  ["source", "--m", "1"], ["explain", "--m", "1", "--why-miss"]])
def test_every_verb_heeds_the_level_of_the_log(quern, verb):
    """An unknown variable and a bundle that is not there are warnings of the library's."""
    words = [*verb, "--target", TARGET, LAYER]
    env = {"QUERN_BUNDLE_PATH": "/nonexistent.qkb"}
    assert "/nonexistent.qkb is not used" in quern(*words, env=env).stderr
    assert quern(*words, env={**env, "QUERN_LOG": "error"}).stderr == ""
    assert quern(*words, "--log", "error", env={**env, "QUERN_LOG": "info"}).stderr == ""
    quern.refused(*words, env={**env, "QUERN_LOG": "loud"}, status=2, says=["QUERN_LOG", "loud"])
