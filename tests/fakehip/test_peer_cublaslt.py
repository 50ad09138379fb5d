# SPDX-License-Identifier: MIT
"""tests/peers/cublaslt.py on fakecuda and its cuBLASLt: the product is numpy's, and a call that
fails says so with its number."""

import ctypes
import os
import pathlib
import subprocess
import sys

import cuda_host
import numpy as np

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers"
N, K, M = 24, 64, 4


def test_a_product():
    env = {**os.environ, "FAKECUDA_DEVICES": "sm_90"}
    done = subprocess.run([sys.executable, __file__], env=env, text=True, capture_output=True,
                          timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libcublasLt.so.12" in done.stderr


def bf16(values):
    """Numbers that bf16 has, in its bits."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def run():
    cuda = cuda_host.Cuda()
    fake = ctypes.CDLL(str(cuda_host.FAKECUDA.with_name("libcublasLt.so.12")))
    sys.path.insert(0, str(PEERS))
    import cublaslt  # finds what the process has loaded
    rng = np.random.default_rng(1)
    w, x = (rng.integers(-4, 5, shape).astype(float) for shape in ((N, K), (M, K)))
    result = np.zeros((M, N), np.uint16)
    places = [ctypes.c_void_p() for _ in range(4)]
    for place, size in zip(places, (w.size * 2, x.size * 2, result.nbytes, cublaslt.WORKSPACE)):
        assert cuda.hipMalloc(ctypes.byref(place), ctypes.c_size_t(size)) == 0
    for place, bits in zip(places, (bf16(w), bf16(x))):
        assert cuda.hipMemcpy(place, bits.ctypes.data_as(ctypes.c_void_p),
                              ctypes.c_size_t(bits.nbytes), 1) == 0
    stream = ctypes.c_void_p()
    assert cuda.hipStreamCreate(ctypes.byref(stream)) == 0
    product = cublaslt.Product(N, K, M)
    (algorithm,) = product.algorithms
    addresses = [place.value for place in places]
    product.run(algorithm, *addresses, stream.value)
    assert cuda.hipStreamSynchronize(stream) == 0
    assert cuda.hipMemcpy(result.ctypes.data_as(ctypes.c_void_p), places[2],
                          ctypes.c_size_t(result.nbytes), 2) == 0
    is_ = (result.astype(np.uint32) << 16).view(np.float32)
    right = x @ w.T
    assert np.abs(right).max() > 100 and np.abs(is_ - right).max() <= np.abs(right).max() / 256
    for function, use in (("Matmul", lambda: product.run(algorithm, *addresses, stream.value)),
                          ("MatmulAlgoGetHeuristic", lambda: cublaslt.Product(N, K, M)),
                          ("MatmulDescSetAttribute", lambda: cublaslt.Product(N, K, M))):
        fake.fakeblas_fail(f"cublasLt{function}".encode(), 1, 13)
        try:
            use()
        except RuntimeError as error:
            assert str(error) == f"cublasLt{function} failed: status 13"
        else:
            raise AssertionError(f"{function} did not fail")


if __name__ == "__main__":
    run()
