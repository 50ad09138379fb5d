# SPDX-License-Identifier: MIT
"""All ways to answer wrongly, by a proxy in front of nginx and of OpenStack Swift."""

import pytest
import remote
from test_remote_engines import (SOME, engine, goes_wrong, through)  # noqa: F401: two are fixtures
from test_remote_push import made  # noqa: F401: a fixture


@pytest.mark.parametrize("wrong", [w for w in remote.WRONG if w not in SOME])
def test_whatever_goes_wrong_is_a_miss(quern, through, wrong):  # noqa: F811
    goes_wrong(quern, through, wrong)
