# SPDX-License-Identifier: MIT
"""`quern cache push URL`, by HTTP PUT: to Debian's nginx with the lines that docs/fleet.md shows,
and to servers that do wrong."""

import concurrent.futures
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import time

import ports
import pytest
import remote
from conftest import TOP, Quern, files_under

TARGET = ["--target", "gfx1030", "--allow-unverified"]  # its kernels are not scanned: quicker
LAYER = "wq=nf4 n={} k=256 a=bf16"
SIZES = (256, 320)
# No failure takes so long, on however slow a machine: the helper's own limit is 10 s a transfer,
# for a host that has no longer grace.
BOUND_S = 120
UNPACKED = TOP / "build/deps/nginx/usr/sbin/nginx"
NGINX = str(UNPACKED) if UNPACKED.exists() else shutil.which("nginx")

needs_nginx = pytest.mark.skipif(not NGINX and os.environ.get("CI") != "true",
                                 reason="no nginx here (tools/setup.sh unpacks it)")


def prewarm(quern, *sizes, env=None):
    report = quern.json("prewarm", *TARGET, "--m", "1", *map(LAYER.format, sizes or SIZES), env=env)
    return report["counters"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    top = tmp_path_factory.mktemp("made")
    remote.make_signed(top, prewarm)
    return top


class Nginx:
    """nginx as docs/fleet.md has it, but for its port, its places and who may write; `origin`: as
    the cache in front of another."""

    def __init__(self, top, writers="127.0.0.1", origin=None):
        assert NGINX, "tools/setup.sh found no nginx"
        text = (TOP / "docs/fleet.md").read_text()
        server, cache = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
        self.keeper, self.port = ports.claim()
        self.root = top / "served"
        self.root.mkdir()
        listen = f"127.0.0.1:{self.port} reuseport;"
        changes = {"listen 8080;": f"listen {listen}", "root /srv/quern;": f"root {self.root};",
                   "/srv/quern.part;": f"{top}/part;", "allow 127.0.0.1;": f"allow {writers};"}
        if origin:
            changes = {"listen 8081;": f"listen {listen}", "/var/cache/quern": f"{top}/kept",
                       "http://127.0.0.1:8080;": f"{origin};"}
        lines = cache if origin else server
        for old, new in changes.items():
            assert old in lines, old
            lines = lines.replace(old, new)
        user = f"user {pwd.getpwuid(0).pw_name};" if os.getuid() == 0 else ""
        others = "".join(f"{m}_temp_path {top}/{m};"
                         for m in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (top / "nginx.conf").write_text(
            f"{user} daemon off; master_process off; pid {top}/pid; error_log {top}/log;\n"
            f"events {{}}\nhttp {{\naccess_log off; {others}\n{lines}}}\n")
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = top / "log"
        self.process = subprocess.Popen([NGINX, "-e", str(self.log), "-p", str(top), "-c",
                                         str(top / "nginx.conf")])
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.keeper.close()


@pytest.fixture
def nginx(tmp_path):
    started = Nginx(tmp_path)
    yield started
    started.kill()


def same_files(one, other):
    names = files_under(one)
    return names == files_under(other) and all(
        (one / n).read_bytes() == (other / n).read_bytes() for n in names)


def host(made, url):
    return {"QUERN_REMOTE": url, "QUERN_REMOTE_KEYS": str(made / "ours.pub"),
            "QUERN_REMOTE_GRACE_MS": "unlimited"}


@needs_nginx
def test_what_is_pushed_serves(quern, made, nginx):
    builder = Quern(made / "cache")
    words = ("cache", "push", "--sign-key", made / "ours.key", nginx.url)
    first = builder.json(*words)
    assert (first["entries"], first["files"], first["signed"]) == (2, 4, True)
    assert same_files(nginx.root, made / "signed")
    counters = prewarm(quern, env=host(made, nginx.url + "/"))
    assert (counters["hit_remote"], counters["compile_ok"]) == (2, 0)
    # what is there as it is stays; what is not is put right
    assert builder.json(*words)["files"] == 0
    victim = sorted(nginx.root.rglob("*.qk"))[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert builder.json(*words)["files"] == 1
    assert same_files(nginx.root, made / "signed")


@needs_nginx
def test_more_than_a_batch(quern, made, nginx, tmp_path):
    sizes = range(256, 256 + 13 * 64, 64)
    prewarm(quern, *sizes)
    report = quern.json("cache", "push", "--sign-key", made / "ours.key", nginx.url)
    assert (report["entries"], report["files"]) == (13, 26)
    counters = prewarm(Quern(tmp_path / "other"), *sizes, env=host(made, nginx.url))
    assert (counters["hit_remote"], counters["compile_ok"]) == (13, 0)


@needs_nginx
def test_another_file_is_refused_by_who_reads(quern, made, nginx):
    Quern(made / "cache")("cache", "push", "--sign-key", made / "theirs.key", nginx.url)
    counters = prewarm(quern, env=host(made, nginx.url))
    assert (counters["hit_remote"], counters["remote_refused"], counters["compile_ok"]) == (0, 2, 2)
    # who has the key overwrites it
    again = Quern(made / "cache").json("cache", "push", "--sign-key", made / "ours.key", nginx.url)
    assert again["files"] == 4 and same_files(nginx.root, made / "signed")


@needs_nginx
def test_several_push_the_same_at_once(made, nginx):
    words = ("cache", "push", "--sign-key", made / "ours.key", nginx.url)
    quern = Quern(made / "cache")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: quern(*words), range(4)))
    assert same_files(nginx.root, made / "signed")


@needs_nginx
def test_who_may_not_write(made, tmp_path):
    server = Nginx(tmp_path, writers="192.0.2.1")
    try:
        Quern(made / "cache").refused("cache", "push", server.url, status=1,
                                      says="the server's answer has status 403")
        assert not files_under(server.root)
    finally:
        server.kill()


@needs_nginx
@pytest.mark.parametrize("after", [1, 3, 4, 6])
def test_a_server_that_is_killed_in_the_middle(quern, made, nginx, after):
    """Behind a server of ours that passes requests on, and kills it before the given one."""
    proxy = remote.Relay(("127.0.0.1", nginx.port))
    proxy.note = lambda n: nginx.kill() if n == after else None
    try:
        began = time.monotonic()
        done = Quern(made / "cache")("cache", "push", "--sign-key", made / "ours.key", proxy.url,
                                     status=1)
        assert time.monotonic() - began < BOUND_S
        assert "quern-remote" not in done.stderr and "v1/" in done.stderr
        whole = {p.read_bytes() for p in (made / "signed").rglob("*.qk")}
        assert all(p.read_bytes() in whole for p in nginx.root.rglob("*.qk"))
        counters = prewarm(quern, env=host(made, proxy.url))
        assert counters["compile_ok"] == 2 and counters["hit_remote"] == 0
    finally:
        proxy.stop()


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("wrong", ["silence", "the end at once", "no HTTP", "status 403",
                                   "status 503", "10 GB", "a byte a second",
                                   "redirections in a loop"])
def test_whatever_goes_wrong_ends_a_push(made, tmp_path, wrong, asked):
    """When it is asked what it has, or when it is sent what it has not."""
    server = remote.Remote(tmp_path)
    server.always = asked
    server.behave = server.put = remote.WRONG[wrong]
    try:
        began = time.monotonic()
        done = Quern(made / "cache")("cache", "push", server.url, status=1)
        assert time.monotonic() - began < BOUND_S
        assert done.stderr.count("\n") == 1 and f"{server.url}: " in done.stderr
        assert f"{'asking for' if asked else 'putting'} v1/" in done.stderr
        assert "quern-remote" not in done.stderr
    finally:
        server.stop()


def gives(made, url, **more):
    return {**host(made, url), "QUERN_REMOTE_MODE": "rw",
            "QUERN_REMOTE_SIGN_KEY": str(made / "ours.key"), **more}


@needs_nginx
def test_a_cache_in_front(quern, made, nginx, tmp_path):
    """Of several machines that ask for the same kernels the server hears once for each, as long as
    the cache keeps what it was told: also that something is not there."""
    Quern(made / "cache")("cache", "push", "--sign-key", made / "ours.key", nginx.url)
    counting = remote.Relay(("127.0.0.1", nginx.port))
    (tmp_path / "front").mkdir()
    front = Nginx(tmp_path / "front", origin=counting.url)
    try:
        for i in range(4):
            report = prewarm(Quern(tmp_path / f"cache{i}"), 256, 320, 384,
                             env=host(made, front.url))
            assert (report["hit_remote"], report["compile_ok"]) == (2, 1)
        # two kernels, one that is not there, and the revocation list
        assert counting.count == 4
    finally:
        front.kill()
        counting.stop()


@needs_nginx
def test_who_compiles_gives_it_to_nginx(quern, made, nginx, tmp_path):
    """QUERN_REMOTE_MODE=rw: the files are those of a push; what comes from there stays there."""
    counters = prewarm(quern, env=gives(made, nginx.url))
    assert (counters["compile_ok"], counters["remote_put_ok"]) == (2, 2)
    assert same_files(nginx.root, made / "signed")
    counters = prewarm(Quern(tmp_path / "other"), env=gives(made, nginx.url))
    assert (counters["hit_remote"], counters["remote_put_ok"]) == (2, 0)
    # who only reads gives nothing
    counters = prewarm(Quern(tmp_path / "third"), 384, env=host(made, nginx.url))
    assert (counters["compile_ok"], counters["remote_put_ok"]) == (1, 0)
    assert same_files(nginx.root, made / "signed")


def fails_no_op(quern, made, root, wrong):
    """A server that takes nothing that it is given costs no op, and bounded time."""
    server = remote.Remote(root)
    server.put = remote.WRONG[wrong]
    try:
        began = time.monotonic()
        counters = prewarm(quern, env={**gives(made, server.url), **remote.grace(wrong)})
        assert time.monotonic() - began < BOUND_S
    finally:
        server.stop()
    assert (counters["compile_ok"], counters["put_ok"], counters["remote_put_ok"]) == (2, 2, 0)
    assert counters["remote_put_failed"] == 2 and counters["remote_failed"] == 0


@pytest.mark.parametrize("wrong", ["the end at once", "status 403", "10 GB"])
def test_a_server_that_takes_nothing_fails_no_op(quern, made, tmp_path, wrong):
    fails_no_op(quern, made, tmp_path, wrong)


def test_giving_that_makes_no_sense(quern, made):
    def refused(status, says, **change):
        env = {k: v for k, v in gives(made, "http://127.0.0.1:1").items() if k not in change}
        env.update({k: v for k, v in change.items() if v})
        quern.refused("cache", "stat", env=env, status=status, says=says)
    refused(2, "QUERN_REMOTE_MODE=w; expected r or rw", QUERN_REMOTE_MODE="w")
    refused(2, "QUERN_REMOTE_MODE is rw and QUERN_REMOTE_SIGN_KEY is not set",
            QUERN_REMOTE_SIGN_KEY=None)
    refused(2, "QUERN_REMOTE_MODE is not rw", QUERN_REMOTE_MODE=None)
    refused(1, "cannot be read", QUERN_REMOTE_SIGN_KEY="/nonexistent")
    refused(1, "does not have one line", QUERN_REMOTE_SIGN_KEY=str(made / "ours.pub"))
    shown = made / "shown.key"
    shown.write_bytes((made / "ours.key").read_bytes())
    shown.chmod(0o644)
    refused(1, "may be read by others", QUERN_REMOTE_SIGN_KEY=str(shown))


def test_addresses_that_make_no_sense(made):
    quern = Quern(made / "cache")
    for url in ("s4://bucket", "ftp://cache.example", "http:///x"):
        done = quern("cache", "push", url, status=2)
        assert "the address is" in done.stderr and "https://" in done.stderr
    quern("cache", "push", f"http://127.0.0.1:{remote.CLOSED_PORT}", status=1)
    assert not pathlib.Path("s4:").exists()
