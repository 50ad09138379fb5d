# SPDX-License-Identifier: MIT
"""How hypothesis finds examples: for files that use it to import first. It is no part of
conftest.py, which every file's pytest reads, because it takes a fifth of a second to import."""

import hypothesis
from conftest import EXPLORES

# Found examples are printed, not kept in the tree. The same examples every time, or with EXPLORE
# others each time; and none fails for the time it takes.
hypothesis.settings.register_profile(
    "quern", database=None, deadline=None, derandomize=not EXPLORES,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)  # fmt: skip
hypothesis.settings.load_profile("quern")
