# SPDX-License-Identifier: MIT
"""Many processes that start at once, each with a directory of its own, on one remote cache: nginx
with the lines that docs/fleet.md shows, and OpenStack Swift."""

import json
import subprocess
import threading

import pytest
import remote
import swift_store
from conftest import COMMAND, TIMEOUT_S, clean_environment
from test_remote_push import (LAYER, SIZES, TARGET, Nginx, host, made,  # noqa: F401: a fixture
                              needs_nginx)

PROCESSES = 200


def start_all(made, url, tmp_path, sizes=SIZES, **variables):  # noqa: F811
    """Starts them, and gives what each counted when all have ended."""
    words = [str(COMMAND), "prewarm", *TARGET, "--m", "1", "--json", *map(LAYER.format, sizes)]
    running = []
    for i in range(PROCESSES):
        env = {**clean_environment(tmp_path / f"cache{i}"), **host(made, url), "QUERN_JOBS": "1",
               **variables}
        running.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL))
    counted = []
    for process in running:
        out, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
        counted.append(json.loads(out)["counters"])
    return counted


def total(counted, name):
    return sum(c[name] for c in counted)


@pytest.fixture
def filled(made, tmp_path):  # noqa: F811
    (tmp_path / "nginx").mkdir()
    server = Nginx(tmp_path / "nginx")
    subprocess.run([COMMAND, "cache", "push", "--sign-key", made / "ours.key", server.url],
                   env=clean_environment(made / "cache"), check=True, capture_output=True)
    yield server
    server.kill()


@needs_nginx
def test_a_warm_remote_serves_all(made, filled, tmp_path):  # noqa: F811
    """Every kernel is fetched by every process, and none compiled."""
    counted = start_all(made, filled.url, tmp_path)
    assert total(counted, "hit_remote") == PROCESSES * len(SIZES)
    for name in ("compile_ok", "remote_failed", "remote_refused", "remote_skipped", "remote_late"):
        assert total(counted, name) == 0, name


@remote.needs_swift
def test_a_cold_object_store(made, tmp_path):  # noqa: F811
    """At most one kernel in five is compiled twice, over all processes; all others are fetched."""
    (tmp_path / "swift").mkdir()
    store = swift_store.Swift(tmp_path / "swift")
    sizes = range(256, 576, 64)
    try:
        counted = start_all(made, f"s3://{store.bucket}/cold", tmp_path, sizes,
                            **store.variables(), QUERN_REMOTE_MODE="rw",
                            QUERN_REMOTE_SIGN_KEY=str(made / "ours.key"))
    finally:
        store.kill()
    compiled = total(counted, "compile_ok")
    assert len(sizes) <= compiled <= 1.2 * len(sizes)
    assert total(counted, "hit_remote") + compiled == PROCESSES * len(sizes)


@needs_nginx
def test_the_server_is_killed_in_the_middle(made, filled, tmp_path):  # noqa: F811
    """All finish: each kernel was fetched or is compiled."""
    proxy = remote.Relay(("127.0.0.1", filled.port))
    killed = threading.Event()

    def kill(number):
        if number > PROCESSES and not killed.is_set():
            killed.set()
            filled.kill()
    proxy.note = kill
    try:
        counted = start_all(made, proxy.url, tmp_path)
    finally:
        proxy.stop()
    hits, compiled = total(counted, "hit_remote"), total(counted, "compile_ok")
    assert killed.is_set() and hits + compiled == PROCESSES * len(SIZES)
    assert hits > 0 and compiled > 0
