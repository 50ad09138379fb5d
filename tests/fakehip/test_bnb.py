# SPDX-License-Identifier: MIT
"""libquern_bnb.so as bitsandbytes calls its own library: by ctypes, on a HIP runtime of software
GPUs. What depends on being a process's first call runs in a process of its own, by name."""

import ctypes
import os
import pathlib
import resource
import subprocess
import sys

import numpy as np
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = (TOP / os.environ.get("B", "build/release")).resolve()
FAKEHIP = BUILD / "lib" / "fakehip" / "libamdhip64.so.6"
DEVICES = "gfx1151,gfx1100,gfx1036"
INVALID_VALUE = 1  # hipErrorInvalidValue
OK, ARGUMENT, PROBLEM, TARGET, DECLINED, WOULD_COMPILE, CACHE, DEVICE = (
    0, 1, 2, 3, 6, 44, 61, 80)

if __name__ != "__main__":
    pytestmark = pytest.mark.skipif(not FAKEHIP.exists(), reason="no HIP headers for fakehip")

# ---- the host: its memory, its streams, its way to call -----------------------------------------


class Problem(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("words", ctypes.c_int * 7), ("n", ctypes.c_int64),
                ("k", ctypes.c_int64), ("more", ctypes.c_int * 3)]


class Quantized(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def f32_of_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


TYPES = {  # entry point: (to its type, and back)
    "bf16": (bf16, f32_of_bf16, np.uint16),
    "fp16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float32), np.float16),
    "fp32": (lambda x: x.astype(np.float32), lambda x: x, np.float32),
}


class Host:
    """One process with a HIP runtime, quern's entry points and libquern for quantising."""

    def __init__(self, runtime=None):
        self.hip = runtime or ctypes.CDLL(str(FAKEHIP))
        if not runtime:
            self.hip.fakehip_calls.restype = ctypes.c_ulong
        self.bnb = ctypes.CDLL(str(BUILD / "lib" / "libquern_bnb.so"))
        self.quern = ctypes.CDLL(str(BUILD / "lib" / "libquern.so.0"))
        self.bnb.quern_bnb_last_error.restype = ctypes.c_char_p
        for name in TYPES:
            entry = getattr(self.bnb, f"cgemm_4bit_{name}")
            # as bitsandbytes 0.50.2 declares it (backends/cuda/ops.py)
            entry.argtypes = [ctypes.c_void_p] * 8 + [ctypes.c_int32] * 5 + [ctypes.c_void_p]
            entry.restype = None

    def upload(self, array):
        array = np.ascontiguousarray(array)
        address = ctypes.c_void_p()
        assert self.hip.hipMalloc(ctypes.byref(address), ctypes.c_size_t(array.nbytes)) == 0
        assert self.hip.hipMemcpy(address, array.ctypes.data_as(ctypes.c_void_p),
                                  ctypes.c_size_t(array.nbytes), 1) == 0
        return address.value

    def download(self, address, like):
        assert self.hip.hipMemcpy(like.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(address),
                                  ctypes.c_size_t(like.nbytes), 2) == 0
        return like

    def stream(self):
        stream = ctypes.c_void_p()
        assert self.hip.hipStreamCreate(ctypes.byref(stream)) == 0
        return stream

    def error(self):
        return self.bnb.quern_bnb_last_error().decode()


class Layer:
    """Operands of one product on the current device, and the answer in double precision."""

    def __init__(self, host, name, wq, n, k, m, blocksize=64, nested=False, bias=False):
        self.host, self.name, self.sizes = host, name, (m, n, k, blocksize)
        self.quant_type = {"fp4": 1, "nf4": 2}[wq]
        to, back, self.dtype = TYPES[name]
        random = np.random.default_rng(m * n + k)
        scale = "nested" if nested else "f32"
        text = f"wq={wq} group={blocksize} scale={scale} n={n} k={k} a=f32"
        problem, count = Problem(size=ctypes.sizeof(Problem)), ctypes.c_size_t()
        operands = (Quantized * 12)()
        assert host.quern.quern_problem_parse(text.encode(), ctypes.byref(problem)) == 0
        w = np.ascontiguousarray(random.normal(0, 0.05, (n, k)), np.float32)
        pointer = w.ctypes.data_as(ctypes.c_void_p)
        assert host.quern.quern_quantize(
            ctypes.byref(problem), pointer, operands, ctypes.byref(count)) == 0
        assert host.quern.quern_dequantize(ctypes.byref(problem), operands, count, pointer) == 0
        on_gpu = {o.name.decode(): host.upload(
            np.frombuffer(ctypes.string_at(o.data, o.bytes), np.uint8))
            for o in operands[:count.value]}
        a = to(random.normal(0, 1, (m, k)))
        b = to(random.normal(0, 1, n)) if bias else None
        self.reference = back(a).astype(np.float64) @ w.astype(np.float64).T
        if bias:
            self.reference += back(b).astype(np.float64)
        self.out = host.upload(np.full((m, n), 77, self.dtype))
        self.pointers = [host.upload(a), on_gpu["b"], on_gpu["scales"], on_gpu.get("absmax8"),
                         on_gpu.get("code"), on_gpu.get("offset"), self.out,
                         host.upload(b) if bias else None]

    def run(self, stream=None, **other):
        """The call. `other` replaces arguments by their place: p0 … p7, m, n, k, …"""
        names = ("m", "n", "k", "blocksize", "quant_type")
        pointers = [other.get(f"p{i}", p) for i, p in enumerate(self.pointers)]
        numbers = [other.get(x, v) for x, v in zip(names, (*self.sizes, self.quant_type))]
        getattr(self.host.bnb, f"cgemm_4bit_{self.name}")(*pointers, *numbers, stream)
        return self.host.bnb.quern_bnb_last_status()

    def answer(self):
        return self.host.download(self.out, np.empty(self.reference.shape, self.dtype))

    def is_right(self):
        got = TYPES[self.name][1](self.answer()).astype(np.float64)
        return np.abs(got - self.reference).max() <= 5e-3 * np.abs(self.reference).max()

    def is_untouched(self):
        return np.array_equal(self.answer(), np.full(self.reference.shape, 77, self.dtype))


def refused(layer, status, says, **arguments):
    """The call fails as it should: told by HIP's last error, the result left alone."""
    assert layer.run(**arguments) == status, layer.host.error()
    assert says in layer.host.error(), layer.host.error()
    assert layer.host.hip.hipGetLastError() == INVALID_VALUE
    assert layer.is_untouched()


# ---- in this process ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    os.environ["FAKEHIP_DEVICES"] = DEVICES
    os.environ["QUERN_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ.pop("QUERN_MANIFEST", None)
    return Host()


@pytest.mark.parametrize("name,wq,blocksize,nested,bias", [
    ("bf16", "nf4", 64, False, False), ("bf16", "nf4", 64, True, True),
    ("fp16", "fp4", 32, False, True), ("fp16", "nf4", 128, True, False),
    ("fp32", "fp4", 256, True, True), ("fp32", "nf4", 4096, False, False)])
def test_answers(host, name, wq, blocksize, nested, bias):
    k = max(256, blocksize)
    for m, stream in ((1, None), (8, host.stream()), (11, host.stream())):
        layer = Layer(host, name, wq, 48, k, m, blocksize, nested, bias)
        assert layer.run(stream) == OK, host.error()
        assert host.error() == ""
        assert host.hip.hipStreamSynchronize(stream) == 0
        assert layer.is_right()
    assert host.hip.hipGetLastError() == 0


def test_the_current_device_is_the_one_used(host):
    try:
        assert host.hip.hipSetDevice(1) == 0
        layer = Layer(host, "bf16", "nf4", 32, 128, 3)
        assert layer.run() == OK, host.error()
        assert layer.is_right()
        assert host.hip.hipSetDevice(2) == 0  # one that quern has no kernels for
        for _ in range(2):
            assert layer.run() == TARGET
            assert "gfx1036" in host.error()
            assert host.hip.hipGetLastError() == INVALID_VALUE
    finally:
        assert host.hip.hipSetDevice(0) == 0


def test_no_rows_are_no_work(host):
    layer = Layer(host, "fp16", "nf4", 32, 128, 1)
    launches = host.hip.fakehip_calls(b"hipModuleLaunchKernel")
    assert layer.run(m=0) == OK
    assert host.hip.fakehip_calls(b"hipModuleLaunchKernel") == launches
    assert layer.is_untouched()


def test_errors(host):
    layer = Layer(host, "fp16", "nf4", 32, 128, 1)
    refused(layer, ARGUMENT, "quant_type is 3; expected 1 (FP4) or 2 (NF4)", quant_type=3)
    for size in (0, 16, 48, 8192, -64):
        refused(layer, ARGUMENT, f"blocksize is {size}; expected a power of two", blocksize=size)
        refused(layer, ARGUMENT, f"blocksize is {size}; expected", blocksize=size, m=0)
    for size in (0, -128):
        refused(layer, ARGUMENT, f"k is {size}; expected 1 or more", k=size)
        refused(layer, ARGUMENT, f"n is {size} and", n=size)
    refused(layer, ARGUMENT, "m is -1; expected 0 or more", m=-1)
    refused(layer, PROBLEM, "k", k=100)
    refused(layer, ARGUMENT, "without absmax_8bit", p4=layer.pointers[2])
    refused(layer, ARGUMENT, "without absmax_8bit", p5=layer.pointers[2])
    refused(layer, ARGUMENT, "args.b is null", p1=None)
    refused(layer, ARGUMENT, "args.code is null", p3=layer.pointers[2])
    refused(layer, 4, "multiple of 16", p0=layer.pointers[0] + 2)
    host.hip.fakehip_fail(b"hipModuleLaunchKernel", 1, 719)
    refused(layer, DEVICE, "hipModuleLaunchKernel failed")
    assert layer.run() == OK  # and none of it lasts
    assert host.error() == "" and layer.is_right()
    assert host.hip.hipGetLastError() == 0


def test_capture(host):
    known = Layer(host, "bf16", "nf4", 40, 128, 2)
    more = Layer(host, "bf16", "nf4", 40, 128, 19)
    unknown = Layer(host, "bf16", "nf4", 24, 192, 1)
    stream = host.stream()
    graph, program = ctypes.c_void_p(), ctypes.c_void_p()
    assert known.run(stream) == OK
    assert host.hip.hipStreamSynchronize(stream) == 0
    for layer in (known, more):  # spoil the results
        host.hip.hipMemcpy(ctypes.c_void_p(layer.out), ctypes.c_void_p(layer.pointers[0]),
                           ctypes.c_size_t(layer.reference.size * 2), 3)
    assert host.hip.hipStreamBeginCapture(stream, 0) == 0
    assert known.run(stream) == OK
    assert more.run(stream) == OK, host.error()  # the kernels that are loaded serve more rows
    loads = host.hip.fakehip_calls(b"hipModuleLoadData")
    assert unknown.run(stream) == WOULD_COMPILE
    assert "captured" in host.error()
    assert host.hip.hipGetLastError() == INVALID_VALUE
    assert host.hip.fakehip_calls(b"hipModuleLoadData") == loads
    assert host.hip.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0  # it went on
    assert not known.is_right() and not more.is_right()
    assert host.hip.hipGraphInstantiate(ctypes.byref(program), graph, None, None, 0) == 0
    assert host.hip.hipGraphLaunch(program, stream) == 0
    assert host.hip.hipStreamSynchronize(stream) == 0
    assert known.is_right() and more.is_right() and unknown.is_untouched()
    assert unknown.run(stream) == OK
    assert host.hip.hipStreamSynchronize(stream) == 0
    assert unknown.is_right()


# ---- in a process of its own --------------------------------------------------------------------


def scenario(name, tmp_path, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_")}
    env.update(QUERN_CACHE_DIR=str(tmp_path / "cache"), FAKEHIP_DEVICES=DEVICES, **environment)
    if "QUERN_ROCM_PATH" in os.environ:
        env["QUERN_ROCM_PATH"] = os.environ["QUERN_ROCM_PATH"]
    done = subprocess.run([sys.executable, __file__, name], env=env, text=True,
                          capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_manifest_is_made_before_the_first_launch(tmp_path):
    manifest = tmp_path / "layers"
    manifest.write_text(
        "# a model\ntarget=gfx1151 m=1-8 wq=nf4 n=40 k=128 a=bf16\n"
        "wq=nf4 n=32 k=128 a=f16\ntarget=gfx1100 wq=nf4 n=4096 k=4096 a=f32\n")
    assert manifest_scenario_says(tmp_path, manifest) == ""
    # what cannot be made is said, with its line, and keeps nothing else from being made
    manifest.write_text("wq=nf4 n=0 k=128 a=bf16\n" + manifest.read_text())
    said = manifest_scenario_says(tmp_path, manifest)
    assert said.count("\n") == 1 and f"{manifest}: line 1: " in said
    said = manifest_scenario_says(tmp_path, tmp_path / "none", lines=1)
    assert "QUERN_MANIFEST: the manifest" in said and "cannot be read" in said


def manifest_scenario_says(tmp_path, manifest, lines=3):
    return scenario(f"manifest{lines}", tmp_path, QUERN_MANIFEST=str(manifest))


def run_manifest3():
    host = Host()
    other = Layer(host, "fp32", "nf4", 16, 64, 1)
    assert other.run() == OK, host.error()
    loads = host.hip.fakehip_calls(b"hipModuleLoadData")
    assert loads > 4  # of the layer that ran, and of two more
    stream = host.stream()
    preloaded = [Layer(host, "bf16", "nf4", 40, 128, 8), Layer(host, "fp16", "nf4", 32, 128, 3)]
    assert host.hip.hipStreamBeginCapture(stream, 0) == 0
    for layer in preloaded:
        assert layer.run(stream) == OK, host.error()
    assert host.hip.hipStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == 0
    assert host.hip.fakehip_calls(b"hipModuleLoadData") == loads


def run_manifest1():
    host = Host()
    layer = Layer(host, "fp32", "nf4", 16, 64, 1)
    assert layer.run() == OK and layer.is_right()


def test_first_call_in_a_capture(tmp_path):
    said = scenario("capture_first", tmp_path)
    assert said.count("\n") == 1, said  # the first of its kind
    assert said.startswith("quern: cgemm_4bit_bf16 (m=1 n=16 k=64 blocksize=64 quant_type=2): ")
    assert "QUERN_E_WOULD_COMPILE" in said


def run_capture_first():
    host = Host()
    layer = Layer(host, "bf16", "nf4", 16, 64, 1)
    stream = host.stream()
    assert host.hip.hipStreamBeginCapture(stream, 0) == 0
    for _ in range(3):
        assert layer.run(stream) == WOULD_COMPILE
        assert host.hip.hipGetLastError() == INVALID_VALUE
    assert layer.run(None) == WOULD_COMPILE  # the null stream may not even be asked about
    assert host.hip.hipStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p())) == 0
    assert layer.is_untouched()
    assert layer.run(stream) == OK, host.error()
    assert host.hip.hipStreamSynchronize(stream) == 0
    assert layer.is_right()


def test_what_passes_is_not_remembered(tmp_path):
    scenario("passing", tmp_path)


def run_passing():
    host = Host()
    layer = Layer(host, "bf16", "nf4", 16, 64, 1)
    held = []
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit[1]))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(2):
        assert layer.run() not in (OK, TARGET)
        assert layer.is_untouched()
    for fd in held:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert layer.run() == OK, host.error()
    assert layer.is_right()


def test_a_cache_that_is_mounted_later_is_used(tmp_path):
    volume = tmp_path / "volume"
    volume.write_text("a volume that is not mounted yet")
    scenario("mounted", tmp_path, VOLUME=str(volume))


def run_mounted():
    os.environ["QUERN_CACHE_DIR"] = os.environ["VOLUME"] + "/cache"
    host = Host()
    layer = Layer(host, "bf16", "nf4", 16, 64, 1)
    assert layer.run() == OK and layer.is_right(), host.error()
    os.unlink(os.environ["VOLUME"])
    os.mkdir(os.environ["VOLUME"])
    layer = Layer(host, "bf16", "nf4", 32, 64, 1)
    assert layer.run() == OK and layer.is_right(), host.error()
    assert list(pathlib.Path(os.environ["QUERN_CACHE_DIR"]).glob("v1/objects/*/*"))


def test_no_compiling_where_it_is_off(tmp_path):
    assert "QUERN_JIT" in scenario("jit_off", tmp_path, QUERN_JIT="off")


def run_jit_off():
    refused(Layer(Host(), "bf16", "nf4", 16, 64, 1), WOULD_COMPILE, "compiling is off")


def test_no_runtime_in_the_process(tmp_path):
    assert "no HIP runtime (libamdhip64) and no CUDA driver" in scenario("no_runtime", tmp_path)


def run_no_runtime():
    bnb = ctypes.CDLL(str(BUILD / "lib" / "libquern_bnb.so"))
    bnb.cgemm_4bit_fp32(*[ctypes.c_void_p(16)] * 8, 1, 16, 64, 64, 2, None)
    assert bnb.quern_bnb_last_status() == DEVICE


def test_on_cuda(tmp_path):
    """The same library in a process that has the CUDA driver, and no HIP runtime."""
    import cuda_host
    cuda_host.skip_without_nvrtc()
    said = scenario("cuda", tmp_path, FAKECUDA_DEVICES="sm_80,sm_90").splitlines()
    assert len(said) == 2 and "captured" in said[0] and "sm_80" in said[1], said


def run_cuda():
    import cuda_host
    cuda = cuda_host.Cuda()
    host, stream = Host(cuda), None
    assert cuda.hipSetDevice(1) == 0  # which is not the first, and whose handle is neither 0 nor 1
    for name, wq, blocksize, nested, bias, m in (
            ("bf16", "nf4", 64, False, False, 1), ("fp16", "nf4", 64, True, True, 9),
            ("bf16", "fp4", 128, False, True, 17), ("fp32", "fp4", 32, True, False, 2)):
        stream = host.stream()
        layer = Layer(host, name, wq, 48, 256, m, blocksize, nested, bias)
        assert layer.run(stream) == OK, host.error()
        assert cuda.hipStreamSynchronize(stream) == 0
        assert layer.is_right()
    known, unknown = Layer(host, "bf16", "nf4", 40, 128, 2), Layer(host, "bf16", "nf4", 24, 192, 1)
    graph, program = ctypes.c_void_p(), ctypes.c_void_p()
    assert known.run(stream) == OK
    assert cuda.hipStreamSynchronize(stream) == 0
    cuda.hipMemcpy(ctypes.c_void_p(known.out), np.full_like(known.answer(), 77).ctypes.data_as(
        ctypes.c_void_p), ctypes.c_size_t(known.reference.size * 2), 1)
    assert cuda.hipStreamBeginCapture(stream, 0) == 0
    assert known.run(stream) == OK, host.error()
    assert unknown.run(stream) == WOULD_COMPILE and "captured" in host.error()
    assert cuda.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert known.is_untouched() and unknown.is_untouched()
    assert cuda.hipGraphInstantiate(ctypes.byref(program), graph, None, None, 0) == 0
    assert cuda.hipGraphLaunch(program, stream) == 0
    assert cuda.hipStreamSynchronize(stream) == 0
    assert known.is_right()
    assert cuda.hipSetDevice(0) == 0  # one that nothing has verified
    other = Layer(host, "bf16", "nf4", 16, 64, 1)
    assert other.run() == DECLINED and other.is_untouched()


def test_how_the_guide_says_to_use_it(tmp_path):
    path = str(BUILD / "lib") + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    assert scenario("guide", tmp_path, LD_LIBRARY_PATH=path) == ""


def run_guide():
    """The guide's lines, with a stand-in for bitsandbytes' loader, which needs torch: an object
    that looks entry points up in its library, and keeps what is set."""
    import types

    class Native:
        def __getattr__(self, name):
            raise AssertionError(f"bitsandbytes' own {name} was used")

    loader = types.ModuleType("bitsandbytes.cextension")
    loader.lib = Native()
    sys.modules["bitsandbytes"] = types.ModuleType("bitsandbytes")
    sys.modules["bitsandbytes.cextension"] = loader
    gate = types.ModuleType("bitsandbytes.backends.cuda")
    gate.ops = types.SimpleNamespace(_gemm_4bit_use_custom_fn=None)
    sys.modules["bitsandbytes.backends"] = types.ModuleType("bitsandbytes.backends")
    sys.modules["bitsandbytes.backends.cuda"] = gate
    guide = (TOP / "docs" / "bitsandbytes.md").read_text()
    blocks = [block.split("```")[0] for block in guide.split("```python\n")[1:]]
    (code,) = [block for block in blocks if "libquern_bnb.so" in block]
    exec(code, {})
    assert [gate.ops._gemm_4bit_use_custom_fn(0, None, rows, 8, 64) for rows in (1, 64, 65)] == [
        True, True, False]
    host = Host()
    for name in TYPES:
        layer = Layer(host, name, "nf4", 16, 64, 2)
        getattr(loader.lib, f"cgemm_4bit_{name}")(*layer.pointers, *layer.sizes, 2, None)
        assert layer.is_right()


if __name__ == "__main__":
    globals()[f"run_{sys.argv[1]}"]()
