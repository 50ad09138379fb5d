# SPDX-License-Identifier: MIT
"""Whatever a server at an s3:// address does wrong: a miss, in bounded time, as by http."""

import shutil
import time

import pytest
import remote
from test_remote import BOUND_S, counters, made, prewarm  # noqa: F401: made is a fixture


@pytest.mark.parametrize("wrong", remote.WRONG)
def test_whatever_goes_wrong_is_a_miss(quern, made, tmp_path, wrong):  # noqa: F811
    shutil.copytree(made / "signed", tmp_path / "served/kernels/x")
    server = remote.Remote(tmp_path / "served")
    server.behave = remote.WRONG[wrong]
    env = {"QUERN_REMOTE": "s3://kernels/x", "QUERN_REMOTE_KEYS": str(made / "ours.pub"),
           "QUERN_REMOTE_GRACE_MS": "unlimited", "AWS_ACCESS_KEY_ID": "a",
           "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": server.url, **remote.grace(wrong)}
    started = time.monotonic()
    try:
        report = prewarm(quern, 256, env=env)
    finally:
        server.stop()
    assert time.monotonic() - started < BOUND_S
    assert counters(report, "hit_remote", "compile_ok", "miss_absent") == (0, 1, 1), wrong
    assert counters(report, "remote_refused", "remote_failed") == remote.counted(wrong, False)
    assert all(path.startswith("/kernels/x/") for path in server.requests)  # none is followed
    assert counters(prewarm(quern, 256), "hit_disk") == (1,)
