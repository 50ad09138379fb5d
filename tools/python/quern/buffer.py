# SPDX-License-Identifier: MIT
"""Memory on a GPU, and what all that the library knows by a handle has in common."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _native as native
from .arrays import type_name

if TYPE_CHECKING:
    from .context import Context

_READ_WRITE = 3  # enum quern_sim_access


class Handle:
    """What the library knows by a handle, which is not used once the object or its context is
    closed: the memory behind it is somebody else's then."""

    _finalizer: weakref.finalize
    _freed: ctypes.c_void_p
    context: "Context"  # of all but a context

    @property
    def _handle(self) -> ctypes.c_void_p:
        if not self._finalizer.alive:
            of = getattr(self, "context", None)
            whose = "'s context" if of is not None and not of._finalizer.alive else ""
            raise ValueError(f"the {type(self).__name__}{whose} is closed")
        return self._freed


class Buffer(Handle):
    """Memory that the context's device sees, for programs that own none. Freed with the object."""

    def __init__(self, context: "Context", nbytes: int, access: int = _READ_WRITE,
                 name: str = "buffer") -> None:
        handle = ctypes.c_void_p()
        native.call("quern_buffer_create", context.handle, nbytes, access, name.encode(),
                    ctypes.byref(handle))
        self.context = context  # keeps the context alive
        self.nbytes = nbytes
        self.dtype: str | None = None  # of the array that was written last, and its shape
        self.shape: tuple[int, ...] | None = None
        self._freed = handle
        self._finalizer = weakref.finalize(self, native.library.quern_buffer_destroy, handle)
        context._own(self._finalizer)

    @property
    def address(self) -> int:
        """Where it is on the device."""
        address: int = native.library.quern_buffer_address(self._handle)
        return address

    def write(self, array: np.ndarray) -> "Buffer":
        """Copies an array, of at most the buffer's size, to its beginning."""
        array = np.ascontiguousarray(array)
        if array.nbytes > self.nbytes:
            raise ValueError(f"{array.nbytes} bytes do not fit in a buffer of {self.nbytes}")
        native.call("quern_buffer_write", self._handle, array.ctypes.data, array.nbytes)
        self.dtype, self.shape = type_name(array.dtype), array.shape
        return self

    def read(self, dtype: Any, shape: Sequence[int]) -> np.ndarray:
        """Waits for the device, and copies elements from the buffer's beginning."""
        array = np.empty(shape, dtype)
        if array.nbytes > self.nbytes:
            raise ValueError(f"{array.nbytes} bytes are asked of a buffer of {self.nbytes}")
        native.call("quern_buffer_read", self._handle, array.ctypes.data, array.nbytes)
        return array

    def close(self) -> None:
        self._finalizer()
