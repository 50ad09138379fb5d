# SPDX-License-Identifier: MIT
"""The jobs of docs/fleet.md that make a model zoo on several machines: the array of Slurm, under
Debian's Slurm on this machine, and the Indexed Job of Kubernetes, judged by Kubernetes' own schema
and run without it."""

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time

import ports
import pytest
import remote
import swift_store
from conftest import COMMAND, TOP, Quern, clean_environment, files_under

PAGE = (TOP / "docs/fleet.md").read_text()
SLURM = TOP / "build/slurm"
KUBERNETES = TOP / "build/kubernetes"
LIBRARIES = SLURM / "usr/lib/x86_64-linux-gnu"
TARGETS = "gfx942,gfx1100,gfx1201"
FETCH_S = 600
JOB_S = 2 * 3600


def block(word):
    """The block of the page that has a word."""
    (found,) = [b for b in re.findall(r"```[a-z]*\n(.*?)```", PAGE, re.DOTALL) if word in b]
    return found


def manifest_of(quern, path, models):
    """Has every layer of models noted for all targets; nothing is compiled."""
    for model in models:
        quern("prewarm", "--model", model, "--wq", "nf4", "--a", "bf16", "--m", "1-8",
              "--target", TARGETS, "--jit", "off", env={"QUERN_RECORD": str(path)}, status=1)
    return path.read_text().splitlines()


def layers(report):
    return [(p["target"], p["problem"]) for p in report["problems"]]


class Slurm:
    """slurmctld, slurmd and munged of one machine, in a directory of their own."""

    def __init__(self, top):
        self.top = top
        # Slurm does not share a port with who keeps it for it: they are free, most likely, from
        # here to its own start (start_slurm)
        keepers, numbers = zip(*(ports.claim() for _ in range(2)))
        for keeper in keepers:
            keeper.close()
        host = socket.gethostname()
        for name in ("munge", "state", "spool"):
            (top / name).mkdir(mode=0o700)
        (top / "munge/key").write_bytes(os.urandom(128))
        (top / "munge/key").chmod(0o600)
        (top / "slurm.conf").write_text(
            f"ClusterName=quern\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
            f"SlurmctldPort={numbers[0]}\nSlurmdPort={numbers[1]}\n"
            f"AuthInfo=socket={top}/munge/socket\nPluginDir={LIBRARIES}/slurm-wlm\n"
            f"StateSaveLocation={top}/state\nSlurmdSpoolDir={top}/spool\n"
            f"SlurmctldPidFile={top}/slurmctld.pid\nSlurmdPidFile={top}/slurmd.pid\n"
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\n"
            "PartitionName=all Nodes=ALL Default=YES State=UP\n" + block("ProctrackType"))
        self.env = {**os.environ, "SLURM_CONF": str(top / "slurm.conf"),
                    "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES}/slurm-wlm:"
                                       f"{SLURM}/lib/x86_64-linux-gnu"}
        munge = ["--foreground", "--force", f"--key-file={top}/munge/key",
                 f"--socket={top}/munge/socket", f"--pid-file={top}/munge/pid",
                 f"--seed-file={top}/munge/seed", f"--log-file={top}/munge/log"]
        self.running = [self.start("munged", *munge)]
        self.wait(lambda: (top / "munge/socket").exists())
        self.running.append(self.start("slurmctld-wlm", "-D", "-c"))
        self.running.append(self.start("slurmd-wlm", "-D", "-d", SLURM / "usr/sbin/slurmstepd-wlm"))
        self.wait(lambda: "idle" in self.run("sinfo", "--noheader").stdout)

    def start(self, name, *words):
        with open(self.top / f"{name}.log", "w") as log:
            return subprocess.Popen([SLURM / "usr/sbin" / name, *words], env=self.env, stdout=log,
                                    stderr=log)

    def run(self, name, *words, **more):
        return subprocess.run([SLURM / "usr/bin" / name, *words], env={**self.env, **more},
                              capture_output=True, text=True, timeout=JOB_S)

    def wait(self, there):
        """Until something is there; the servers must be alive meanwhile."""
        while not there():
            if any(process.poll() is not None for process in self.running):
                self.stop()
                raise AssertionError("".join(p.read_text() for p in self.top.glob("*.log")))
            time.sleep(0.05)

    def stop(self):
        for process in reversed(self.running):
            process.terminate()
            process.wait(30)


def start_slurm(top):
    for i in range(10):
        (top / str(i)).mkdir()
        try:
            return Slurm(top / str(i))
        except AssertionError as error:
            if "Address already in use" not in str(error):
                raise
    raise AssertionError("another had Slurm's ports, ten times")


@pytest.fixture
def slurm():
    """Its directories have short names: a job's socket is in one of them, and a socket's path has
    107 bytes at most. Of a longer one Slurm only says that it cannot launch the job."""
    if os.getuid():
        pytest.skip("slurmd wants to be root")
    if not (SLURM / "usr/sbin").is_dir():
        words = ["sh", TOP / "tools/unpack.sh", SLURM, "slurmctld", "slurmd", "munge"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=FETCH_S)
        if done.returncode:
            pytest.skip(f"no Slurm here: {done.stderr[-300:]}")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp",
                                     ignore_cleanup_errors=True) as top:
        started = start_slurm(pathlib.Path(top))
        try:
            yield started
        finally:
            started.stop()


def test_an_array_of_slurm(quern, slurm, tmp_path):
    """Its four parts are together the whole zoo for three targets, and nothing is made twice."""
    models = sorted((TOP / "cache/models").glob("*.json"))
    lines = manifest_of(quern, tmp_path / "layers.txt", models)
    words = shlex.split(block("sbatch").strip())
    wrapped = words[words.index("--wrap") + 1]
    for old, new in (("quern ", f"{COMMAND} "), ("layers.txt", str(tmp_path / "layers.txt")),
                     ("/shared/cache", str(tmp_path / "shared"))):
        assert old in wrapped
        wrapped = wrapped.replace(old, new)
    words[words.index("--wrap") + 1] = f"{wrapped} --json"
    assert words[:3] == ["sbatch", "--array", "1-4"]
    done = slurm.run("sbatch", "--wait", "--output", tmp_path / "part-%a.json", "--error",
                     tmp_path / "part-%a.err", *words[1:], QUERN_JOBS="1",
                     SBATCH_NO_REQUEUE="1",  # else a job that cannot start waits for ever
                     **{k: v for k, v in clean_environment(tmp_path / "shared").items()
                        if k.startswith("QUERN_")})
    said = [(tmp_path / f"part-{i}.err").read_text() for i in range(1, 5)]
    assert done.returncode == 0, (done.stderr, said)
    parts = [json.loads((tmp_path / f"part-{i}.json").read_text()) for i in range(1, 5)]
    made = [layer for part in parts for layer in layers(part)]
    assert all(part["problems"] for part in parts) and len(made) == len(set(made))
    whole = quern.json("prewarm", "--manifest", tmp_path / "layers.txt", "--cache-dir",
                       tmp_path / "shared", "--jit", "off")
    assert sorted(made) == sorted(layers(whole)) and len(made) == len(set(lines))
    # layers of the same shape may share a kernel, which is made once, by whichever part came first
    entries = [f for f in files_under(tmp_path / "shared/v1/objects") if f.endswith(".qk")]
    assert sum(part["compiled"] for part in parts) == len(entries)


def validate(text, tmp_path):
    """What kubernetes-validate says of a resource, and its status; it runs without this machine's
    own packages, which are of other versions."""
    if not KUBERNETES.is_dir():
        subprocess.run(["sh", TOP / "tools/pip.sh", "install", "--quiet", "--target", KUBERNETES,
                        "kubernetes-validate"], check=True, timeout=FETCH_S)
    path = tmp_path / "job.yaml"
    path.write_text(text)
    done = subprocess.run([sys.executable, "-S", "-c", VALIDATE, path], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(KUBERNETES)})
    return done.returncode, done.stdout, done.stderr


VALIDATE = """
import json, sys, kubernetes_validate, yaml
resource = yaml.safe_load(open(sys.argv[1]))
kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
print(json.dumps(resource))
"""


def test_the_job_is_one(tmp_path):
    text = block("kind: Job")
    status, _, said = validate(text, tmp_path)
    assert status == 0, said
    for old, new in (("completionMode", "completionmode"), ("completions: 4", "completions: four"),
                     ("restartPolicy: OnFailure", "restartpolicy: OnFailure")):
        assert text.count(old) == 1
        status, _, said = validate(text.replace(old, new), tmp_path)
        assert status == 1 and "ValidationError" in said


@remote.needs_swift
def test_what_the_job_runs(quern, tmp_path):
    """Its command with its variables, once for each index, each in a container of its own as far as
    a directory is one; together they have filled the store."""
    _, out, said = validate(block("kind: Job"), tmp_path)
    assert out, said
    spec = json.loads(out)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (tmp_path / "swift").mkdir()
    store = swift_store.Swift(tmp_path / "swift", bucket="bucket")
    volume = tmp_path / "quern"
    volume.mkdir()
    quern("bundle", "keygen", volume / "secret.key", volume / "public.key")
    lines = manifest_of(quern, volume / "layers.txt", [TOP / "cache/models/qwen3-0.6b.json"])

    def placed(text):
        return text.replace("/quern/", f"{volume}/")
    made = []
    try:
        for index in range(spec["completions"]):
            env = {v["name"]: placed(v["value"]) for v in container["env"]}
            env.update(clean_environment(tmp_path / f"cache{index}"), **store.variables(),
                       JOB_COMPLETION_INDEX=str(index))
            assert container["command"][0] == "quern"
            words = [str(COMMAND), *map(placed, container["command"][1:]), "--json"]
            done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=JOB_S)
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            made += layers(report)
            assert report["counters"]["remote_put_failed"] == 0
        assert len(made) == len(set(made)) == len(set(lines))
        env = {"QUERN_REMOTE_KEYS": str(volume / "public.key"), **store.variables()}
        report = Quern(tmp_path / "reader").json("cache", "pull", "s3://bucket/prefix",
                                                 "--manifest", volume / "layers.txt", env=env)
        assert report["missing"] == 0 and report["fetched"] > 0
    finally:
        store.kill()
