# SPDX-License-Identifier: MIT
"""A remote that takes what it is given and never answers: who compiles loses no op and ends."""

import time

import remote
from test_remote_push import BOUND_S, gives, made, prewarm  # noqa: F401: made is a fixture


def test_a_silent_server_fails_no_op(quern, made, tmp_path):  # noqa: F811
    server = remote.Remote(tmp_path)
    server.put = remote.WRONG["silence"]
    try:
        began = time.monotonic()
        counters = prewarm(quern, env=gives(made, server.url))
        assert time.monotonic() - began < BOUND_S
    finally:
        server.stop()
    assert (counters["compile_ok"], counters["put_ok"]) == (2, 2)
    assert (counters["remote_put_ok"], counters["remote_put_failed"]) == (0, 2)
