# SPDX-License-Identifier: MIT
"""A remote cache on this machine that serves a directory, and does wrong in every way asked for."""

import http.client
import json
import os
import pathlib
import socket
import socketserver
import ssl
import subprocess
import threading
import time

import ports
import pytest
import swift_store
from conftest import COMMAND, TIMEOUT_S, TOP, Quern, clean_environment

PORTAL = b"<!doctype html><title>Welcome</title><p>Please accept the terms of this hotel."
# How long a server that says nothing waits for the other side to go: longer than the patience of a
# host that has `grace`.
PATIENCE_S = 120
# The list of what is revoked, which is asked for once by each process that asks for anything.
REVOKED = "/v1/revoked.qr"

needs_swift = pytest.mark.skipif(
    not swift_store.UNPACKED.exists() and os.environ.get("CI") != "true",
    reason="no Swift here (tools/setup.sh fetches it)")


def head(status, length, *lines):
    text = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {length}", *lines])
    return text.encode() + b"\r\n\r\n"


def good(body):
    return head("200 OK", len(body)) + body


def absent(_body):
    return head("404 Not Found", 3) + b"no\n"


def status(code):
    return lambda body: head(f"{code} As Asked", 3) + b"no\n"


def corrupt(at):
    def change(body):
        i = int(at * (len(body) - 1))
        return good(body[:i] + bytes([body[i] ^ 1]) + body[i + 1:])
    return change


def drip(body):
    body = body or bytes(PATIENCE_S)  # also where an answer has none: its end would be the head's

    def send(connection):
        connection.sendall(head("200 OK", len(body)))
        for i in range(PATIENCE_S):
            connection.sendall(body[i:i + 1])
            time.sleep(1)
    return send


def endless(first, block):
    def answer(_body):
        def send(connection):
            connection.sendall(first)
            while True:
                connection.sendall(block)
        return send
    return answer


def late(seconds):
    def answer(body):
        def send(connection):
            time.sleep(seconds)
            connection.sendall(good(body))
        return send
    return answer


def hang(_body):
    def send(connection):
        connection.settimeout(PATIENCE_S)
        while connection.recv(4096):
            pass
    return send


def trickle(_body):
    """Too slow to end in time, and fast enough not to be given up before that."""
    def send(connection):
        connection.sendall(head("200 OK", 1 << 20))
        while True:
            connection.sendall(bytes(512))
            time.sleep(0.05)
    return send


# Ways to answer wrongly: from the right body, or None, to bytes, after which the connection is
# closed, or to a function that is given the connection.
WRONG = {
    "a part and the end": lambda body: head("200 OK", len(body)) + body[:len(body) // 2],
    "less than is there": lambda body: head("200 OK", len(body) - 100) + body,
    "more than is there": lambda body: head("200 OK", len(body) + 100) + body,
    "nothing": lambda body: good(b""),
    "a flipped bit at the front": corrupt(0),
    "a flipped bit in the key": corrupt(0.01),
    "a flipped bit in the middle": corrupt(0.5),
    "a flipped bit at the end": corrupt(1),
    "a captive portal": lambda body: good(PORTAL),
    "a portal elsewhere": lambda body: head("302 Found", 0, "Location: /portal"),
    "redirections in a loop": lambda body: head("302 Found", 0, "Location: /v1/again"),
    "a file": lambda body: head("302 Found", 0, "Location: file:///etc/hostname"),
    "10 GB": endless(head("200 OK", 10 << 30), bytes(1 << 16)),
    "no end": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                      b"10000\r\n" + bytes(1 << 16) + b"\r\n"),
    "a header without an end": endless(b"HTTP/1.1 200 OK\r\n", b"X-Quern: " + b"x" * 900 + b"\r\n"),
    "a byte a second": drip,
    "silence": hang,
    "the end at once": lambda body: b"",
    "no HTTP": lambda body: b"SSH-2.0-OpenSSH_9.2\r\n",
    **{f"status {code}": status(code)
       for code in (204, 206, 304, 400, 401, 403, 412, 429, 500, 503)},
}  # fmt: skip


def counted(wrong, followed):
    """What one kernel's answer that is wrong in a way of WRONG adds to remote_refused and to
    remote_failed: some the host judges, all else the helper, which follows redirections or not."""
    judged = ["flipped", "captive portal", "nothing", "less than"]
    judged += ["a portal elsewhere"] if followed else []
    return (1, 0) if any(w in wrong for w in judged) else (0, 1)


def grace(wrong):
    """What a host's environment adds for a way of WRONG. Some end only when the helper has no more
    patience, of which hosts that would rather wait than compile have sixty times as much."""
    return {"QUERN_REMOTE_GRACE_MS": "10000"} if wrong in ("a byte a second", "silence") else {}


def make_ops(tmp_path_factory):
    """A function that makes ops of problems one after another, in a process of its own (ops.c), and
    gives its counters as a report, and what it said."""
    program = tmp_path_factory.mktemp("ops") / "ops"
    build = COMMAND.parents[1]
    sanitizers = {"asan": ["-fsanitize=address,undefined"], "tsan": ["-fsanitize=thread"]}
    subprocess.run([*os.environ.get("CC", "cc").split(), f"-I{TOP}/include",
                    *sanitizers.get(build.name, ()), TOP / "tests/cli/ops.c", "-o", program,
                    f"-L{build}/lib", "-lquern", f"-Wl,-rpath,{build}/lib", "-pthread", "-ldl",
                    "-lm"], check=True)  # a sanitized library is an archive

    # A sanitized program has the library in it, which looks for its worker and for a compiler where
    # the program lies; so it is told where they are.
    own = build / "libexec/quern/quern-worker" if build.name in sanitizers else ""
    rocm = TOP / "build/rocm"
    beside = {"QUERN_ROCM_PATH": str(rocm)} if rocm.is_dir() else {}

    def make(cache, problems, env, worker=""):
        done = subprocess.run([program, worker or own, *problems], capture_output=True, text=True,
                              timeout=TIMEOUT_S,
                              env={**beside, **clean_environment(cache), **env})
        assert done.returncode == 0, done.stderr
        return {"counters": json.loads(done.stdout), "said": done.stderr}
    return make


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        server = self.server
        while line := self.rfile.readline(65536).decode("latin-1").split():
            head = {}
            while header := self.rfile.readline(65536).strip():
                name, value = header.split(b":", 1)
                head[name.lower()] = value.strip()
            sent = self.rfile.read(int(head.get(b"content-length", 0)))
            path = line[1]
            found = server.find(line[0], path, head, sent)
            if path.endswith(REVOKED) and line[0] == "GET" and not server.behave_list:
                self.wfile.write(absent(None) if found is None else good(found))
                continue
            with server.lock:
                server.requests.append(path)
                server.heads.append(head)
                if server.note:
                    server.note(len(server.requests))
                behave = server.behave_list if path.endswith(REVOKED) else server.behave
            if line[0] == "PUT":
                behave = server.put
                answer = behave(found or b"")
            elif path == "/portal":
                answer = good(PORTAL)
            elif (found is not None or path == "/v1/again" or server.always
                    or server.behave_list):
                answer = behave(found or b"")
            else:
                answer = absent(None)
            try:
                if callable(answer):
                    answer(self.request)
                    return
                self.wfile.write(answer)
            except OSError:
                return  # the other side has had enough
            if behave is not good:
                return


class Remote(socketserver.ThreadingTCPServer):
    """Serves what is below `root`; `behave` makes the answer to a request for what is there, with
    its bytes. The revocation list is served, or is not there, without any of this, unless
    `behave_list` makes the answer."""

    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, root, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if certificate:
            self.tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self.root = pathlib.Path(root)
        self.behave, self.requests, self.heads = good, [], []
        self.behave_list = None
        self.note = None  # is called with the number of each request, before it is answered
        self.put = status(405)  # makes the answer to what is put, which is not kept
        self.always = False  # `behave` answers for what is not there, too
        self.lock = threading.Lock()
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def find(self, method, path, head, sent):
        """What there is at a path; None: nothing."""
        file = self.root / path.lstrip("/")
        return file.read_bytes() if method == "GET" and file.is_file() else None

    def finish_request(self, request, client_address):
        if self.tls:
            request.settimeout(PATIENCE_S)
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass

    def stop(self):
        self.shutdown()
        self.server_close()


class Proxy(Remote):
    """A proxy in front of another server, whose answers it passes on or does wrong with."""

    def __init__(self, port):
        super().__init__("/")
        self.port = port

    def find(self, method, path, head, sent):
        if path in ("/portal", "/v1/again"):
            return None
        onward = http.client.HTTPConnection("127.0.0.1", self.port)
        # as it came, for whatever is signed, the name of the host included
        headers = {k.decode(): v.decode("latin-1") for k, v in head.items() if k != b"connection"}
        try:
            onward.request(method, path, sent or None, headers)
            answer = onward.getresponse()
            body = answer.read()
        finally:
            onward.close()
        assert answer.status in (200, 404), (answer.status, body)
        return body if answer.status == 200 else None


def make_signed(top, prewarm):
    """What a server is to have, below `top`: a cache that `prewarm` fills, given a quern that uses
    it; two pairs of keys, ours and theirs; and `signed`, a copy of the cache signed by ours."""
    quern = Quern(top / "cache")
    prewarm(quern)
    for name in ("ours", "theirs"):
        quern("bundle", "keygen", top / f"{name}.key", top / f"{name}.pub")
    quern("cache", "push", "--sign-key", top / "ours.key", top / "signed")
    return quern


# A port of this machine that nobody listens on, and nobody can as long as it is kept.
CLOSED, CLOSED_PORT = ports.claim()


class Relay(socketserver.ThreadingTCPServer):
    """Passes each connection's requests to another server. `note` is called with the number of each
    request before it is passed on."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            request = b""
            while b"\r\n\r\n" not in request:
                more = self.request.recv(65536)
                if not more:
                    return
                request += more
            with self.server.lock:
                self.server.count += 1
                self.server.note(self.server.count)
            # one request a connection: the server is told so, and ends it when it has answered
            line, rest = request.split(b"\r\n", 1)
            try:
                with socket.create_connection(self.server.to) as onward:
                    onward.sendall(line + b"\r\nConnection: close\r\n" + rest)
                    threading.Thread(target=self.carry, args=(self.request, onward),
                                     daemon=True).start()
                    self.carry(onward, self.request)
            except OSError:
                pass  # nobody is there

        @staticmethod
        def carry(source, sink):
            try:
                while block := source.recv(65536):
                    sink.sendall(block)
            except OSError:
                pass

    def __init__(self, to):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.to, self.count, self.lock = to, 0, threading.Lock()
        self.note = lambda number: None
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()
