#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a remote cache costs on this machine, from nginx with the lines of docs/fleet.md: opening
with one configured, one kernel, fifty at once (bench_remote.c), and hundreds by `quern cache pull`.
Makes the kernels first, 300 unless COUNT says how many: some 0.1 s of processor time each.

    python3 tests/bench/fetch.py [COUNT]

Beside a kernel's time stands what the server itself takes, as a client that keeps its connection
sees it: Python's."""

import http.client
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/cli"), str(TOP / "build/deps/python")]
from conftest import COMMAND, clean_environment, files_under  # noqa: E402
from test_remote_push import Nginx  # noqa: E402

BENCH = TOP / "build/release/tests/bench/bench_remote"
ROUNDS = 5


def quern(*words, cache, **variables):
    env = {**clean_environment(cache), **variables}
    return subprocess.run([COMMAND, *words], env=env, check=True, capture_output=True, text=True)


def server_ms(server, names):
    """Milliseconds that nginx takes for each file, the median."""
    connection, times = http.client.HTTPConnection("127.0.0.1", server.port), []
    for name in names:
        start = time.perf_counter()
        connection.request("GET", f"/v1/objects/{name}")
        assert connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main(count):
    with tempfile.TemporaryDirectory() as place:
        top = pathlib.Path(place)
        manifest, made = top / "layers.txt", top / "made"
        manifest.write_text("".join(f"target=gfx1030 m=1 op=gemm wq=nf4 n={64 + 16 * i} k=256 "
                                    "a=bf16\n" for i in range(count)))
        quern("prewarm", "--allow-unverified", "--manifest", manifest, cache=made)
        quern("bundle", "keygen", top / "secret.key", top / "public.key", cache=made)
        top.chmod(0o755)
        (top / "nginx").mkdir()
        server = Nginx(top / "nginx")
        try:
            quern("cache", "push", "--sign-key", top / "secret.key", server.url, cache=made)
            names = [n for n in files_under(made / "v1/objects") if n.endswith(".qk")]
            size = statistics.mean((made / "v1/objects" / n).stat().st_size for n in names)
            print(f"entries of {size / 1000:.0f} KB; the server itself: "
                  f"{server_ms(server, names[:50]):.2f} ms each")
            env = {"QUERN_REMOTE_KEYS": str(top / "public.key")}
            for i in range(ROUNDS):
                words = [BENCH, top / f"bench{i}", server.url, top / "public.key"]
                print(subprocess.run(words, check=True, capture_output=True, text=True,
                                     env=clean_environment(top / "x")).stdout.replace("\n", "; "))
            for i in range(ROUNDS):
                start, before = time.perf_counter(), os.times()
                quern("cache", "pull", server.url, "--allow-unverified", "--manifest", manifest,
                      cache=top / f"pulled{i}", **env)
                took, after = time.perf_counter() - start, os.times()
                used = after.children_user + after.children_system - (
                    before.children_user + before.children_system)
                print(f"pull: {count / took:.0f} entries a second, {used:.2f} s of processor time")
        finally:
            server.kill()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
