# SPDX-License-Identifier: MIT
"""fakecuda by the names of HIP's functions that tests of hosts use, so that the same test runs on
both: a host that uses the first GPU's primary context."""

import ctypes
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
FAKECUDA = ((TOP / os.environ.get("B", "build/release")).resolve() / "lib" / "fakecuda"
            / "libcuda.so.1")
NAMES = {"hipMalloc": "cuMemAlloc_v2", "hipFree": "cuMemFree_v2",
         "hipStreamSynchronize": "cuStreamSynchronize",
         "hipStreamBeginCapture": "cuStreamBeginCapture_v2",
         "hipStreamEndCapture": "cuStreamEndCapture", "hipGraphLaunch": "cuGraphLaunch",
         "fakehip_calls": "fakehip_calls", "fakehip_fail": "fakehip_fail"}


def skip_without_nvrtc():
    """Ends a test that wants kernels for sm_90 where there is no compiler for them; with CI=true it
    goes on, and fails."""
    command = FAKECUDA.parents[2] / "bin" / "quern"
    done = subprocess.run([str(command), "doctor", "--target", "sm_90"], capture_output=True)
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip("no NVRTC; `make setup-cuda` fetches it")


class Cuda:
    """What it has not is looked up in the driver, by NAMES."""

    def __init__(self):
        self.driver = ctypes.CDLL(str(FAKECUDA))
        self.driver.fakehip_calls.restype = ctypes.c_ulong
        assert self.driver.cuInit(0) == 0
        self.hipSetDevice(0)

    def __getattr__(self, name):
        return getattr(self.driver, NAMES[name])

    def hipSetDevice(self, index):
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        error = self.driver.cuDeviceGet(ctypes.byref(handle), index)
        if not error:
            assert self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle) == 0
            error = self.driver.cuCtxSetCurrent(context)
        return error

    def hipMemcpy(self, to, source, nbytes, kind):
        return (self.driver.cuMemcpyHtoD_v2 if kind == 1 else self.driver.cuMemcpyDtoH_v2)(
            to, source, nbytes)

    def hipStreamCreate(self, stream):
        return self.driver.cuStreamCreate(stream, 1)

    def hipGraphInstantiate(self, program, graph, _node, _log, _size):
        return self.driver.cuGraphInstantiateWithFlags(program, graph, ctypes.c_ulonglong(0))

    def hipGetLastError(self):
        return 0  # the driver keeps none
