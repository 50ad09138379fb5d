# SPDX-License-Identifier: MIT
"""What the command's tests share: running it, and a cache that outlives one test."""

import json
import os
import pathlib
import subprocess

import pytest

EXPLORES = bool(os.environ.get("EXPLORE"))  # check-long, which takes what make check leaves out

TOP = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("QUERN_COMMAND", TOP / "build/release/bin/quern")).resolve()
TARGET = "gfx1151"
TIMEOUT_S = 1800
SANITIZED = COMMAND.parents[1].name in ("asan", "tsan")


def cases(every, sanitized):
    """For parametrize: a sanitized command, many times slower, runs each way through its code, but
    not each way with all numbers."""
    return sanitized if SANITIZED else every


def pytest_configure(config):
    config.addinivalue_line("markers", "numbers: right numbers, by code that other tests run too")


def pytest_collection_modifyitems(config, items):
    """What is about numbers is left out of sanitized runs."""
    left_out = [item for item in items if SANITIZED and item.get_closest_marker("numbers")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def clean_environment(cache):
    """The caller's environment without QUERN_ variables that would change what a test sees."""
    keep = ("QUERN_ROCM_PATH", "QUERN_JOBS")
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_") or k in keep}
    env["QUERN_CACHE_DIR"] = str(cache)
    return env


class Quern:
    """Runs the command with a cache of its own; results have text in stdout and stderr."""

    def __init__(self, cache):
        self.cache = pathlib.Path(cache)

    def __call__(self, *words, status=0, env=None, command=COMMAND, prefix=()):
        done = subprocess.run(
            [*map(str, prefix), str(command), *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**clean_environment(self.cache), **(env or {})},
            timeout=TIMEOUT_S,
        )
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done

    def json(self, *words, **options):
        return json.loads(self(*words, "--json", **options).stdout)

    def refused(self, *words, status, says, **options):
        """Runs what must fail: exactly one line on stderr that has each text of `says`."""
        done = self(*words, status=status, **options)
        assert done.stdout == ""
        assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1, done.stderr
        for text in [says] if isinstance(says, str) else says:
            assert text in done.stderr, (text, done.stderr)
        return done.stderr


@pytest.fixture
def quern(tmp_path):
    """The command with an empty cache."""
    return Quern(tmp_path / "cache")


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """The command with one cache for the whole session, where compiling is not what is tested."""
    return Quern(tmp_path_factory.mktemp("warm") / "cache")


SMALL_MODEL = {
    "quern_model": 1,
    "name": "small",
    "hidden": 128,
    "intermediate": 256,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 64,
    "layers": 2,
    "vocabulary": 512,
}


@pytest.fixture
def small_model(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL_MODEL))
    return path


def files_under(path):
    return sorted(str(p.relative_to(path)) for p in pathlib.Path(path).rglob("*") if p.is_file())
