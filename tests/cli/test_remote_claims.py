# SPDX-License-Identifier: MIT
"""Machines that start together on an empty object store, OpenStack Swift (swift_store.py), and make
each kernel once: by claims, which one of them puts there before it compiles. What a store does only
now and then is done by one of our own."""

import json
import re
import subprocess
import threading
import time

import pytest
import remote
from conftest import COMMAND, TIMEOUT_S, clean_environment, files_under
from test_remote_s3 import LAYER, TARGET, host, made, store  # noqa: F401: two of them are fixtures

SIZES = (256, 320, 384, 448)


def machine(made, store, top, prefix, number, *sizes, **variables):  # noqa: F811
    """Starts `quern prewarm` as a machine with an empty cache of its own would."""
    env = {**clean_environment(top / f"cache{number}"), **store.variables(),
           **host(made, f"s3://{store.bucket}/{prefix}"), "QUERN_REMOTE_MODE": "rw",
           "QUERN_REMOTE_SIGN_KEY": str(made / "ours.key"), "QUERN_JOBS": "1", **variables}
    words = [COMMAND, "prewarm", *TARGET, "--m", "1", "--json", *map(LAYER.format, sizes)]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process, status=0):
    out, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == status, said
    return json.loads(out)["counters"]


def claims(store, prefix):  # noqa: F811
    """The names of all claims there."""
    _, listing = store.request("GET", "")
    return re.findall(rf"<Key>{prefix}/(v1/claims/[^<]*)</Key>", listing.decode())


@remote.needs_swift
def test_a_cold_store(made, store, tmp_path):  # noqa: F811
    """Whoever claims a kernel makes it, and the others have it from the store."""
    running = [machine(made, store, tmp_path, "cold", i, *SIZES) for i in range(6)]
    counted = [ended(process) for process in running]

    def total(name):
        return sum(c[name] for c in counted)
    # two that put their claims at once may both read back their own: none is seen to, and one in
    # four kernels may
    assert len(SIZES) <= total("compile_ok") <= len(SIZES) + 1
    assert total("hit_remote") + total("compile_ok") == 6 * len(SIZES)
    assert total("remote_claimed") == total("compile_ok") == total("remote_put_ok")
    assert total("remote_failed") == total("remote_skipped") == total("remote_refused") == 0
    assert len(claims(store, "cold")) == len(SIZES)


def entries(store, prefix):  # noqa: F811
    """The names of all entries there, by key and by source key."""
    _, listing = store.request("GET", "")
    return re.findall(rf"<Key>({prefix}/v1/(?:objects|sources)/[^<]*)</Key>", listing.decode())


@pytest.fixture
def one(made, store, tmp_path):  # noqa: F811
    """A store with a claim for one kernel and nothing else: a function that puts another there."""
    prefix = tmp_path.name
    assert ended(machine(made, store, tmp_path, prefix, 0, 256))["remote_claimed"] == 1
    (name,) = claims(store, prefix)
    for entry in entries(store, prefix):
        assert store.request("DELETE", entry)[0] == 204

    def put(text):
        assert store.request("PUT", f"{prefix}/{name}", text.encode())[0] == 200
    put.prefix = prefix
    put.read = lambda: store.request("GET", f"{prefix}/{name}")[1].decode()
    return put


def line(word, seconds):
    return f"quern claim 1 {word} {'5' * 32} {int(time.time()) + seconds}\n"


@remote.needs_swift
@pytest.mark.parametrize("text", ["", "<html>", "quern claim 1 makes", line("makes", -1),
                                  line("left", -100), line("makes", 60)[:-1]])
def test_what_is_no_claim_in_force_is_replaced(made, store, tmp_path, one, text):  # noqa: F811
    one(text)
    counted = ended(machine(made, store, tmp_path, one.prefix, 1, 256))
    assert (counted["compile_ok"], counted["remote_claimed"]) == (1, 1)
    assert re.fullmatch(r"quern claim 1 makes [0-9a-f]{32} \d+\n", one.read())


@remote.needs_swift
def test_another_makes_it(made, store, tmp_path, one):  # noqa: F811
    """A machine leaves what is claimed to the other, makes the rest, and then waits for it."""
    one(line("makes", 300))
    waits = machine(made, store, tmp_path, one.prefix, 1, 256, 320)
    until = time.monotonic() + TIMEOUT_S
    while len(entries(store, one.prefix)) < 2:  # the one that is not claimed, by both its keys
        assert waits.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    env = {**clean_environment(tmp_path / "cache0"), **store.variables()}
    subprocess.run([COMMAND, "cache", "push", "--sign-key", made / "ours.key",
                    f"s3://{store.bucket}/{one.prefix}"], env=env, check=True, capture_output=True)
    counted = ended(waits)
    assert (counted["compile_ok"], counted["remote_claimed"]) == (1, 1)
    assert (counted["remote_awaited"], counted["hit_remote"]) == (1, 1)


@remote.needs_swift
def test_another_does_not_make_it(made, store, tmp_path, one):  # noqa: F811
    """When the claim is over, whoever waits makes the kernel."""
    one(line("makes", 4))
    begun = time.monotonic()
    counted = ended(machine(made, store, tmp_path, one.prefix, 1, 256))
    assert time.monotonic() - begun > 3
    assert (counted["compile_ok"], counted["remote_claimed"]) == (1, 1)
    assert counted["remote_awaited"] == 0


@remote.needs_swift
def test_nobody_waits_for_one_that_could_not_make_it(made, store, tmp_path, one):  # noqa: F811
    one(line("left", 300))
    counted = ended(machine(made, store, tmp_path, one.prefix, 1, 256))
    assert (counted["compile_ok"], counted["remote_claimed"]) == (1, 0)


class Store(remote.Remote):
    """An object store that keeps what is put, if nothing is there where that is asked. Answers take
    `late` seconds, and `then` is called with what is put at a claim's name when it is there."""

    bucket, late = "kernels", 0

    def __init__(self, root):
        super().__init__(root)
        self.put = lambda found: remote.head("412 Precondition Failed", 0) if found else (
            remote.good(b""))
        self.claimed = []  # every claim that was put, and when
        self.asked = []  # when an entry was asked for by its key
        self.then = lambda claim: None

    def variables(self):
        return {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_ENDPOINT_URL": self.url}

    def find(self, method, path, head, sent):
        if method == "GET" and "/v1/objects/" in path:
            self.asked.append(time.monotonic())
        time.sleep(self.late)
        if method == "GET":
            return super().find(method, path, head, sent)
        file = self.root / path.lstrip("/")
        if head.get(b"if-none-match") == b"*" and file.exists():
            return b"taken"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(sent)
        if "/v1/claims/" in path:
            self.claimed.append((time.time(), sent.decode()))
            self.then(file)
        return None

    def forget(self, claim):
        """Takes every entry away, and puts this in the place of the only claim."""
        top = self.root / self.bucket / "x/v1"
        for file in top.glob("[os]*/*/*"):
            file.unlink()
        (there,) = (top / "claims").glob("*/*")
        there.write_text(claim)

    def entries(self, name):
        """Puts what another machine made."""
        for file in files_under(name):
            to = self.root / self.bucket / "x/v1" / file
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes((name / file).read_bytes())


@pytest.fixture
def ours(tmp_path):
    started = Store(tmp_path / "store")
    yield started
    started.stop()


@pytest.fixture
def signed(made, tmp_path):  # noqa: F811
    """The entries of the first of SIZES, as a directory has them that was pushed."""
    subprocess.run([COMMAND, "cache", "push", "--sign-key", made / "ours.key", tmp_path / "signed"],
                   env=clean_environment(made / "cache"), check=True, capture_output=True)
    return tmp_path / "signed/v1"


def test_of_two_claims_that_are_accepted_one_stays(made, ours, signed, tmp_path):  # noqa: F811
    """Another's claim that was accepted at the same moment comes a little later; its machine makes
    the kernel."""
    def then(file):
        def come():
            file.write_text(line("makes", 300))
            ours.entries(signed)
        threading.Timer(2.5, come).start()
        time.sleep(2)  # for the answer, and the machine waits for as long once more
    ours.then = then
    counted = ended(machine(made, ours, tmp_path, "x", 1, 256))
    assert (counted["compile_ok"], counted["remote_claimed"]) == (0, 0)
    assert (counted["remote_awaited"], counted["hit_remote"]) == (0, 1)
    assert len(ours.claimed) == 1


def test_a_claim_that_is_over_may_have_been_kept(made, ours, signed, tmp_path):  # noqa: F811
    """The kernel came after it was looked for, and its claim is over: it is not made again."""
    ours.then = lambda file: ours.entries(signed)  # when the claim is replaced
    first = ended(machine(made, ours, tmp_path, "x", 0, 256))
    assert (first["compile_ok"], first["hit_remote"]) == (1, 0)
    ours.forget(line("makes", -1))
    counted = ended(machine(made, ours, tmp_path, "x", 1, 256))
    assert (counted["compile_ok"], counted["remote_claimed"]) == (0, 1)
    assert (counted["remote_awaited"], counted["hit_remote"]) == (1, 1)


def test_a_slow_store_is_given_time(made, ours, tmp_path):  # noqa: F811
    """A claim lasts longer where answers do, and who waits for one asks less often."""
    ours.late = 0.5
    ended(machine(made, ours, tmp_path, "x", 0, 256))
    at, text = ours.claimed[0]
    assert int(text.split()[-1]) > at + 31
    ours.forget(line("makes", 15))
    ours.late = 1
    ours.asked.clear()
    counted = ended(machine(made, ours, tmp_path, "x", 1, 256))
    assert (counted["compile_ok"], counted["remote_claimed"]) == (1, 1)
    # two that look for the kernel, and then those that wait: an answer of a second and two more
    waits = ours.asked[2:]
    assert len(waits) >= 3
    assert all(b - a > 2.5 for a, b in zip(waits, waits[1:])), waits


def test_one_of_many_takes_over(made, ours, tmp_path):  # noqa: F811
    """Of four that wait for a machine that is gone, one makes the kernel."""
    ended(machine(made, ours, tmp_path, "x", 0, 256))
    ours.forget(line("makes", 5))
    running = [machine(made, ours, tmp_path, "x", i, 256) for i in range(1, 5)]
    counted = [ended(process) for process in running]
    assert sum(c["compile_ok"] for c in counted) == 1
    assert sum(c["hit_remote"] for c in counted) == 3
