#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern as its hosts use it, on the NVIDIA GPU of this machine.

    hosts_cuda.py prepare       where quern is built, with or without a GPU: makes the kernels of
                                all models of cache/models in NF4 in build/hw/cache, and
                                build/hw/kit.tgz with what a machine that builds nothing needs.
                                `--bitsandbytes DIR` adds that package, which its part wants, and
                                build/models is packed as build/hw/model.0 and model.1
    hosts_cuda.py all [PART…]   on the GPU: unpacks what there is of these, runs each part in a
                                process of its own, and leaves build/hw/report.txt
    hosts_cuda.py PART          one of them

Parts: machine, demo, examples, promises, torch, bitsandbytes, crowd, killed, served; and, where
there are several GPUs, devices, models and ranks. Each prints a line for each thing that it tried,
"ok" or "BAD". Exit status of `all`: 1 if a part failed; 77: no GPU. This file is long because one
command, and one file to read, is what whoever has the GPU wants.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD, HW, MODEL = TOP / "build/release", TOP / "build/hw", TOP / "build/models/all-MiniLM-L6-v2"
PEER = HW / "bitsandbytes"
PROGRAMS = ("bin/quern", "lib/libquern.so", "lib/libquern_bnb.so", "libexec/quern/quern-worker",
            "examples/minimal", "examples/encoder", "examples/graph_cuda", "examples/threads_cuda")
SECONDS = {"machine": 60, "demo": 400, "bitsandbytes": 500}  # others: 200
SENTENCES = ("A quern is a small mill that is turned by hand.",
             "Grain was ground to flour between two stones.",
             "The train to Lisbon leaves at half past nine.", "quern")
# Of the largest result; rounding 16-bit weights, activations and results costs as much.
ERROR = {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2}
PRODUCTS = ("cgemm_4bit_bf16", "cgemm_4bit_fp16", "cgemm_4bit_fp32")  # bitsandbytes' fused ones
failures = 0


def tell(good, text):
    global failures
    failures += not good
    print(("ok  " if good else "BAD ") + text, flush=True)
    return good


def output_of(*words, seconds=300, **environment):
    done = subprocess.run([str(w) for w in words], cwd=TOP, capture_output=True, text=True,
                          timeout=seconds, env={**os.environ, **environment}, check=False)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def empty_cache():
    with tempfile.TemporaryDirectory() as directory:
        os.environ["QUERN_CACHE_DIR"] = directory
        yield directory


def import_all():
    """quern of the tree, on the library of the build, and torch; layers_cuda has the operands."""
    ctypes.CDLL(str(BUILD / "lib/libquern.so"), ctypes.RTLD_GLOBAL)
    sys.path[:0] = [str(TOP / "tools/python"), str(TOP / "tests/hw")]
    import torch
    import quern
    import layers_cuda
    return torch, quern, layers_cuda


def error_of(y, right):
    return ((y.double() - right).abs().max() / right.abs().max()).item()


# ---- machine, demo, examples --------------------------------------------------------------------


def machine():
    for words in (["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,"
                   "memory.total", "--format=csv,noheader"],
                  [BUILD / "bin/quern", "doctor"]):
        status, out, err = output_of(*words, QUERN_DEVICE="cuda")
        print(out + err, end="")
        tell(status == 0, pathlib.Path(words[0]).name)


def demo():
    status, out, err = output_of("make", "--no-print-directory", "demo", "DEVICE=cuda", seconds=390)
    print(out + err, end="")
    tell(status == 0 and "0.9999 is required: good" in out, "make demo DEVICE=cuda")
    tell("0 compiled, " in out and "all cache hits" in out, "prewarmed again: nothing is compiled")


def examples():
    with empty_cache():
        for name, says in (("minimal", "c[0] = 32, expected 32\n"),
                           ("graph_cuda", "token 4: 4\n"),
                           ("threads_cuda", "4 threads, 8 launches each, 0 wrong answers\n")):
            status, out, err = output_of(BUILD / "examples" / name, QUERN_DEVICE="cuda")
            tell(status == 0 and out.endswith(says), f"{name}: {(out + err).splitlines()[-1:]}")
        if not MODEL.is_dir():
            return tell(False, "encoder: its model is not here")
        for dtype in ("f32", "f16", "bf16"):
            status, out, err = output_of(BUILD / "examples/encoder", "--gpu", "--json", "--dtype",
                                         dtype, MODEL, *SENTENCES, QUERN_DEVICE="cuda")
            report = json.loads(out) if out else {}
            tell(status == 0, f"encoder {dtype}: {cosines(report)} {err.strip().splitlines()[-1:]}")


def cosines(report):
    """Whatever the report says of how near quern's embeddings are to the CPU's in double."""
    return {k: v for k, v in report.items() if isinstance(v, (int, float, str))}


# ---- what the library promises a host -----------------------------------------------------------


def promises():
    """Each line is a promise of docs/embedding.md, by its name there."""
    torch, quern, layers = import_all()
    with empty_cache(), quern.Context(device="cuda") as ctx:
        ops = [(layers.layer("nf4", 4096, 4096, 64, False, False, "bf16"),
                ctx.op("wq=nf4 n=4096 k=4096 a=bf16", m_max=64))]
        (operands, weights), op = ops[0]
        x = torch.randn(64, 4096, device="cuda").bfloat16()
        y = torch.full((64, 4096), float("nan"), device="cuda").bfloat16()
        right = x.double() @ weights.t()
        stream = torch.cuda.Stream()  # does not wait for the default one
        torch.cuda.synchronize()

        def go(m=8, on=stream):
            with torch.cuda.stream(on):
                layers.launch(op, m, a=x, c=y, **operands)

        go()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000_000)  # about a second
        begun = time.monotonic()
        for m in (1, 8, 16, 64):
            go(m)
        took, busy = time.monotonic() - begun, not stream.query()
        tell(busy and took < 0.1, f"no-wait: four launches returned after {took * 1e3:.2f} ms, on "
             f"a stream that was {'still' if busy else 'not'} busy")
        torch.cuda.synchronize()
        tell(error_of(y, right) <= ERROR["bf16"], "no-wait: and were right when it was done")

        free = torch.cuda.mem_get_info()[0]
        for _ in range(3000):
            go(64)
        torch.cuda.synchronize()
        lost = free - torch.cuda.mem_get_info()[0]
        tell(lost == 0, f"no-allocation: {lost} bytes of the GPU less after 3000 launches")

        done = torch.cuda.Event()
        torch.cuda._sleep(2_000_000_000)  # on the default stream
        done.record()
        begun = time.monotonic()
        go()
        stream.synchronize()
        tell(not done.query(), f"no-default-stream: a launch was done after "
             f"{(time.monotonic() - begun) * 1e3:.2f} ms, while the default stream was busy")
        torch.cuda.synchronize()
        capture(torch, ctx, op, operands, weights, layers)
        threads(torch, layers, op, operands, weights)
        forked(quern, ctx)


def capture(torch, ctx, op, operands, weights, layers):
    x = torch.randn(16, 4096, device="cuda").bfloat16()
    y, graph = torch.zeros_like(x), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    refused = ""
    with torch.cuda.graph(graph):  # in global mode, which forbids what waits or allocates
        layers.launch(op, 16, a=x, c=y, **operands)
        try:
            ctx.op_on("wq=nf4 n=512 k=512 a=bf16", 8, torch.cuda.current_stream().cuda_stream)
        except Exception as error:  # quern.Error
            refused = str(error)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    error = error_of(y, x.double() @ weights.t())
    tell(error <= ERROR["bf16"], f"capture: replayed with new values, error {error:.1e}")
    tell("captured" in refused, f"capture: a kernel that is not there is refused: {refused}")


def threads(torch, layers, op, operands, weights):
    worst = []

    def serve(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            generator = torch.Generator("cuda").manual_seed(seed)
            for m in (1, 3, 8, 13, 32, 64) * 8:
                x = torch.randn(m, 4096, device="cuda", generator=generator).bfloat16()
                y = torch.empty_like(x)
                layers.launch(op, m, a=x, c=y, **operands)
                worst.append(error_of(y, x.double() @ weights.t()))

    running = [threading.Thread(target=serve, args=(i,)) for i in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    tell(len(worst) == 384 and max(worst) <= ERROR["bf16"],
         f"threads: {len(worst)} launches of 8 threads, worst error {max(worst):.1e}")


def forked(quern, ctx):
    """A process forked from one that uses CUDA has no GPU, which is the driver's rule: it is told
    so, of the context that it inherits and of a new one, and the parent goes on."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        for use in (lambda: ctx.buffer(64), lambda: quern.Context(device="cuda")):
            try:
                use()
                os.write(write, b"it worked; ")
            except quern.Error as error:
                os.write(write, f"{error}; ".encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    said = os.read(read, 4096).decode()
    tell("was forked" in said and "it worked" not in said, f"fork: the child was told: {said}")


# ---- torch --------------------------------------------------------------------------------------


def torch_path():
    torch, quern, layers = import_all()
    with empty_cache():
        with quern.Context() as ctx:  # no device named: torch's
            tell(ctx.gpu == ("cuda", 0), f"a context of no named device is of {ctx.gpu}")
            for wq, a, group, nested, bias in (
                    ("nf4", "bf16", 64, False, True), ("nf4", "f16", 64, True, False),
                    ("fp4", "bf16", 128, False, False), ("mxfp4", "bf16", 32, False, False),
                    ("nf4", "f32", 64, False, True)):
                one_linear(torch, quern, layers, ctx, (wq, a, group, nested, bias))


def one_linear(torch, quern, layers, ctx, kind):
    wq, a, group, nested, bias = kind
    n, k, dtype = 1536, 2048, layers.TYPES[a]
    operands, weights = layers.layer(wq, n, k, group, nested, bias, a)
    text = f"wq={wq} n={n} k={k} a={a} bias={bias:d}" + (" scale=nested" if nested else "")
    text += f" group={group}" if wq != "mxfp4" else ""
    linear = quern.Linear(ctx, text, operands, m_max=32)
    x = torch.randn(2, 5, k, device="cuda").to(dtype)

    def right(x):
        return x.double() @ weights.t() + (operands["bias"].double() if bias else 0)

    y = linear(x)
    tell(y.shape == (2, 5, n) and error_of(y, right(x)) <= ERROR[a],
         f"{text}: tensors, error {error_of(y, right(x)):.1e}")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        z = linear(x * 2)  # behind what is on this stream, or the product would be of old values
    side.synchronize()
    tell(error_of(z, right(x * 2)) <= ERROR[a], "  the current stream")
    graph, held = torch.cuda.CUDAGraph(), x.clone()
    with torch.cuda.graph(graph):
        z = linear(held)
    held.copy_(x * -3)
    graph.replay()
    torch.cuda.synchronize()
    tell(error_of(z, right(x * -3)) <= ERROR[a], "  a CUDA graph, replayed with new values")

    def model(x):
        return torch.relu(linear(x)) + 1

    for words in ({"backend": "aot_eager"}, {}, {"mode": "reduce-overhead"}):
        try:
            torch._dynamo.reset()
            compiled = torch.compile(model, fullgraph=True, **words)
            with torch.no_grad():
                for _ in range(4):
                    z = compiled(x).clone()
            error = error_of(z, torch.relu(right(x)) + 1)
            tell(error <= ERROR[a], f"  torch.compile {words or 'inductor'}, error {error:.1e}")
        except Exception as error:
            tell(False, f"  torch.compile {words or 'inductor'}: {str(error).splitlines()[:3]}")

    class Producer:  # what DLPack alone shows of a tensor
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **words):
            return self.tensor.__dlpack__(**words)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    out = torch.empty(10, n, device="cuda", dtype=dtype)
    linear.op.launch(m=10, a=Producer(x.reshape(10, k)), c=Producer(out),
                     stream=torch.cuda.current_stream().cuda_stream,
                     **{name: Producer(t) for name, t in operands.items()})
    tell(error_of(out, right(x).reshape(10, n)) <= ERROR[a], "  DLPack")


# ---- bitsandbytes -------------------------------------------------------------------------------


def shapes(experts=True):
    """(N, K) of every linear layer of cache/models, from what `prepare` noted; with those of
    experts, whose kernels are of op=moe."""
    found = set()
    for path in (HW / "zoo").glob("*.json"):
        for problem in json.loads(path.read_text())["problems"]:
            words = dict(w.split("=", 1) for w in problem["problem"].split())
            if experts or words["op"] == "gemm":
                found.add((int(words["n"]), int(words["k"])))
    return sorted(found)


def lead_to_quern(path):
    """Has bitsandbytes' fused products computed by the libquern_bnb.so at `path`, by the lines of
    docs/bitsandbytes.md as a user has them. Returns that library."""
    guide = (TOP / "docs/bitsandbytes.md").read_text()
    (code,) = [b.split("```")[0] for b in guide.split("```python\n")[1:]
               if "libquern_bnb.so" in b.split("```")[0]]
    words = {}
    exec(code.replace('"libquern_bnb.so"', repr(str(path))), words)
    words["ours"].quern_bnb_last_error.restype = ctypes.c_char_p
    return words["ours"]


def bitsandbytes_path():
    torch, _, _ = import_all()
    if not PEER.is_dir():
        return tell(False, "bitsandbytes is not here")
    sys.path.insert(0, str(HW))
    import bitsandbytes as bnb
    from bitsandbytes.backends.cuda import ops
    from bitsandbytes.cextension import lib
    os.environ["QUERN_CACHE_DIR"] = str(HW / "cache")
    own = {name: getattr(lib, name) for name in PRODUCTS}
    own_gate = ops._gemm_4bit_use_custom_fn
    library = lead_to_quern(BUILD / "lib/libquern_bnb.so")
    ours, gate, calls = {n: getattr(lib, n) for n in own}, ops._gemm_4bit_use_custom_fn, [0]

    def counted(function):
        def call(*arguments):
            calls[0] += 1
            function(*arguments)
        return call

    def lead(to, decide):
        for name, function in to.items():
            setattr(lib, name, function)
        ops._gemm_4bit_use_custom_fn = decide

    ours = {name: counted(function) for name, function in ours.items()}
    todo = [(n, k, "bf16", "nf4", False, False, range(1, 65)) for n, k in shapes()]
    todo += [(n, k, a, q, nested, bias, (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64))
             for n, k in ((4096, 4096), (1536, 8960), (6144, 2560)) for a in ("bf16", "f16", "f32")
             for q in ("nf4", "fp4") for nested in (False, True) for bias in (False, True)]
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    worst, count = [0.0, 0.0, 0.0], 0
    for n, k, a, quant_type, nested, bias, rows in todo:
        dtype = types[a]
        layer = bnb.nn.Linear4bit(k, n, bias=bias, compute_dtype=dtype, quant_type=quant_type,
                                  compress_statistics=nested, device="meta")
        weight = torch.randn(n, k, device="cuda", dtype=dtype) * 0.02
        layer.weight = bnb.nn.Params4bit(weight, requires_grad=False, quant_type=quant_type,
                                         compress_statistics=nested, module=layer).to("cuda")
        if bias:
            layer.bias = torch.nn.Parameter(torch.randn(n, device="cuda", dtype=dtype),
                                            requires_grad=False)
        state = layer.weight.quant_state
        exact = bnb.functional.dequantize_4bit(layer.weight.data, state).float()
        del weight
        error, apart, peer = 0.0, 0.0, 0.0
        with torch.no_grad():
            for m in rows:
                x = torch.randn(m, k, device="cuda", dtype=dtype)
                lead(own, own_gate)
                theirs = layer(x)
                lead(ours, gate)
                before = calls[0]
                y = layer(x)
                if calls[0] != before + 1 or library.quern_bnb_last_status():
                    tell(False, f"n={n} k={k} {a} m={m}: {calls[0] - before} calls of ours, "
                         f"{library.quern_bnb_last_error().decode()}")
                    break
                right = (x.float() @ exact.t() if a != "f32" else
                         (x.double() @ exact.double().t())).double()
                if bias:
                    right = right + layer.bias.double()
                top = right.abs().max().item()
                error = max(error, (y.double() - right).abs().max().item() / top)
                peer = max(peer, (theirs.double() - right).abs().max().item() / top)
                apart = max(apart, (y.double() - theirs.double()).abs().max().item() / top)
                count += 1
        good = error <= ERROR[a] and apart <= 2 * ERROR[a]
        worst = [max(w, e) for w, e in zip(worst, (error, peer, apart))]
        tell(good, f"n={n} k={k} {a} {quant_type} nested={nested:d} bias={bias:d}: error of quern "
             f"{error:.1e}, of bitsandbytes {peer:.1e}, apart {apart:.1e}")
        del layer, exact
        torch.cuda.empty_cache()
    tell(count > 0, f"{count} products, {len(shapes())} shapes of the models: worst of quern "
         f"{worst[0]:.1e}, of bitsandbytes {worst[1]:.1e}, apart {worst[2]:.1e}")
    lead(ours, gate)
    refused = torch.zeros(1, device="cuda")
    address = refused.data_ptr()
    library.cgemm_4bit_bf16(address, address, address, None, None, None, address, None, 1, 64, 64,
                            48, 2, None)
    try:  # what torch asks after its next launch
        refused.add_(1)
        torch.cuda.synchronize()
        tell(False, "a refused call: torch did not learn of it")
    except RuntimeError as error:
        tell("invalid argument" in str(error), f"a refused call: torch says "
             f"{str(error).splitlines()[0]}")


# ---- several processes, and what goes wrong -----------------------------------------------------

CROWD = [f"wq=nf4 n={n} k={k} a=bf16" for n, k in ((1024, 4096), (4096, 1024), (2048, 2048),
                                                  (1536, 2560))]


def use_all(torch, layers, ctx, problems, rows):
    """The worst error of launches of all problems."""
    worst = 0.0
    for text in problems:
        words = dict(w.split("=") for w in text.split())
        n, k = int(words["n"]), int(words["k"])
        operands, weights = layers.layer(words["wq"], n, k, 64, False, False, "bf16")
        op = ctx.op(text, m_max=max(rows))
        for m in rows:
            x = torch.randn(m, k, device="cuda").bfloat16()
            y = torch.full((m, n), float("nan"), device="cuda").bfloat16()
            layers.launch(op, m, a=x, c=y, **operands)
            error = error_of(y, x.double() @ weights.t())
            worst = error if not error <= worst else worst
    return worst


def member():
    """One of the crowd: waits for the file that starts all, and prints what it did."""
    torch, quern, layers = import_all()
    torch.zeros(1, device="cuda")
    print("ready", flush=True)
    sys.stdin.readline()
    with quern.Context(device="cuda") as ctx:
        ctx.prewarm(CROWD, m_max=32)
        worst = use_all(torch, layers, ctx, CROWD, (1, 8, 16, 32))
        print(json.dumps({"worst": worst, **ctx.stats()}))


def crowd():
    with empty_cache():
        running = [subprocess.Popen([sys.executable, __file__, "member"], cwd=TOP, text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for _ in range(8)]
        for p in running:
            p.stdout.readline()
        for p in running:
            p.stdin.write("go\n")
            p.stdin.flush()
        told = []
        for p in running:
            out, _ = p.communicate(timeout=150)
            told.append(json.loads(out.splitlines()[-1]) if p.returncode == 0 else None)
    if not tell(all(told), f"{sum(map(bool, told))} of 8 processes ended well"):
        return
    compiled = sum(t["compile_ok"] for t in told)
    tell(all(t["worst"] <= ERROR["bf16"] for t in told),
         f"worst error of all {max(t['worst'] for t in told):.1e}")
    stored = sum(t["put_ok"] for t in told)
    tell(compiled == stored, f"{stored} kernels, {compiled} compiles by 8 processes at once: "
         f"{[t['compile_ok'] for t in told]}")


def compilers():
    """The compilers of this machine's processes: workers below the workers that supervise them,
    which are nobody's children, so that a host that waits for its own meets none."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = path.read_text().partition(" (")
            name, _, rest = rest.rpartition(") ")
            if name == "quern-worker":
                parents[int(pid)] = int(rest.split()[1])
    return [pid for pid, parent in parents.items() if parent in parents]


def killed():
    """One compiler, in the middle of its work: a text whose compilers die again and again is not
    tried again in the process, which is tests/fault's to show."""
    torch, quern, layers = import_all()
    struck = []

    def strike(stop):
        while not stop.is_set():
            for pid in compilers():
                if not struck:
                    time.sleep(0.05)
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                        struck.append(pid)
            time.sleep(0.005)

    with empty_cache():
        stop = threading.Event()
        striker = threading.Thread(target=strike, args=(stop,), daemon=True)
        striker.start()
        failed = []
        with quern.Context(device="cuda") as ctx:
            for attempt in range(4):
                try:
                    worst = use_all(torch, layers, ctx, CROWD[:2], (1, 16))
                    break
                except quern.Error as error:
                    failed.append(str(error))
            stop.set()
            striker.join()
            stats = ctx.stats()
        tell(len(struck) == 1 and stats["worker_died"] > 0,
             f"{len(struck)} compilers killed, {stats['worker_died']} noticed")
        for text in failed:
            print(f"    told: {text}")
        tell(len(failed) < 4 and worst <= ERROR["bf16"], f"and the same context went on: error "
             f"{worst:.1e}, {stats['compile_ok']} compiled")


def served():
    """Kernels made on a machine without a GPU, by another NVRTC: nothing is compiled here."""
    torch, quern, layers = import_all()
    problems = [f"wq=nf4 n={n} k={k} a=bf16" for n, k in shapes(experts=False)
                if n * k < 1 << 28]
    with quern.Context(device="cuda", cache_dir=HW / "cache", cache_mode="ro", jit="error",
                       cuda_path="/nonexistent") as ctx:
        worst = use_all(torch, layers, ctx, problems, (1, 8, 9, 16, 17, 32, 64))
        stats = ctx.stats()
        tell(worst <= ERROR["bf16"], f"{len(problems)} layers, worst error {worst:.1e}")
        tell(ctx.all_served and not stats["compile_ok"] and not stats["compile_refused"],
             f"all served: {stats['hit_disk']} + {stats['hit_source']} from the cache, "
             f"{stats['compile_ok']} compiled")


# ---- several GPUs -------------------------------------------------------------------------------


def gpus(torch):
    """How many there are; 0 where that is one, which is said."""
    count = torch.cuda.device_count()
    if count < 2:
        print("    one GPU here: what takes several was not tried")
    return count if count > 1 else 0


def devices():
    """One process that uses all GPUs: a context for each, threads, graphs, modules that move."""
    torch, quern, layers = import_all()
    if not (count := gpus(torch)):
        return
    text, shape = "wq=nf4 n=2048 k=1024 a=bf16", (2048, 1024)
    with empty_cache(), contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(quern.Context(device="cuda", index=i))
                    for i in range(count)]
        ops, operands, weights = [], [], []
        for i, ctx in enumerate(contexts):
            ops.append(ctx.op(text, m_max=64))
            with torch.cuda.device(i):
                of_layer, w = layers.layer("nf4", *shape, 64, False, False, "bf16")
            operands.append(of_layer)
            weights.append(w)
        compiled = [ctx.stats()["compile_ok"] for ctx in contexts]
        tell(compiled[0] > 0 and not any(compiled[1:]),
             f"kernels compiled for each of {count} GPUs, of one cache: {compiled}")

        def go(i, m, seed=0):
            with torch.cuda.device(i):
                x = torch.randn(m, shape[1], device="cuda",
                                generator=torch.Generator("cuda").manual_seed(seed)).bfloat16()
                y = torch.full((m, shape[0]), float("nan"), device="cuda").bfloat16()
                layers.launch(ops[i], m, a=x, c=y, **operands[i])
                return error_of(y, x.double() @ weights[i].t())

        torch.cuda.set_device(0)
        worst = max(go(i, m) for m in (1, 8, 16, 64) for i in range(count))
        tell(worst <= ERROR["bf16"] and torch.cuda.current_device() == 0,
             f"launches on all from a thread of GPU 0, which it stays: worst error {worst:.1e}")
        errors = []

        def serve(seed):
            torch.cuda.set_device(seed % count)
            errors.extend(go((seed + step) % count, m, seed)
                          for step in range(8) for m in (1, 5, 16, 33))

        running = [threading.Thread(target=serve, args=(seed,)) for seed in range(4 * count)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        tell(len(errors) == 128 * count and max(errors) <= ERROR["bf16"],
             f"{len(errors)} launches of {4 * count} threads, each on all GPUs in turn: worst "
             f"error {max(errors):.1e}")
        with torch.cuda.device(1):
            x = torch.randn(8, shape[1], device="cuda").bfloat16()
            y, graph = torch.zeros(8, shape[0], device="cuda").bfloat16(), torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                layers.launch(ops[1], 8, a=x, c=y, **operands[1])
            x.copy_(torch.randn_like(x))
            graph.replay()
            torch.cuda.synchronize()
        error = error_of(y, x.double() @ weights[1].t())
        tell(error <= ERROR["bf16"], f"a graph of GPU 1, replayed with new values: {error:.1e}")
        try:
            layers.launch(ops[1], 8, a=x, c=y, **operands[1])
            tell(False, "an op of GPU 1 was launched on a stream of GPU 0")
        except quern.Error as refused:
            tell("current" in str(refused), f"on GPU 0's stream GPU 1's op says: {refused}")
        try:
            ops[0].launch(m=8, a=x, c=y, **operands[0])
            tell(False, "tensors of GPU 1 were taken by an op of GPU 0")
        except ValueError as refused:
            tell(True, f"an op of GPU 0 refuses what is on GPU 1: {refused}")
        linear = quern.replace_linear
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False)
                                      .to(f"cuda:{i}", torch.bfloat16) for i in range(count)))
        report = linear(model, contexts[0], wq="nf4")
        x = torch.randn(4, 1024).bfloat16()
        right = []
        for i, module in enumerate(model):
            given = x.to(f"cuda:{i}")
            y = module(given)
            right.append(y.cpu())
            tell(module.context is contexts[i] and y.device.index == i,
                 f"replace_linear: the layer of GPU {i} is computed by {module.context}")
        moved = model[0].to("cuda:1")
        tell(torch.equal(moved(x.to("cuda:1")).cpu(), right[0]),
             "a QuantizedLinear that is moved to GPU 1 gives the same bits there")
        tell(len(report.replaced) == count, str(report))


def models():
    """A model of transformers that is spread over two GPUs, quantised as it is loaded."""
    torch, quern, _ = import_all()
    if not gpus(torch):
        return
    import transformers
    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1024, vocab_size=1000,
                                      num_hidden_layers=4, num_attention_heads=8,
                                      num_key_value_heads=4)
    torch.manual_seed(1)
    split = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0,
             "model.layers.1": 0, "model.layers.2": 1, "model.layers.3": 1, "model.norm": 1,
             "lm_head": 1}
    with empty_cache(), tempfile.TemporaryDirectory() as directory:
        transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
        saved = pathlib.Path(directory) / "quantised"
        tokens = torch.arange(3, 19).reshape(1, 16)
        logits = {}
        for name, place, where in (("on one GPU", {"": 0}, directory),
                                   ("over two GPUs", split, directory),
                                   ("over two GPUs, saved as quantised", split, saved)):
            words = {} if where == saved else {
                "quantization_config": quern.QuernConfig(wq="int4", group=128)}
            model = transformers.AutoModelForCausalLM.from_pretrained(
                where, dtype=torch.bfloat16, device_map=place, **words)
            with torch.no_grad():
                logits[name] = model(tokens.to("cuda:0")).logits.float().cpu()
            used = {module.context.gpu.index for module in model.modules()
                    if isinstance(module, quern.QuantizedLinear)}
            tell(len(used) == (1 if place == {"": 0} else 2), f"{name}: computed on {used}")
            if place == split:
                tell(torch.equal(logits[name], logits["on one GPU"]),
                     f"{name}: the logits of one GPU")
            if where != saved:
                model.save_pretrained(saved)


def ranks():
    """Tensor parallelism as torchrun's processes do it: one process a GPU, gate and up split by
    columns, down by rows, sums by NCCL."""
    torch, _, _ = import_all()
    if not (count := gpus(torch)):
        return
    with empty_cache() as directory:
        running = [subprocess.Popen(
            [sys.executable, __file__, "rank"], cwd=TOP, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "RANK": str(i), "LOCAL_RANK": str(i), "WORLD_SIZE": str(count),
                 "MEETING": f"file://{directory}/meeting"}) for i in range(count)]
        for i, process in enumerate(running):
            out, _ = process.communicate(timeout=180)
            print(out, end="")
            tell(process.returncode == 0, f"rank {i} ended with {process.returncode}")


def rank():
    torch, quern, _ = import_all()
    own, count = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(own)
    torch.distributed.init_process_group("nccl", os.environ["MEETING"], rank=own,
                                         world_size=count)
    hidden, inner = 2048, 4096
    generator = torch.Generator().manual_seed(7)  # the same weights in every process
    gate, up = (torch.randn(inner, hidden, generator=generator) * 0.02 for _ in range(2))
    down = torch.randn(hidden, inner, generator=generator) * 0.02
    part = slice(own * inner // count, (own + 1) * inner // count)
    with quern.Context() as ctx:
        tell(ctx.gpu == ("cuda", own), f"rank {own}: the context is of {ctx.gpu}")
        first = quern.QuantizedLinear.of(quern.Linear.quantize(
            ctx, torch.cat([gate[part], up[part]]), act="silu_mul", glu="halves", m_max=16))
        second = quern.QuantizedLinear.of(quern.Linear.quantize(ctx, down[:, part], m_max=16))

        def step(x):
            y = second(first(x))
            torch.distributed.all_reduce(y)
            return y

        x = torch.randn(8, hidden, generator=generator).bfloat16().cuda()
        y = step(x)
        text = "wq=nf4 n={} k={} a=bf16"
        exact = [torch.from_numpy(quern.dequantize(text.format(*w.shape), quern.quantize(
            text.format(*w.shape), w.numpy()))).cuda().double() for w in (gate, up, down)]
        h = torch.nn.functional.silu(x.double() @ exact[0].t()) * (x.double() @ exact[1].t())
        error = error_of(y, h @ exact[2].t())
        tell(error <= 2 * ERROR["bf16"], f"rank {own}: gate, up, down and all_reduce: {error:.1e}")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            z = step(x)
        graph.replay()
        torch.cuda.synchronize()
        tell(torch.equal(y, z), f"rank {own}: the same as a CUDA graph")
        del graph
        torch.distributed.destroy_process_group()


# ---- all ----------------------------------------------------------------------------------------

PARTS = {"machine": machine, "demo": demo, "examples": examples, "promises": promises,
         "torch": torch_path, "bitsandbytes": bitsandbytes_path, "crowd": crowd, "killed": killed,
         "served": served, "devices": devices, "models": models, "ranks": ranks}
INNER = {"member": member, "rank": rank}  # processes of crowd and ranks


def unpack():
    if (HW / "kit.tgz").exists():
        subprocess.run(["tar", "-xzf", HW / "kit.tgz"], check=True)
    parts = [HW / f"model.{i}" for i in (0, 1)]
    if all(p.exists() for p in parts) and not MODEL.is_dir():
        whole = HW / "model.tar"
        whole.write_bytes(b"".join(p.read_bytes() for p in parts))
        subprocess.run(["tar", "-xf", whole], check=True)


def run_all(names):
    unpack()
    os.environ["LD_LIBRARY_PATH"] = f"{BUILD / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    report, failed = HW / "report.txt", []
    with open(report, "w", encoding="utf-8") as out:
        for name in names or PARTS:
            begun = time.monotonic()
            out.write(f"== {name}\n")
            out.flush()
            try:
                status = subprocess.run([sys.executable, __file__, name], cwd=TOP, stdout=out,
                                        stderr=out, timeout=SECONDS.get(name, 200)).returncode
            except subprocess.TimeoutExpired:
                status = "too long"
            out.write(f"== {name}: {'good' if status == 0 else f'FAILED ({status})'} after "
                      f"{time.monotonic() - begun:.0f} s\n")
            out.flush()
            failed += [name] if status else []
        out.write(f"== failed: {', '.join(failed) or 'none'}\n")
    text = report.read_text()
    print("\n".join(line for line in text.splitlines() if line.startswith(("==", "BAD"))))
    return bool(failed)


def prepare(arguments):
    """Needs a build with NVRTC (make setup-cuda)."""
    (HW / "zoo").mkdir(parents=True, exist_ok=True)
    for path in sorted((TOP / "cache/models").glob("*.json")):
        status, out, err = output_of(BUILD / "bin/quern", "prewarm", "--model", path, "--wq", "nf4",
                                     "--group", "64", "--a", "bf16", "--target", "sm_90", "--m",
                                     "1-64", "--json", seconds=3000,
                                     QUERN_CACHE_DIR=str(HW / "cache"))
        if status:
            sys.exit(f"hosts_cuda.py: {err}")
        (HW / "zoo" / path.name).write_text(out)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(HW / "kit.tgz", "w:gz") as kit:
        for name in PROGRAMS:
            small = pathlib.Path(scratch) / "small"
            subprocess.run(["strip", "-o", small, BUILD / name], check=True)
            kit.add(small, f"build/release/{name}")
        kit.add(BUILD / "lib/libquern.so.0", "build/release/lib/libquern.so.0")
        linked = output_of("ldd", BUILD / "bin/quern")[1]
        (jansson,) = [line.split()[2] for line in linked.splitlines() if "libjansson" in line]
        kit.add(os.path.realpath(jansson), "build/release/lib/libjansson.so.4")
        for name in ("cache", "zoo"):
            kit.add(HW / name, f"build/hw/{name}")
        if arguments[:1] == ["--bitsandbytes"]:
            kit.add(arguments[1], "build/hw/bitsandbytes")
    if MODEL.is_dir():
        with tarfile.open(HW / "model.tar", "w:gz") as model:
            model.add(MODEL, "build/models/all-MiniLM-L6-v2")
        whole = (HW / "model.tar").read_bytes()
        half = len(whole) // 2
        (HW / "model.0").write_bytes(whole[:half])
        (HW / "model.1").write_bytes(whole[half:])
        (HW / "model.tar").unlink()
    for path in sorted(HW.glob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 2**20:6.1f} MiB {path.relative_to(TOP)}")
    return 0


def main(words):
    os.chdir(TOP)
    if words[:1] == ["prepare"]:
        return prepare(words[1:])
    if words[:1] == ["all"] and set(words[1:]) <= set(PARTS):
        if not pathlib.Path("/dev/nvidiactl").exists():
            print("hosts_cuda.py: no NVIDIA GPU here", file=sys.stderr)
            return 77
        return run_all(words[1:])
    if len(words) == 1 and words[0] in PARTS | INNER:
        (PARTS | INNER)[words[0]]()
        return failures > 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
