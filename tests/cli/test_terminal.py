# SPDX-License-Identifier: MIT
"""Bytes of others that reach what the command prints: names of files, models, layers and GPUs, and
a compiler's log. None of them drives the terminal, and JSON is JSON. What entries and bundles have
of theirs is tests/fault/test_foreign_text.c's."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unicodedata

import pytest
import safetensors
from conftest import COMMAND, SMALL_MODEL, TARGET, TIMEOUT_S, TOP, clean_environment
from test_command import VERBS

# A window's title, C1 in UTF-8 and in Latin-1, the end of the line, a change of direction, DEL, and
# a byte that is no UTF-8; without the NUL and the slash that names of files cannot have.
NASTY = b"\x1b]0;t\x07\xc2\x9b2J\x9b3J\r\n\xe2\x80\xae\xe2\x81\xa6\x7f\xff"
SHOWN = r"\u001b]0;t\u0007\u009b2J\x9b3J\u000d\u000a\u202e\u2066\u007f\xff"
# the same where only JSON's characters can be: what is no UTF-8 is left out
WORDS = NASTY.decode(errors="ignore")
SHOWN_WORDS = SHOWN.replace(r"\x9b", "").replace(r"\xff", "")
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
PROBLEM = "wq=nf4 n=64 k=128 a=bf16"


def safe(raw):
    """Valid UTF-8 without a character that a terminal obeys, but line feeds and tabs."""
    text = raw.decode()
    bad = [c for c in text if (unicodedata.category(c) == "Cc" and c not in "\n\t")
           or unicodedata.bidirectional(c) in BIDI]  # fmt: skip
    assert not bad, text
    return text


@pytest.fixture
def run(tmp_path):
    """Runs the command; what it printed on its streams together, which is safe. JSON is parsed."""

    def run(*words, status=None, env=None, cache=b"cache"):
        environment = {**{os.fsencode(k): os.fsencode(v)
                          for k, v in clean_environment("").items()},
                       b"QUERN_CACHE_DIR": os.fsencode(tmp_path) + b"/" + cache,
                       **{os.fsencode(k): os.fsencode(v) for k, v in (env or {}).items()}}
        done = subprocess.run([os.fsencode(COMMAND), *map(os.fsencode, words)], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S)
        assert done.returncode >= 0 and (status is None or done.returncode == status), done
        text = safe(done.stdout) + safe(done.stderr)
        if "--json" in words and done.stdout:
            json.loads(done.stdout)
        return text

    run.directory = tmp_path
    return run


@pytest.mark.parametrize("verb", VERBS)
def test_arguments(run, verb):
    """Of any verb, wherever a word may stand: as an argument, a value, an option's name."""
    file = os.fsencode(run.directory) + b"/" + NASTY
    pathlib.Path(os.fsdecode(file)).write_bytes(NASTY)
    for words in ([NASTY], [file], [b"--" + NASTY], ["--target", NASTY],
                  ["--target", TARGET, "--m", NASTY, PROBLEM], ["--target", TARGET, file],
                  ["--cache-dir", file, "list"], ["list", file], [NASTY, file]):  # fmt: skip
        for more in ([], ["--json"]):
            run(verb, *words, *more)
    assert SHOWN in run(NASTY, status=2)  # and as the verb
    assert SHOWN in run(verb, b"--" + NASTY, status=2)


def test_a_cache_directory(run):
    for action in ("stat", "list", "verify", "clear"):
        for more in ([], ["--json"]):
            missing = int(action == "verify")  # of a directory that is not there
            text = run("cache", action, *more, cache=NASTY, status=missing)
            if action in ("stat", "clear"):
                assert (SHOWN if not more else r"\\x9b") in text
    os.mkdir(os.fsencode(run.directory) + b"/" + NASTY, 0o700)
    assert "0 entries read" in run("cache", "verify", cache=NASTY, status=0)
    missed = run("explain", "--why-miss", "--target", TARGET, "--m", "1", PROBLEM, cache=NASTY)
    assert SHOWN in missed


def test_a_file_of_a_bundle(run):
    """Made, listed, checked, signed and imported under a name that no terminal should see."""
    file = os.fsencode(run.directory) + b"/" + NASTY
    run("prewarm", "--target", TARGET, "--m", "1", PROBLEM, status=0)
    run("bundle", "keygen", file + b".key", file + b".pub", status=0)
    for words in (["create", file], ["sign", file, "--key", file + b".key"],
                  ["list", file], ["verify", file, "--key", file + b".pub"],
                  ["import", file, "--key", file + b".pub"]):  # fmt: skip
        assert SHOWN in run("bundle", *words, status=0)
        assert r"\\x9b3J" in run("bundle", *words, "--json", status=0)


def test_models(run):
    """Names in a manifest, a config.json, a list of layers: refused or shown safely."""
    file = run.directory / "config.json"
    for text in (json.dumps(SMALL_MODEL | {"name": WORDS}), json.dumps(SMALL_MODEL | {WORDS: 1}),
                 json.dumps({"model_type": WORDS}), json.dumps({"architectures": [WORDS]}),
                 json.dumps({"model_type": "qwen3", "hidden_size": WORDS}),
                 json.dumps({"model_type": "qwen3", "quantization_config": {
                     "quant_method": WORDS, "modules_to_not_convert": [WORDS]}}),
                 WORDS, "quern-layers 1\n" + WORDS, f"{TARGET} {WORDS}\n"):  # fmt: skip
        file.write_bytes(text.encode())
        for how in ("--model", "--manifest"):
            for more in ([], ["--json"]):
                assert run("prewarm", "--target", TARGET, how, file, *more)
    file.write_bytes(NASTY)
    assert run("prewarm", "--target", TARGET, "--manifest", file)


def test_checkpoints(run):
    """Names of tensors, types and files: a header's are refused with control characters, and those
    that only change the direction are shown."""
    file = run.directory / "model.safetensors"
    for name in (WORDS, "\u202e\u2066l"):
        for header in ({name + ".weight": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}},
                       {"x": {"dtype": name, "shape": [2], "data_offsets": [0, 4]}}):
            data = json.dumps(header).encode()
            file.write_bytes(len(data).to_bytes(8, "little") + data + bytes(4))
            assert run("inspect", file) and run("inspect", file, "--json")
    safetensors.write(file, {"\u202el.qweight": ("I32", [8, 64]), "\u202el.scales": ("F16", [1])})
    assert r"\u202el" in run("inspect", file)
    index = run.directory / "m.safetensors.index.json"
    for places in ({"x": WORDS}, {WORDS: "model.safetensors"}, {WORDS: 7}, {WORDS: "a/" + WORDS}):
        index.write_text(json.dumps({"weight_map": places}))
        assert r"\u" in run("inspect", index, status=1)


def test_launch_plans_and_objects(run):
    """What a launch plan names, and a symbol in a code object."""
    place = run.directory / "out"
    run("build", "--target", TARGET, "--m", "1", "--out", place, PROBLEM, status=0)
    plan = json.loads((place / "plan.json").read_text())
    code = place / plan["launches"][0]["object"]
    symbol = plan["launches"][0]["kernel"].encode()
    bent = place / "bent.co"
    bent.write_bytes(code.read_bytes().replace(symbol, NASTY[:len(symbol)].ljust(len(symbol),
                                                                                 b"\x9b")))
    assert SHOWN[:20] in run("inspect", bent, status=0)
    for verb in (["inspect"], ["lint"], ["inspect", "--disassemble"]):
        for more in ([], ["--json"]):
            run(*verb, bent, *more)
    # a page shows the kernel's name, which the object and the plan agree on
    name = WORDS.encode()[:-1].ljust(len(symbol), b"x")
    code.write_bytes(code.read_bytes().replace(symbol, name))
    launch = plan["launches"][0] | {"kernel": name.decode()}
    (place / "plan.json").write_text(json.dumps(plan | {"launches": [launch]}))
    run("profile", place / "plan.json", "--html", place / "page.html", status=0)
    assert SHOWN_WORDS[:20] in safe((place / "page.html").read_bytes())
    for member in ("target", "problem"):
        (place / "plan.json").write_text(json.dumps(plan | {member: WORDS}))
        for verb in ("sim", "run", "inspect", "profile"):
            for more in ([], ["--json"]):
                assert run(verb, place / "plan.json", *more)
    for member in ("kernel", "object"):
        launch = plan["launches"][0] | {member: WORDS}
        (place / "plan.json").write_text(json.dumps(plan | {"launches": [launch]}))
        for verb in ("sim", "inspect", "profile"):
            for more in ([], ["--json"]):
                assert run(verb, place / "plan.json", *more)


def test_a_tuning_table(run):
    table = run.directory / "table"
    for text in (NASTY, b"quern-tuning 1 " + NASTY, b"quern-tuning 1 gfx1151\n" + NASTY):
        table.write_bytes(text)
        table.chmod(0o600)
        assert run("explain", "--target", TARGET, "--m", "1", PROBLEM,
                   env={"QUERN_TUNING": str(table)})  # fmt: skip


def test_the_environment(run):
    """Values of variables and names of those that are not known."""
    names = re.findall(r"`(QUERN_[A-Z_]+)`", (TOP / "docs/embedding.md").read_text())
    assert len(names) > 10
    for name in {*names, b"QUERN_" + NASTY}:
        for words in (["cache", "stat"], ["doctor"]):
            run(*words, env={name: NASTY})
            run(*words, "--json", env={name: NASTY})


def test_a_compilers_log(run):
    """A tool that prints what it should not, where a compiler is looked for."""
    rocm = run.directory / "rocm"
    (rocm / "lib").mkdir(parents=True)
    for name in ("libhiprtc.so", "libamd_comgr.so"):
        (rocm / "lib" / name).write_bytes(NASTY)
    text = run("prewarm", "--target", TARGET, "--m", "1", PROBLEM,
               env={"QUERN_ROCM_PATH": os.fsencode(rocm) + b"/../" + NASTY}, status=1)  # fmt: skip
    assert SHOWN in text
    for words in (["doctor"], ["doctor", "--json"]):
        run(*words, env={"QUERN_ROCM_PATH": rocm})


@pytest.mark.skipif(COMMAND.parents[1].name in ("asan", "tsan"),
                    reason="Python is no host of a library with a sanitizer's calls")
def test_what_a_host_is_told(tmp_path):
    """A host prints what quern_doctor tells it as it comes."""
    program = ("import ctypes, sys\n"
               "@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p,"
               " ctypes.c_char_p)\n"
               "def line(user, ok, subject, text): sys.stdout.buffer.write(text + b'\\n')\n"
               "ctypes.CDLL(sys.argv[1]).quern_doctor(None, line, None)\n")
    env = {**clean_environment(tmp_path), "QUERN_ROCM_PATH": os.fsdecode(b"/nowhere/" + NASTY)}
    done = subprocess.run([sys.executable, "-c", program, COMMAND.parents[1] / "lib/libquern.so"],
                          env=env, check=True, capture_output=True, timeout=TIMEOUT_S)
    assert SHOWN in safe(done.stdout)


@pytest.mark.skipif(not (COMMAND.parents[1] / "lib/fakehip").is_dir(), reason="no fakehip")
def test_a_gpus_name(run):
    env = {"LD_LIBRARY_PATH": str(COMMAND.parents[1] / "lib/fakehip"),
           "FAKEHIP_DEVICES": b"gfx1151,gfx" + NASTY}  # fmt: skip
    assert SHOWN in run("doctor", env=env)
    assert r"\\x9b3J" in run("doctor", "--json", env=env)
