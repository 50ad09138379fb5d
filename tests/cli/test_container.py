# SPDX-License-Identifier: MIT
"""examples/container/Dockerfile, run without Docker: each stage is a root of its own in a mount
namespace, with this machine's /usr, read-only, and a copy of its /etc in place of the base image
and its packages (lines with apt-get are not run). An instruction that is not understood fails the
test."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import COMMAND, EXPLORES, TOP

FILE = TOP / "examples/container/Dockerfile"
TARGETS = ("gfx942", "gfx1151") if EXPLORES else ("gfx1151",)
MODELS = ("qwen3-0.6b", "llama-3.2-1b") if EXPLORES else ("qwen3-0.6b",)

# Arguments: the root to be, user:group, ro or rw, pairs of a directory of this machine and where
# the root has it, --, and a command. /usr/local is the root's own, beside it as ROOT.local.
ENTER = r"""
set -e
root=$1 id=$2 mode=$3
shift 3
mount --make-rprivate /
mount --bind $root $root
mount --rbind /usr $root/usr
mount --bind $root.local $root/usr/local
for d in bin sbin lib lib64; do ln -sfn usr/$d $root/$d; done
mount --bind /dev $root/dev
mount -t proc proc $root/proc
while [ "$1" != -- ]; do
    mkdir -p $root$2
    mount --bind $1 $root$2
    shift 2
done
shift
mount -o remount,bind,ro $root/usr
if [ $mode = ro ]; then
    mount -o remount,bind,ro $root
    mount -o remount,bind,ro $root/usr/local
fi
exec chroot $root setpriv --reuid ${id%:*} --regid ${id#*:} --clear-groups --no-new-privs \
    --bounding-set=-all "$@"
"""


class Stage:
    """One stage as it is built: its files, and what later instructions see."""

    def __init__(self, directory, build):
        self.root, self.build = directory, build
        self.env = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user, self.cwd, self.command = "0:0", "/", []
        self.binds = []
        for name in ("usr", "dev", "proc", "tmp"):
            (directory / name).mkdir(parents=True)
        self.local.mkdir()
        shutil.copytree("/etc", directory / "etc", symlinks=True)

    @property
    def local(self):
        return self.root.with_name(self.root.name + ".local")

    def place(self, path):
        """Where on this machine a path of the root is."""
        path = pathlib.PurePosixPath(path)
        if path.is_relative_to("/usr/local"):
            return self.local / path.relative_to("/usr/local")
        for here, there in self.binds:
            if path.is_relative_to(there):
                return pathlib.Path(here) / path.relative_to(there)
        return self.root / path.relative_to("/")

    def run(self, words, mode="rw", env=None):
        binds = [str(x) for bind in self.binds for x in bind]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", ENTER, "sh", self.root, self.user, mode, *binds,
             "--", "sh", "-c", f"cd {self.cwd} && exec \"$@\"", "sh", *words],
            env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=1800,
        )  # fmt: skip


def instructions():
    """Words and the rest of each, with lines that end in a backslash joined."""
    text = "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, rest = line.split(None, 1)
            yield word, rest.strip()


def copy(source, target, directory):
    if directory:
        target = target / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def build(directory, arguments, secrets):
    """The last stage of the file."""
    stages = {}
    for word, rest in instructions():
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            stage = stages[name] = Stage(directory / name, {})
        elif word == "RUN" and rest.startswith("apt-get"):
            continue
        elif word == "RUN":
            mounts = re.match(r"(--mount=type=secret,id=(\S+) )?(.*)", rest, re.S)
            if mounts[2]:
                stage.binds.append((secrets, "/run/secrets"))
            done = stage.run(["sh", "-c", mounts[3]], env=stage.build)
            assert done.returncode == 0, (rest, done.stdout, done.stderr)
            assert "quern prewarm: warning" not in done.stderr, (rest, done.stderr)
            if mounts[2]:
                stage.binds.pop()
        elif word == "COPY" and rest == ". /src":
            # The checkout has what is built here in it, so that nothing is built again. Without
            # ISAS the software GPU would be, for instruction sets that make check leaves out.
            stage.binds.append((TOP, "/src"))
            if "ISAS" in os.environ:
                stage.build["ISAS"] = os.environ["ISAS"]
        elif word == "COPY":
            source = re.match(r"--from=(\S+) (.*)", rest)
            words = (source[2] if source else rest).split()
            for path in words[:-1]:
                real = stages[source[1]].place(path) if source else secrets / path
                copy(real, stage.place(words[-1]), words[-1].endswith("/"))
        elif word == "ARG":
            name, _, default = rest.partition("=")
            stage.build[name] = arguments.get(name, default.strip('"'))
        elif word == "ENV":
            stage.env.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "WORKDIR":
            stage.cwd = rest
        elif word == "USER":
            stage.user = rest
        elif word == "CMD":
            stage.command = json.loads(rest)
        else:
            raise AssertionError(f"the test does not understand {word} {rest}")
    return stages["last"]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image, with kernels for one row of a model, and in check-long of two, for two targets:
    most of the time is the software GPU's, which verifies them."""
    if "release" not in COMMAND.parts:
        pytest.skip("what is installed is the release build")
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"]).returncode:
        pytest.skip("roots of another process need root and mount namespaces")
    directory = tmp_path_factory.mktemp("container")
    secrets = directory / "secrets"
    secrets.mkdir()
    subprocess.run([COMMAND, "bundle", "keygen", secrets / "quern.key", secrets / "quern.pub"],
                   check=True, capture_output=True)
    arguments = {"M": "1", "TARGETS": " ".join(TARGETS), "MODELS": " ".join(MODELS)}
    return build(directory, arguments, secrets)


def host(image, *problems, target="gfx1151"):
    """What the image's command says of problems, or of its own, on a machine without a GPU."""
    name, rows, *own = image.command
    assert (name, rows) == ("host", "8")
    return image.run([name, "1", *(problems or own)], "ro",
                     {"QUERN_DEVICE": "none", "QUERN_TARGET": target})


def test_the_image_serves_what_it_was_built_for(image):
    assert image.user == "65534:65534"
    for target in TARGETS:
        done = host(image, target=target)
        assert (done.stdout, done.stderr) == ("the kernels of 2 layers were there\n", "")
    if len(MODELS) > 1:  # a layer of the second
        assert "kernels of 1 layer were there" in host(image, "wq=nf4 a=bf16 n=2048 k=8192").stdout
    done = image.run(["host"], "ro", {"QUERN_DEVICE": "none", "QUERN_TARGET": "gfx1151"})
    assert done.returncode == 2 and done.stderr == "usage: host ROWS PROBLEM...\n"


def test_the_image_compiles_nothing_and_writes_nothing(image):
    done = host(image, "wq=nf4 a=bf16 n=2048 k=1088")
    assert done.returncode == 1 and "QUERN_JIT" in done.stderr
    done = image.run(["sh", "-c", "id -u; touch /x /tmp/x /usr/local/x /usr/local/share/quern/x; "
                      "ls /src /kernels /run/secrets"], "ro")
    assert done.stdout == "65534\n" and done.stderr.count("Read-only file system") == 4
    assert done.stderr.count("No such file") == 3


def test_the_image_trusts_its_key_alone(image):
    """The same bundle with another signature is not served."""
    bundle = image.place("/usr/local/share/quern/kernels.qkb")
    whole = bundle.read_bytes()
    bundle.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        done = host(image)
        assert done.returncode == 1 and not done.stdout
    finally:
        bundle.write_bytes(whole)
