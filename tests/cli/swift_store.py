# SPDX-License-Identifier: MIT
"""OpenStack Swift with its s3api on this machine: an S3 object store that checks signatures. Run as
a program, `python3 swift_store.py DIRECTORY PORT`, it is the store; imported, it starts one."""

import ctypes
import datetime
import hashlib
import hmac
import http.client
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import time

import ports

TOP = pathlib.Path(__file__).resolve().parents[2]
UNPACKED = TOP / "build/deps/swift"
SERVERS = ("account", "container", "object", "proxy")
ID, SECRET, REGION = "team:quern", "a/long+secret=of/the.store", "eu-quern-1"

COMMON = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {top}
devices = {top}/devices
mount_check = false
disable_fallocate = true
workers = 0
log_address = {top}/no-log
"""
STORAGE = """[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""


def proxy_lines():
    """Those of docs/fleet.md, with the region and the secret of the tests."""
    (lines,) = re.findall(r"```ini\n(.*?)```", (TOP / "docs/fleet.md").read_text(), re.DOTALL)
    for old, new in {"location = eu-central-1": f"location = {REGION}",
                     "= SECRET .admin": f"= {SECRET} .admin"}.items():
        assert old in lines, old
        lines = lines.replace(old, new)
    return lines


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def serve(top, port):
    """Writes rings and configurations, and becomes the four servers."""
    from swift.common.ring import RingBuilder
    from swift.common.wsgi import run_wsgi

    claims = [ports.claim() for _ in SERVERS[:3]]  # kept by this process: no server outlives it
    port_of = dict(zip(SERVERS, [*(number for _, number in claims), port]))
    (top / "devices/d").mkdir(parents=True)
    (top / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = quern\n"
                                    "[storage-policy:0]\nname = one\ndefault = yes\n")
    for name in SERVERS:
        lines = proxy_lines() if name == "proxy" else STORAGE.format(name=name)
        (top / f"{name}.conf").write_text(lines + COMMON.format(
            top=top, port=port_of[name], user=pwd.getpwuid(os.getuid()).pw_name))
        if name != "proxy":
            ring = RingBuilder(1, 1, 0)  # two parts, of which there is one copy
            ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port_of[name],
                          "device": "d", "weight": 1})
            ring.rebalance()
            ring.get_ring().save(str(top / f"{name}.ring.gz"))
    die_with_parent()
    for name in SERVERS:
        if not os.fork():
            die_with_parent()
            os._exit(run_wsgi(str(top / f"{name}.conf"), f"{name}-server"))
    signal.pause()


class Swift:
    """A running store with an empty bucket."""

    def __init__(self, top, bucket="kernels"):
        self.keeper, self.port = ports.claim()
        self.bucket = bucket
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = top / "log"
        with open(self.log, "w") as log:
            # -S: without the machine's own packages, which are of other versions
            self.process = subprocess.Popen(
                [sys.executable, "-S", __file__, top, str(self.port)], stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": str(UNPACKED)})
        while not self.ready():
            if self.process.poll() is not None:
                raise AssertionError(self.log.read_text())
            time.sleep(0.05)

    def ready(self):
        try:
            return self.request("PUT", "")[0] in (200, 409)
        except OSError:
            return False

    def request(self, method, name, body=b"", secret=SECRET):
        """Makes one request for what is in the bucket, signed by the book (AWS Signature Version 4:
        https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html)."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        path = f"/{self.bucket}/{name}".rstrip("/")
        headers = {"host": f"127.0.0.1:{self.port}",
                   "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), "x-amz-date": now}
        names = ";".join(headers)
        asked = "\n".join([method, path, "", *(f"{k}:{v}" for k, v in headers.items()), "", names,
                           headers["x-amz-content-sha256"]])
        key = b"AWS4" + secret.encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signed = "\n".join(["AWS4-HMAC-SHA256", now, scope,
                            hashlib.sha256(asked.encode()).hexdigest()])
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={ID}/{scope}, SignedHeaders={names}, "
            f"Signature={hmac.digest(key, signed.encode(), 'sha256').hex()}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.keeper.close()

    def variables(self):
        """What a host's environment has, to sign its requests."""
        return {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": REGION, "AWS_ENDPOINT_URL": self.url}


if __name__ == "__main__":
    serve(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
