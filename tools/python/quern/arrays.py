# SPDX-License-Identifier: MIT
"""Addresses of what callers hand in: numbers, quern's buffers, torch tensors, anything that speaks
DLPack; and conversion of numpy arrays to the element types of kernels."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

# By kind of GPU its DLPack device, kDLROCM and kDLCUDA, and what DLPack calls the default stream.
# Source: dlpack.h, and __dlpack__ in the array API standard.
_DLPACK_GPUS = {"hip": (10, 0), "cuda": (2, 1)}
_CPU = (1, 3, 11)  # kDLCPU and memory that the host pinned


class _DLTensor(ctypes.Structure):
    """Source: dlpack.h 1.0; DLManagedTensor begins with it."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype = ctypes.c_int
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Gpu(NamedTuple):
    """A context's GPU, as other libraries of the process know it."""

    kind: str  # "hip" or "cuda"
    index: int


class Memory(NamedTuple):
    """An address on a device, what is there, and what keeps it valid. What is None is not known."""

    address: int
    nbytes: int | None
    owner: Any
    dtype: str | None = None  # as docs/formats.md names element types
    shape: tuple[int, ...] | None = None


# Elements that are bits to kernels: whoever has no type of their own hands in another of the width.
_WIDTHS = {"u8": 1, "i8": 1, "fp8": 1, "fp8fnuz": 1, "i32": 4, "u32": 4}
# By numpy's and torch's names. Of bf16, numpy has the bits alone.
_TYPE_NAMES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint16": "bf16", "uint8": "u8",
    "int8": "i8", "int32": "i32", "uint32": "u32", "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8fnuz"}
# DLPack's type codes; source: dlpack.h (DLDataTypeCode). 10 and 12 are float8_e4m3fn and _e4m3fnuz.
_DLPACK_TYPES = {
    (0, 8): "i8", (0, 32): "i32", (1, 8): "u8", (1, 16): "bf16", (1, 32): "u32", (2, 16): "f16",
    (2, 32): "f32", (4, 16): "bf16", (10, 8): "fp8", (12, 8): "fp8fnuz"}


def type_name(dtype: Any) -> str:
    """The name of a numpy or torch element type; its own name where kernels have none of it."""
    word = str(dtype).rpartition(".")[2]
    return _TYPE_NAMES.get(word, word)


def check_operand(name: str, dtype: str | None, shape: tuple[int, ...] | None, needed: Any) -> None:
    """Refuses a tensor that is not what the operand `needed` (native.Operand) is: bytes that happen
    to be as many would be read as something else. Flat ones are taken in any shape, as those of
    checkpoints are."""
    wanted = needed.dtype.decode()
    bits = name == "b" and wanted in _WIDTHS and not wanted.startswith("fp8")
    if dtype is not None and dtype != wanted and not bits:
        formats = {wanted, dtype} <= {"fp8", "fp8fnuz"}  # the same bits are other values
        if formats or _WIDTHS.get(dtype, dtype) != _WIDTHS.get(wanted, wanted):
            raise TypeError(f"{name} has elements of {dtype}; expected {wanted}")
    if shape is None or (bits and dtype != wanted):
        return
    given = [size for size in shape if size != 1]
    expected = [size for size in needed.shape[:needed.rank] if size != 1]
    if len(given) > 1 and given != expected:
        raise ValueError(f"{name} has the shape {tuple(shape)}; expected "
                         f"{tuple(needed.shape[:needed.rank])}")


def check_rows(name: str, shape: tuple[int, ...] | None, width: int) -> None:
    """Refuses a tensor of rows that are not `width` long."""
    if shape and len(shape) > 1 and shape[-1] != width:
        raise ValueError(f"{name} has the shape {tuple(shape)}; expected [..., {width}]")


def is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor, without importing torch."""
    return any(t.__module__.partition(".")[0] == "torch" and t.__name__ in ("Tensor", "Parameter")
               for t in type(value).__mro__)


def host_array(value: Any) -> np.ndarray:
    """A numpy array of a numpy array, a tensor or a sequence; bf16 as uint16 bits."""
    if not is_torch(value):
        return np.asarray(value)
    if value.is_meta:
        raise TypeError(f"a tensor of shape {tuple(value.shape)} on the meta device, which has no "
                        "values; expected one that is loaded")
    value = value.detach().cpu().contiguous()
    if _torch_bfloat16(value):
        import torch
        return value.view(torch.int16).numpy().view(np.uint16)
    return value.numpy()


def _torch_bfloat16(tensor: Any) -> bool:
    return str(tensor.dtype).endswith("bfloat16")


def _packed(shape: list[int], strides: list[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def torch_kind(torch: Any) -> str:
    """Which GPUs a build of torch is for; both kinds are "cuda" in its own words."""
    return "hip" if getattr(torch.version, "hip", None) else "cuda"


def _from_dlpack(name: str, value: Any, gpu: Gpu, stream: int) -> Memory:
    kind, device = map(int, value.__dlpack_device__())
    own, default_stream = _DLPACK_GPUS[gpu.kind]
    if kind in _CPU:
        raise TypeError(f"{name} is in host memory; put it on the GPU with Context.buffer")
    if (kind, device) != (own, gpu.index):
        raise ValueError(f"{name} is on DLPack device ({kind}, {device}); expected the context's, "
                         f"({own}, {gpu.index})")
    capsule = value.__dlpack__(stream=stream or default_stream)
    if _capsule_is(capsule, b"dltensor_versioned"):
        pointer = _capsule_pointer(capsule, b"dltensor_versioned")
        tensor = _DLManagedTensorVersioned.from_address(pointer).tensor
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tensor.shape[:tensor.ndim]
    if tensor.strides and not _packed(shape, tensor.strides[:tensor.ndim]):
        raise ValueError(f"{name} has strides {tensor.strides[:tensor.ndim]} for the shape "
                         f"{shape}; expected packed rows")
    dtype = _DLPACK_TYPES.get((tensor.code, tensor.bits),
                              f"DLPack type ({tensor.code}, {tensor.bits})")
    if tensor.lanes != 1:
        raise TypeError(f"{name} has elements of {tensor.lanes} lanes; expected 1")
    nbytes = tensor.bits // 8
    for size in shape:
        nbytes *= size
    return Memory((tensor.data or 0) + tensor.byte_offset, nbytes, capsule, dtype, tuple(shape))


def _from_torch(name: str, value: Any, gpu: Gpu) -> Memory:
    if not value.is_cuda:
        raise TypeError(f"{name} is a tensor on {value.device}; expected one on the context's GPU")
    kind = torch_kind(sys.modules["torch"])
    if (kind, value.device.index) != gpu:
        raise ValueError(f"{name} is on {kind} GPU {value.device.index}; the context is of "
                         f"{gpu.kind} GPU {gpu.index}")
    if not value.is_contiguous():
        raise ValueError(f"{name} is not contiguous; pass .contiguous()")
    return Memory(value.data_ptr(), value.numel() * value.element_size(), value,
                  type_name(value.dtype), tuple(value.shape))


def memory_of(name: str, value: Any, gpu: Gpu | None, stream: int = 0) -> Memory:
    """An operand's address on the context's `gpu`, None for a software device. A number is taken
    for an address."""
    if value is None:
        return Memory(0, None, None)
    if isinstance(value, (int, np.integer)):
        return Memory(int(value), None, None)
    if hasattr(value, "address") and hasattr(value, "nbytes"):
        return Memory(value.address, value.nbytes, value, getattr(value, "dtype", None),
                      getattr(value, "shape", None))
    if isinstance(value, np.ndarray):
        raise TypeError(f"{name} is a numpy array, which is in host memory; put it on the GPU "
                        "with Context.buffer")
    if gpu is None:
        raise TypeError(f"{name} is a {type(value).__name__}; a software GPU takes quern.Buffer "
                        "and addresses in one")
    if is_torch(value):
        return _from_torch(name, value, gpu)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(name, value, gpu, stream)
    raise TypeError(f"{name} is a {type(value).__name__}; expected an address, a quern.Buffer, a "
                    "torch tensor or something with __dlpack__")


# ---- element types ------------------------------------------------------------------------------

STORAGE: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16)}


def to_type(array: np.ndarray, dtype: str, name: str = "the array") -> np.ndarray:
    """An array as packed elements of a kernel's type; bf16 as its bits, rounded to nearest even.
    uint16 and ml_dtypes' bfloat16 arrays are taken as bits of bf16. `name` is for messages."""
    storage = STORAGE[dtype]
    if array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    if array.dtype == np.uint16:
        bits = np.ascontiguousarray(array)
        return bits if dtype == "bf16" else from_type(bits, "bf16").astype(storage)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} has elements of {array.dtype}; expected float16, float32, "
                        "float64, or bf16 as uint16")
    if dtype != "bf16":
        return np.ascontiguousarray(array, storage)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, 0x7FC0, rounded).astype(np.uint16)


def from_type(array: np.ndarray, dtype: str) -> np.ndarray:
    """The values of a kernel's result: float32 for bf16, else the type itself."""
    if dtype != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)
