# SPDX-License-Identifier: MIT
"""The Python package on fakecuda: a context of CUDA's, products on a stream of the host's of
int4 and MXFP4, and of a mixture's experts, with the values that numpy says."""

import ctypes
import os
import pathlib
import subprocess
import sys

import cuda_host
import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = (TOP / os.environ.get("B", "build/release")).resolve()
N, K, GROUP, M = 40, 256, 64, 5


def test_layers(tmp_path):
    cuda_host.skip_without_nvrtc()
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUERN_") or "PATH" in k}
    env.update(QUERN_CACHE_DIR=str(tmp_path), FAKECUDA_DEVICES="sm_90",
               LD_LIBRARY_PATH=f"{BUILD / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
               PYTHONPATH=f"{TOP / 'tools/python'}:{os.environ.get('PYTHONPATH', '')}")
    done = subprocess.run([sys.executable, __file__], env=env, text=True, capture_output=True,
                          timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def to_gpu(cuda, array):
    at = ctypes.c_void_p()
    assert cuda.hipMalloc(ctypes.byref(at), ctypes.c_size_t(array.nbytes)) == 0
    assert cuda.hipMemcpy(at, array.ctypes.data_as(ctypes.c_void_p),
                          ctypes.c_size_t(array.nbytes), 1) == 0
    return at


def int4(rng):
    """Operands, and the weights in k's order: codes less the zero point, times the scale."""
    codes = rng.integers(0, 16, (N, K), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.03, (N, K // GROUP)).astype(np.float16)
    zeros = rng.integers(0, 16, (N, K // GROUP), dtype=np.uint8)
    numbers = codes.reshape(N, -1, GROUP).astype(float) - zeros[:, :, None]
    weights = numbers * scales[:, :, None].astype(float)
    return {"b": codes[:, 0::2] | codes[:, 1::2] << 4, "scales": scales, "zeros": zeros}, weights


def mxfp4(rng):
    codes = rng.integers(0, 16, (N, K), dtype=np.uint8)
    scales = rng.integers(120, 126, (N, K // 32), dtype=np.uint8)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    numbers = np.concatenate([values, -values])[codes].reshape(N, -1, 32)
    weights = numbers * np.exp2(scales.astype(float) - 127)[:, :, None]
    return {"b": codes[:, 0::2] | codes[:, 1::2] << 4, "scales": scales}, weights


def run():
    import quern

    cuda, rng = cuda_host.Cuda(), np.random.default_rng(3)
    stream = ctypes.c_void_p()
    assert cuda.hipStreamCreate(ctypes.byref(stream)) == 0
    with quern.Context(device="cuda") as ctx:
        for words, make in ((f"wq=int4 zero=u8 group={GROUP} a=f16", int4),
                            ("wq=mxfp4 a=f16", mxfp4)):
            operands, weights = make(rng)
            a = rng.standard_normal((M, K)).astype(np.float16)
            c = np.full((M, N), np.nan, np.float16)
            on_gpu = {name: to_gpu(cuda, np.ascontiguousarray(array))
                      for name, array in {**operands, "a": a, "c": c}.items()}
            op = ctx.op(f"{words} n={N} k={K}", m_max=8)
            op.launch(m=M, stream=stream.value, **{n: at.value for n, at in on_gpu.items()})
            assert cuda.hipStreamSynchronize(stream) == 0
            assert cuda.hipMemcpy(c.ctypes.data_as(ctypes.c_void_p), on_gpu["c"],
                                  ctypes.c_size_t(c.nbytes), 2) == 0
            right = a.astype(float) @ weights.reshape(N, K).T
            error = np.abs(c - right).max() / np.abs(right).max()
            assert error < 2e-3, (words, error)
        experts(quern, ctx, rng)


def experts(quern, ctx, rng):
    """A mixture: two launches for all experts, with the sums that numpy says."""
    e, top_k, wide, m = 4, 2, 64, 3
    moe = quern.MoE.quantize(
        ctx, rng.standard_normal((e, 2 * wide, K)).astype(np.float32) / 16,
        rng.standard_normal((e, K, wide)).astype(np.float32) / 8, top_k=top_k, wq="mxfp4", a="f16",
        m_max=4)
    arrays = moe.arrays()
    gate_up, down = (quern.dequantize(product.op.problem, {
        key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(name)})
        for name, product in (("gate_up", moe.gate_up), ("down", moe.down)))
    x = rng.standard_normal((m, K)).astype(np.float16)
    ids = np.array([[3, 1], [0, 3], [2, -1]])
    weights = rng.uniform(0.2, 1, (m, top_k)).astype(np.float32)
    right = np.zeros((m, K))
    for t, j in np.argwhere(ids >= 0):
        gate, up = np.split(gate_up[ids[t, j]].astype(float) @ x[t].astype(float), 2)
        product = down[ids[t, j]].astype(float) @ (gate / (1 + np.exp(-gate)) * up)
        right[t] += weights[t, j] * product
    error = np.abs(moe(x, ids, weights) - right).max() / np.abs(right).max()
    assert error < 5e-3, error


if __name__ == "__main__":
    run()
