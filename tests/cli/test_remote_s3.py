# SPDX-License-Identifier: MIT
"""A remote cache in an S3 object store, s3://BUCKET/PREFIX: OpenStack Swift (swift_store.py), which
checks signatures, and a server of ours for what a store must not be told."""

import json
import pathlib
import shutil

import pytest
import remote
import swift_store
from conftest import COMMAND, Quern, files_under

TARGET = ["--target", "gfx1030", "--allow-unverified"]  # its kernels are not scanned: quicker
LAYER = "wq=nf4 n={} k=256 a=bf16"


def prewarm(quern, *sizes, env=None, words=()):
    layers = map(LAYER.format, sizes or (256, 320))
    return quern("prewarm", *TARGET, "--m", "1", "--json", *words, *layers, env=env)


def counters(done, *names):
    report = json.loads(done.stdout)
    return tuple(report["counters"][name] for name in names)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    top = tmp_path_factory.mktemp("made")
    prewarm(Quern(top / "cache"))
    Quern(top)("bundle", "keygen", top / "ours.key", top / "ours.pub")
    return top


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    started = swift_store.Swift(tmp_path_factory.mktemp("swift"))
    yield started
    started.kill()


def host(made, where, **variables):
    return {"QUERN_REMOTE": where, "QUERN_REMOTE_KEYS": str(made / "ours.pub"),
            "QUERN_REMOTE_GRACE_MS": "unlimited", **variables}


@remote.needs_swift
def test_what_is_pushed_serves(quern, made, store):
    where = f"s3://{store.bucket}/a prefix/of~mine (1)"
    signs = store.variables()
    builder = Quern(made / "cache")
    words = ("cache", "push", "--sign-key", made / "ours.key", where)
    first = builder.json(*words, env=signs)
    assert (first["entries"], first["files"]) == (2, 4)
    assert builder.json(*words, env=signs)["files"] == 0
    # it lies where the address says
    name = files_under(made / "cache/v1/objects")[0]
    status, body = store.request("GET", f"a%20prefix/of~mine%20%281%29/v1/objects/{name}")
    assert status == 200
    assert body[:-112] == (made / "cache/v1/objects" / name).read_bytes()
    done = prewarm(quern, 256, 320, 384, env=host(made, where + "/", **signs))
    assert counters(done, "hit_remote", "compile_ok", "remote_failed") == (2, 1, 0)
    # an entry that was changed there is refused, and put right by the next push
    store.request("PUT", f"a%20prefix/of~mine%20%281%29/v1/objects/{name}", body[:-1] + b"x")
    quern("cache", "clear")
    done = prewarm(quern, env=host(made, where, **signs))
    assert counters(done, "hit_remote", "remote_refused", "compile_ok") == (1, 1, 1)
    assert builder.json(*words, env=signs)["files"] == 1


@remote.needs_swift
@pytest.mark.parametrize("change, says", [
    ({"AWS_SECRET_ACCESS_KEY": "a/long+secret=of/the.store2"},
     "status 403, SignatureDoesNotMatch: AWS_SECRET_ACCESS_KEY is not that of AWS_ACCESS_KEY_ID"),
    ({"AWS_ACCESS_KEY_ID": "nobody"}, "status 403, "),
    ({"AWS_REGION": "eu-quern-2"}, "status 400, AuthorizationHeaderMalformed: AWS_REGION may not"),
    ({"QUERN_REMOTE": "s3://no-such-bucket/x"},
     "status 404, NoSuchBucket: the store does not have the bucket"),
])  # fmt: skip
def test_what_the_store_refuses(quern, made, store, change, says):
    """It is counted, and said once, and the kernels are compiled; a push ends with it."""
    env = host(made, f"s3://{store.bucket}/refused", **store.variables()) | change
    done = prewarm(quern, env=env)
    hits, failed, skipped, made_here = counters(done, "hit_remote", "remote_failed",
                                                "remote_skipped", "compile_ok")
    assert (hits, failed + skipped, made_here) == (0, 2, 2) and failed >= 1
    assert says in done.stderr and "(said once)" in done.stderr
    done = Quern(made / "cache")("cache", "push", env["QUERN_REMOTE"], env=env, status=1)
    assert done.stderr.count("\n") == 1 and says in done.stderr
    assert env["AWS_SECRET_ACCESS_KEY"] not in done.stderr
    assert store.request("GET", "refused")[0] == 404


@remote.needs_swift
def test_who_compiles_gives_it_to_all(quern, made, store, tmp_path):
    """QUERN_REMOTE_MODE=rw."""
    env = host(made, f"s3://{store.bucket}/given", **store.variables())
    gives = {**env, "QUERN_REMOTE_MODE": "rw", "QUERN_REMOTE_SIGN_KEY": str(made / "ours.key")}
    done = prewarm(quern, env=gives)
    assert counters(done, "compile_ok", "remote_put_ok", "remote_put_failed") == (2, 2, 0)
    other = prewarm(Quern(tmp_path / "other"), env=gives)
    assert counters(other, "hit_remote", "compile_ok", "remote_put_ok") == (2, 0, 0)
    # it is what a push of the same kernels would have put there, by both names
    words = ("cache", "push", "--sign-key", made / "ours.key", env["QUERN_REMOTE"])
    assert quern.json(*words, env=env)["files"] == 0
    # what the store refuses costs nothing but a counter
    wrong = {**gives, "AWS_SECRET_ACCESS_KEY": "wrong"}
    done = prewarm(Quern(tmp_path / "wrong"), env=wrong)
    assert counters(done, "compile_ok", "remote_put_ok", "remote_put_failed") == (2, 0, 2)
    assert "putting v1/objects/" in done.stderr and "SignatureDoesNotMatch" in done.stderr


@remote.needs_swift
def test_doctor(quern, made, store):
    def line(status, **change):
        env = host(made, f"s3://{store.bucket}/x", **(store.variables() | change))
        report = quern.json("doctor", *TARGET[:2], env=env, status=status)
        (found,) = [c for c in report if c["subject"] == "remote cache"]
        return found
    good = line(0)
    assert good["ok"] and f"{store.url}/{store.bucket}/x: answers in" in good["text"]
    assert swift_store.SECRET not in good["text"]
    bad = line(1, AWS_SECRET_ACCESS_KEY="wrong")
    assert not bad["ok"] and "SignatureDoesNotMatch" in bad["text"] and "wrong" not in bad["text"]


def processes(folder):
    """Those that run a program of this folder, by whichever loader."""
    found = []
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(folder) in maps.read_text():
                found.append(maps.parent)
        except OSError:
            pass  # it is gone, or somebody else's
    return found


def test_who_learns_the_secret(quern, made, tmp_path, tmp_path_factory):
    """The store does not, nor does anybody who reads logs, the cache or the environment of the
    processes that are started. The session's token is the store's to know."""
    secret, token = "Secret0/of+Nobody", "token.of+a/Session=="
    seen = {}
    folder = tmp_path / "libexec"
    folder.mkdir()
    for name in ("quern-worker", "quern-remote"):
        shutil.copy(COMMAND.parents[1] / "libexec/quern" / name, folder / name)

    def look(_request):
        for process in processes(folder):
            for what in ("environ", "cmdline"):
                seen[(process / "comm").read_text().strip(), what] = (process / what).read_bytes()
    server = remote.Remote(tmp_path)
    server.note, heads = look, server.heads
    env = host(made, "s3://kernels/x", AWS_ACCESS_KEY_ID="someone", AWS_SECRET_ACCESS_KEY=secret,
               AWS_SESSION_TOKEN=token, AWS_DEFAULT_REGION="eu-north-1",
               AWS_ENDPOINT_URL="http://127.0.0.1:1", AWS_ENDPOINT_URL_S3=server.url,
               QUERN_JOBS="1", QUERN_LOG="debug")
    try:
        # the last kernel is asked for while a worker is there for the one before
        done = remote.make_ops(tmp_path_factory)(
            quern.cache, map(LAYER.format, (256, 320, 384, 448)), env, folder / "quern-worker")
    finally:
        server.stop()
    assert (done["counters"]["compile_ok"], done["counters"]["remote_failed"]) == (4, 0)
    assert {name for name, _ in seen} >= {"quern-remote", "quern-worker"}, seen
    assert len(heads) == len(server.requests) == 4
    for head in heads:
        proof = head[b"authorization"]
        assert proof.startswith(b"AWS4-HMAC-SHA256 Credential=someone/")
        assert b"/eu-north-1/s3/aws4_request" in proof and b"x-amz-security-token" in proof
        assert head[b"x-amz-security-token"] == token.encode()
    assert all(p.startswith("/kernels/x/v1/objects/") for p in server.requests)
    ours = [done["said"].encode(), *seen.values(),
            *((quern.cache / f).read_bytes() for f in files_under(quern.cache))]
    assert not [where for where in (*ours, *(b"%r" % h for h in heads)) if secret.encode() in where]
    assert not [where for where in ours if token.encode() in where]


def test_a_store_that_leads_elsewhere_is_not_followed(quern, made, tmp_path):
    server = remote.Remote(tmp_path)
    server.always = True
    server.behave = lambda body: remote.head("307 Temporary Redirect", 0, "Location: /elsewhere")
    env = host(made, "s3://kernels", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b",
               AWS_ENDPOINT_URL=server.url)
    try:
        done = prewarm(quern, 256, env=env)
    finally:
        server.stop()
    assert counters(done, "remote_failed", "compile_ok") == (1, 1)
    assert "status 307" in done.stderr and "/elsewhere" not in server.requests


KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize("where, given, says", [
    ("s3://kernels/x", {}, "AWS_ACCESS_KEY_ID is not set"),
    ("s3://kernels/x", {"AWS_ACCESS_KEY_ID": "a"}, "AWS_SECRET_ACCESS_KEY is not set"),
    ("s3://kernels/x", {**KEYS, "AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY is not set"),
    ("s3://kernels/x", KEYS, "AWS_REGION is not set"),
    ("s3://kernels/x", {**KEYS, "AWS_REGION": "a b"}, "AWS_REGION=a b; expected a region such as"),
    ("s3://kernels/x", {**KEYS, "AWS_ENDPOINT_URL": "cache.example"},
     "AWS_ENDPOINT_URL is cache.example; expected an address"),
    ("s3://kernels/x", {**KEYS, "AWS_ENDPOINT_URL_S3": "s3://other"},
     "AWS_ENDPOINT_URL_S3 is s3://other; expected an address"),
    ("s3://kernels/x", {**KEYS, "AWS_REGION": "r", "AWS_SECRET_ACCESS_KEY": "b\nx: y"},
     "AWS_SECRET_ACCESS_KEY has the character 10 at 1"),
    ("s3://kernels/x", {**KEYS, "AWS_REGION": "r", "AWS_SESSION_TOKEN": "t" * 5000},
     "AWS_SESSION_TOKEN has 5000 characters"),
    ("s3://", KEYS, "expected s3://BUCKET/PREFIX"),
    ("s3://ab/x", KEYS, "a bucket of 3 to 63 characters"),
    ("s3://user@host/x", KEYS, "a bucket of letters"),
    ("s3://kernels//x", {**KEYS, "AWS_REGION": "r"}, "without empty parts"),
    ("s3://kernels/\x07", {**KEYS, "AWS_REGION": "r"}, "has the character 7 at 13"),
    ("s3://kernels/" + "y" * 1023, {**KEYS, "AWS_REGION": "r"}, "is too long"),
    ("s3://kernels/" + " " * 400, {**KEYS, "AWS_REGION": "r"}, "is too long"),
])  # fmt: skip
def test_what_makes_no_sense(quern, made, where, given, says):
    clear = {k: "" for k in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                             "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3")}
    done = quern("cache", "stat", env={**host(made, where), **clear, **given}, status=2)
    assert says in done.stderr and "QUERN_REMOTE" in done.stderr or "AWS_" in done.stderr
    assert done.stderr.count("\n") == 1
