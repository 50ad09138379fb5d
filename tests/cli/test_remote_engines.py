# SPDX-License-Identifier: MIT
"""nginx and OpenStack Swift as remote caches behind a proxy of ours that does wrong with their
answers. Here some ways to do that; test_remote_engines_long.py has all of them."""

import subprocess
import time

import pytest
import remote
import swift_store
from conftest import COMMAND, clean_environment
from test_remote_push import BOUND_S, Nginx, made, needs_nginx, prewarm  # noqa: F401: a fixture

SOME = ("a part and the end", "more than is there", "a flipped bit in the middle",
        "a captive portal", "redirections in a loop", "10 GB", "a byte a second",
        *(f"status {code}" for code in (403, 412, 429, 500, 503)))
ENGINES = [pytest.param("nginx", marks=needs_nginx),
           pytest.param("swift", marks=remote.needs_swift)]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tmp_path_factory, made):  # noqa: F811
    """A server that has two kernels, and what a host needs to know to ask its proxy."""
    top = tmp_path_factory.mktemp(request.param)
    server = Nginx(top) if request.param == "nginx" else swift_store.Swift(top)
    proxy = remote.Proxy(server.port)
    env = {"QUERN_REMOTE_KEYS": str(made / "ours.pub"), "QUERN_REMOTE_GRACE_MS": "unlimited"}
    where = server.url
    if request.param == "swift":
        where = f"s3://{server.bucket}/x"
        env |= server.variables()
    subprocess.run([COMMAND, "cache", "push", "--sign-key", made / "ours.key", where], check=True,
                   env={**clean_environment(made / "cache"), **env}, capture_output=True)
    yield proxy, {**env, "QUERN_REMOTE": where.replace(server.url, proxy.url),
                  "AWS_ENDPOINT_URL": proxy.url}
    proxy.stop()
    server.kill()


@pytest.fixture
def through(engine):
    """The proxy, which passes on what it is given until it is told otherwise, and the variables."""
    engine[0].behave = remote.good
    engine[0].requests.clear()
    yield engine
    engine[0].behave = remote.good


def goes_wrong(quern, through, wrong):
    """One kernel of which the answer is wrong: it is compiled, in bounded time, and counted."""
    proxy, env = through
    proxy.behave = remote.WRONG[wrong]
    started = time.monotonic()
    counters = prewarm(quern, 256, env={**env, **remote.grace(wrong)})
    assert time.monotonic() - started < BOUND_S
    assert (counters["hit_remote"], counters["compile_ok"], counters["miss_absent"]) == (0, 1, 1)
    followed = not env["QUERN_REMOTE"].startswith("s3:")
    assert (counters["remote_refused"],
            counters["remote_failed"]) == remote.counted(wrong, followed)
    assert len(proxy.requests) <= 5  # redirections are followed three times


@pytest.mark.parametrize("wrong", SOME)
def test_whatever_goes_wrong_is_a_miss(quern, through, wrong):
    goes_wrong(quern, through, wrong)


def test_what_is_passed_on_serves(quern, through):
    counters = prewarm(quern, env=through[1])
    assert (counters["hit_remote"], counters["compile_ok"]) == (2, 0)


def test_what_is_late(quern, through):
    """It is waited for where the host says so, and else the compiler is quicker."""
    proxy, env = through
    proxy.behave = remote.late(1)
    counters = prewarm(quern, 256, env=env)
    assert (counters["hit_remote"], counters["compile_ok"]) == (1, 0)
    quern("cache", "clear")
    proxy.behave = remote.late(8)
    counters = prewarm(quern, 256, env={**env, "QUERN_REMOTE_GRACE_MS": "20"})
    assert (counters["hit_remote"], counters["compile_ok"], counters["remote_late"]) == (0, 1, 1)
