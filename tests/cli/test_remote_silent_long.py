# SPDX-License-Identifier: MIT
"""A remote that takes what it is given and never answers: who compiles loses no op and ends."""

from test_remote_push import fails_no_op, made  # noqa: F401: made is a fixture


def test_a_silent_server_fails_no_op(quern, made, tmp_path):  # noqa: F811
    fails_no_op(quern, made, tmp_path, "silence")
