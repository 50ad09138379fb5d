# SPDX-License-Identifier: MIT
"""What the package uses of torch, on the memory of a HIP runtime given to `install`: tests with it
run the package's way of calling, and show nothing about torch itself. What torch has a kernel for
is a function of the host's on the stream, which the runtime captures like any launch; what waits in
torch is a call that waits here, and breaks a capture."""

import ctypes
import math
import sys
import types

import numpy as np

STORAGE = {"torch.float32": np.float32, "torch.float16": np.float16, "torch.bfloat16": np.uint16,
           "torch.uint8": np.uint8, "torch.int8": np.int8, "torch.int16": np.int16,
           "torch.int32": np.int32, "torch.int64": np.int64}


def install(hip):
    """Makes `import torch` find the stand-in; returns it."""
    torch = types.ModuleType("torch")
    torch.version = types.SimpleNamespace(hip="6.4", cuda=None)

    class DType(str):
        def __str__(self):
            return str.__str__(self)

    for name in STORAGE:
        setattr(torch, name.partition(".")[2], DType(name))

    function_type, kept = ctypes.CFUNCTYPE(None, ctypes.c_void_p), []
    hip.fakehip_host.restype = ctypes.c_void_p

    def on_stream(compute, result, *inputs):
        """Puts result[...] = compute(*inputs) on the stream, of tensors' memory as arrays."""
        arrays = [tensor.memory() for tensor in (result, *inputs)]

        def run(_):
            arrays[0][...] = compute(*arrays[1:])

        kept.append(function_type(run))
        assert hip.hipLaunchHostFunc(stream_of(result.device.index), kept[-1], None) == 0
        return result

    def current():
        index = ctypes.c_int()
        assert hip.hipGetDevice(ctypes.byref(index)) == 0
        return index.value

    class Tensor:
        """Packed, on the current GPU."""

        is_cuda, is_meta = True, False

        def __init__(self, shape, dtype, address=None):
            self.shape, self.dtype = tuple(shape), dtype
            self.device = types.SimpleNamespace(index=current(), type="cuda")
            if address is None:
                pointer = ctypes.c_void_p()
                size = ctypes.c_size_t(max(1, self.numel() * self.element_size()))
                # as torch's allocator, which gives memory while a stream is being captured
                mode = ctypes.c_int(2)
                assert hip.hipThreadExchangeStreamCaptureMode(ctypes.byref(mode)) == 0
                assert hip.hipMalloc(ctypes.byref(pointer), size) == 0
                assert hip.hipThreadExchangeStreamCaptureMode(ctypes.byref(mode)) == 0
                address = pointer.value
            self.address = None
            del self.address  # unlike a quern.Buffer it has none
            self._address = address

        def data_ptr(self):
            return self._address

        def numel(self):
            return math.prod(self.shape)

        def element_size(self):
            return np.dtype(STORAGE[str(self.dtype)]).itemsize

        def is_contiguous(self):
            return True

        def contiguous(self):
            return self

        def detach(self):
            return self

        def cpu(self):
            return OnCpu(self.array())

        def to(self, *what):
            """To a type; a device is its own."""
            for dtype in what:
                if isinstance(dtype, DType) and dtype != self.dtype:
                    return on_stream(lambda own: own.astype(STORAGE[str(dtype)]),
                                     Tensor(self.shape, dtype), self)
            return self

        def clamp(self, low, high):
            return on_stream(lambda own: own.clip(low, high), Tensor(self.shape, self.dtype), self)

        def view(self, *shape):
            shape = shape[0] if isinstance(shape[0], tuple) else shape
            return Tensor(shape, self.dtype, self._address)

        def sum(self, axis, dtype):
            shape = self.shape[:axis] + self.shape[axis + 1:]
            return on_stream(lambda own: own.astype(STORAGE[str(dtype)]).sum(axis),
                             Tensor(shape, dtype), self)

        def memory(self):
            """Where the host finds it, as an array."""
            nbytes = self.numel() * self.element_size()
            host = hip.fakehip_host(ctypes.c_void_p(self._address), ctypes.c_size_t(nbytes))
            return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(host),
                                 STORAGE[str(self.dtype)]).reshape(self.shape)

        def array(self):
            out = np.empty(self.shape, STORAGE[str(self.dtype)])
            assert hip.hipMemcpy(out.ctypes.data_as(ctypes.c_void_p),
                                 ctypes.c_void_p(self._address), ctypes.c_size_t(out.nbytes),
                                 2) == 0
            return out

        def fill(self, array):
            array = np.ascontiguousarray(array, STORAGE[str(self.dtype)])
            assert hip.hipMemcpy(ctypes.c_void_p(self._address),
                                 array.ctypes.data_as(ctypes.c_void_p),
                                 ctypes.c_size_t(array.nbytes), 1) == 0
            return self

    class OnCpu:
        """Of a tensor in host memory as much as is asked of one."""

        is_cuda, is_meta = False, False

        def __init__(self, array):
            self._array, self.shape = array, array.shape
            self.dtype = DType(f"torch.{array.dtype}")

        def detach(self):
            return self

        cpu = contiguous = detach

        def numpy(self):
            return self._array

        def to(self, *_):
            return torch.as_gpu(self._array, self.dtype)

    for kind in (Tensor, OnCpu):
        kind.__module__, kind.__name__, kind.__qualname__ = "torch", "Tensor", "Tensor"
    torch.Tensor = Tensor

    def empty(shape, dtype, device=None):
        with Device(current() if device is None else device):
            return Tensor(shape, dtype)

    torch.empty = empty
    torch.zeros = lambda *words, **more: on_stream(lambda: 0, empty(*words, **more))
    torch.from_numpy = OnCpu
    torch.from_dlpack = lambda value: value.tensor
    torch.as_gpu = lambda array, dtype: Tensor(np.shape(array), dtype).fill(array)

    class Device:
        def __init__(self, device):
            self.index = getattr(device, "index", device)

        def __enter__(self):
            self.before = current()
            assert hip.hipSetDevice(self.index) == 0

        def __exit__(self, *_):
            assert hip.hipSetDevice(self.before) == 0

    streams = {}

    def stream_of(index):
        """The only one of a GPU that anything runs on."""
        if index not in streams:
            with Device(index):
                streams[index] = ctypes.c_void_p()
                assert hip.hipStreamCreate(ctypes.byref(streams[index])) == 0
        return streams[index]

    torch.stream = stream_of(0)
    torch.cuda = types.SimpleNamespace(
        device=Device, is_available=lambda: True, current_device=current, stream_of=stream_of,
        current_stream=lambda device: types.SimpleNamespace(
            cuda_stream=stream_of(device.index).value))

    def custom_op(name, mutates_args):
        assert name in ("quern::linear", "quern::moe") and mutates_args == ()

        def decorate(function):
            function.register_fake = lambda fake: setattr(function, "fake", fake)
            return function

        return decorate

    torch.compiler = types.SimpleNamespace(disable=lambda function: function)
    torch.jit = types.SimpleNamespace(is_tracing=lambda: False)
    torch.library = types.SimpleNamespace(custom_op=custom_op)
    sys.modules["torch"] = torch
    return torch
