# SPDX-License-Identifier: MIT
"""A GPU, with the kernel cache and the compiler."""

from __future__ import annotations

import ctypes
import dataclasses
import inspect
import os
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Sequence

import numpy as np

from . import _native as native
from .arrays import Gpu, is_torch, torch_kind
from .buffer import Buffer, Handle
from .op import Op

_DEVICES = ("auto", "hip", "sim", "none", "cuda")
_MODES = ("rw", "ro", "off")
_TRUSTS = ("user", "group")
_BLASES = ("auto", "off")
_BASES = ("auto", "on", "off")
_WEIGHTS = ("any", "constant")
_JITS = ("on", "off", "warn", "error")
_LEVELS = ("error", "warn", "info", "debug")
_WARN = 2  # enum quern_log_level
_TOOLCHAINS = ("any", "exact")
_SEALS = ("open", "warn", "fail")
_KINDS = ("begin", "compile", "end")
_REASONS = (None, "absent", "damaged", "foreign", "unreadable", "refused")
_NO_COMPILE, _NO_WAIT, _BASE, _BASE_ONLY = 1, 2, 4, 8  # enum quern_op_flags


def _bytes(text: str | os.PathLike[str] | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _word(words: Sequence[str | None], number: int) -> str | None:
    """The word of a number; of one that a newer library has and this package does not, its digits,
    because an exception here would be raised inside of a callback and lost."""
    return words[number] if 0 <= number < len(words) else str(number)


def _tier(number: int) -> str | None:
    name = native.library.quern_tier_name(number)
    return name.decode() if name else str(number) if number else None


@dataclasses.dataclass(frozen=True)
class Event:
    """Tells how a kernel that the process does not have is obtained. `kind` is "begin", then
    "compile" if it is in no cache, then "end". An op whose kernels are all loaded gives none."""

    kind: str
    problem: str
    kernel: str
    target: str
    key: str  # the key of its entry in caches
    source_key: str  # the key of its source, the same for every compiler
    m_lo: int
    m_hi: int
    reason: str | None  # why it is compiled: absent, damaged, foreign, unreadable or refused
    tier: str | None  # where it came from: bundle, cache or compiler; None: it could not be had
    other_toolchain: bool  # another compiler made it of the same source
    ns: int  # nanoseconds since "begin"
    status: str  # in "end": QUERN_OK, or how it failed

    @classmethod
    def _of(cls, e: Any) -> "Event":
        return cls(
            _word(_KINDS, e.kind - 1), e.problem.decode(), e.kernel.decode(), e.target.decode(),
            e.key.decode(), e.source_key.decode(), e.m_lo, e.m_hi, _word(_REASONS, e.reason),
            _tier(e.tier), bool(e.other_toolchain), e.ns,
            native.library.quern_status_name(e.status).decode())


def _place(given: dict[str, Any]) -> tuple[str | None, int]:
    """The kind of GPU and which of them a context of these options has, None where that is not
    known before it is opened. What is not said is torch's, where the process has torch and that
    sees a GPU: a context of another one could not read its tensors. Of several GPUs it is torch's
    current one, as for torch.device("cuda")."""
    torch = sys.modules.get("torch")
    kind = torch_kind(torch) if torch is not None and torch.cuda.is_available() else None
    named, index = given["device"] or os.environ.get("QUERN_DEVICE"), given["index"]
    if not (named or given["target"] or os.environ.get("QUERN_TARGET")):
        named = kind
    named = None if named == "auto" else named
    if index is None:
        index = torch.cuda.current_device() if kind and named == kind else 0
    return named, native.integer("index", index)


def seal(state: str) -> None:
    """Decides about compiles of all contexts of the process: with "warn" each is logged, with
    "fail" refused, and with "open" allowed again."""
    native.call("quern_seal", native.choose("state", _SEALS, state))


def opened(context: Any) -> "Context":
    """The argument, if it is a context that is not closed."""
    if not isinstance(context, Context):
        raise TypeError(f"context is a {type(context).__name__}; expected a quern.Context")
    _ = context.handle
    return context


def context_of(value: Any, given: "Context") -> "Context":
    """The context with the given one's options of the GPU that a torch tensor is on; the given one
    for what is in host memory."""
    return given.on(value.device.index) if is_torch(value) and value.is_cuda else given


class Context(Handle):
    """One device, the kernel cache and the compiler. With a target and no device it is a software
    GPU of that target, which computes the same bits, slowly; with neither, a GPU of the kind that
    torch uses where the process has it. `index` says which GPU, and is torch's current one if not
    given, without torch the first. What is not given comes from the environment:
    docs/embedding.md. Without `log`, the library's warnings (a bundle that is not used, a cache
    that cannot be written to) are RuntimeWarnings."""

    def __init__(self, target: str | None = None, *, device: str | None = None,
                 index: int | None = None,
                 cache_dir: str | os.PathLike[str] | None = None, cache_mode: str | None = None,
                 cache_trust: str | None = None, blas: str | None = None,
                 base: str | None = None, weights: str | None = None,
                 jit: str | None = None, rocm_path: str | os.PathLike[str] | None = None,
                 cuda_path: str | os.PathLike[str] | None = None,
                 bundle_path: str | None = None,
                 bundle_keys: str | os.PathLike[str] | None = None, toolchain: str | None = None,
                 record: str | os.PathLike[str] | None = None,
                 tuning: str | os.PathLike[str] | None = None,
                 facts: str | os.PathLike[str] | None = None,
                 force: str | None = None, jobs: int = 0,
                 allow_unverified: bool = False, log: Callable[[str, str], None] | None = None,
                 log_level: str | None = None,
                 event: Callable[[Event], None] | None = None) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self._place = _place(self._given)
        kind, index = self._place
        if not (device or os.environ.get("QUERN_DEVICE")):
            device = kind

        def happened(_user: Any, e: Any) -> None:
            if event:
                event(Event._of(e.contents))

        def line(_user: Any, level: int, text: bytes) -> None:
            message = text.decode(errors="replace")
            if log:
                log(_word(_LEVELS, level - 1), message)
            elif opening and level <= _WARN:
                said.append(message)
            elif level <= _WARN:
                warnings.warn(message, RuntimeWarning)

        opening, said = True, []
        self._callbacks: list[Any] = [native.LOG_FUNCTION(line),
                                      native.EVENT_FUNCTION(happened)]
        options = native.Options(
            device=native.choose("device", _DEVICES, device),
            device_index=index,
            target=_bytes(target), cache_dir=_bytes(cache_dir),
            cache_mode=native.choose("cache_mode", _MODES, cache_mode),
            cache_trust=native.choose("cache_trust", _TRUSTS, cache_trust),
            blas=native.choose("blas", _BLASES, blas),
            base=native.choose("base", _BASES, base),
            weights=native.choose("weights", _WEIGHTS, weights),
            jit=native.choose("jit", _JITS, jit), rocm_path=_bytes(rocm_path),
            cuda_path=_bytes(cuda_path),
            bundle_path=_bytes(bundle_path), bundle_keys=_bytes(bundle_keys),
            toolchain=native.choose("toolchain", _TOOLCHAINS, toolchain),
            record=_bytes(record), tuning=_bytes(tuning), facts=_bytes(facts),
            force=_bytes(force), jobs=native.integer("jobs", jobs),
            allow_unverified=int(allow_unverified),
            log=self._callbacks[0], log_level=native.choose("log_level", _LEVELS, log_level))
        if event:
            options.event = self._callbacks[1]
        handle = ctypes.c_void_p()
        try:
            native.call("quern_open", ctypes.byref(options), ctypes.byref(handle))
        finally:
            # here rather than in the callback, where a filter that makes them errors has no effect
            opening = False
            for message in said:
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._freed = handle
        self._owned: list[weakref.finalize] = []
        # at exit, too: what the context owns goes before it
        self._finalizer = weakref.finalize(self, _close, handle, self._owned, self._callbacks)
        info = native.DeviceInfo()
        native.call("quern_ctx_device", handle, ctypes.byref(info))
        self.device_name: str = info.name.decode()
        self.target: str = info.target.decode()
        kind = _word(_DEVICES, info.kind - 1)
        self._kind = kind
        self.gpu: Gpu | None = Gpu(kind, index) if kind in ("hip", "cuda") else None
        with _lock:
            _opened.add(self)

    @classmethod
    def shared(cls, **options: Any) -> "Context":
        """A context that this process opened with these options and has not closed, or a new one.
        It stays open as long as somebody holds it."""
        given = {name: parameter.default
                 for name, parameter in inspect.signature(cls).parameters.items()}
        given.update(options)
        with _lock:  # a GPU must not get two contexts from two threads at once
            return cls._found(given) or cls(**options)

    @classmethod
    def _found(cls, given: dict[str, Any]) -> "Context | None":
        """An open context of these options."""
        return next((context for context in _opened
                     if context._finalizer.alive and context._is_of(given)), None)

    def _is_of(self, given: dict[str, Any]) -> bool:
        """Whether it is what a context with these options would be: the same GPU, however that is
        said, and the same other options."""
        mine, theirs = ({name: value for name, value in options.items()
                         if name not in ("device", "index")} for options in (self._given, given))
        return mine == theirs and _place(given) in (self._place, self.gpu)

    def on(self, index: int) -> "Context":
        """The context with the same options on another GPU of the same kind, shared as `shared`
        says; this one on its own GPU. A context of a software GPU is there for all tensors."""
        _ = self.handle  # a closed one has no others
        if self.gpu is None or self.gpu.index == index:
            return self
        there = {**self._given, "device": self.gpu.kind, "index": index}
        with _lock:
            context = Context._found(there)
            if context is None:
                context = Context(**there)
                # a pickle says what the caller said: its weights say which GPU they are on
                context._given = self._given
            return context

    def __deepcopy__(self, memo: dict[int, Any]) -> "Context":
        """Itself: copies of what is on a GPU are on the same GPU."""
        return self

    def __reduce__(self) -> Any:
        """What pickle keeps: the options, with which another process opens its own."""
        return _shared, (self._given,)

    @property
    def handle(self) -> ctypes.c_void_p:
        """The quern_ctx, for whoever calls the library itself."""
        return self._handle

    def _own(self, finalizer: weakref.finalize) -> None:
        self._owned[:] = [f for f in self._owned if f.alive]
        self._owned.append(finalizer)

    def op(self, problem: str, m_max: int = 8, *, compile: bool = True, wait: bool = True,
           base: bool | str = False) -> Op:
        """The kernels of a problem for 1 to m_max rows; more rows are launched in slices. Compiles
        kernels that are in no cache, unless `compile` is false; returns at once when `wait` is.
        With `base`, base kernels serve until those made to order are there, and with "only" they
        do for ever. Where there is no compiler they serve all the same (`Context(base="off")`:
        then it is an error)."""
        if base not in (False, True, "only"):
            raise ValueError(f"base is {base!r}; expected False, True or 'only'")
        flags = ((0 if compile else _NO_COMPILE) | (0 if wait else _NO_WAIT) |
                 (_BASE_ONLY if base == "only" else _BASE if base else 0))
        p, handle = native.parse(problem), ctypes.c_void_p()
        native.call("quern_op_create_flags", self.handle, ctypes.byref(p),
                    native.integer("m_max", m_max), flags, ctypes.byref(handle))
        return Op(self, p, handle)

    def op_on(self, problem: str, m_max: int, stream: int) -> Op:
        """Like op, for a `stream` that may be capturing: nothing is compiled or loaded if it is."""
        p, handle = native.parse(problem), ctypes.c_void_p()
        native.call("quern_op_create_on", self.handle, ctypes.byref(p),
                    native.integer("m_max", m_max), native.integer("stream", stream),
                    ctypes.byref(handle))
        return Op(self, p, handle)

    def buffer(self, contents: np.ndarray | int, name: str = "buffer") -> Buffer:
        """Makes device memory, with a copy of an array, or of a number of bytes."""
        if isinstance(contents, (int, np.integer)):
            return Buffer(self, int(contents), name=name)
        return Buffer(self, contents.nbytes, name=name).write(contents)

    def prewarm(self, problems: Sequence[str] | str, m_max: int = 8,
                progress: Callable[[int, int, str], bool | None] | None = None) -> None:
        """Fills the cache with the kernels of many problems, or of one. `progress` is told how many
        of how many kernels are done and of which problem; a true result cancels."""
        def told(_user: Any, p: Any) -> int:
            p = p.contents
            return bool(progress and progress(p.done, p.total, p.problem.decode()))

        if isinstance(problems, str):
            problems = [problems]
        parsed = (native.Problem * len(problems))(*(native.parse(p) for p in problems))
        native.call("quern_prewarm", self.handle, parsed, len(problems),
                    native.integer("m_max", m_max), native.PROGRESS_FUNCTION(told), None)

    def preload(self, manifest: str | os.PathLike[str]) -> None:
        """Makes and loads the layers of a manifest, as `record` writes it."""
        native.call("quern_preload", self.handle, _bytes(manifest))

    def stats(self) -> dict[str, int]:
        """Counters since it was opened, by the names of docs/formats.md."""
        names: list[str] = []
        while (name := native.library.quern_stat_name(len(names))) is not None:
            names.append(name.decode())
        values = (ctypes.c_uint64 * len(names))()
        native.call("quern_stats", self.handle, values, len(names))
        return dict(zip(names, values))

    @property
    def all_served(self) -> bool:
        """Whether all kernels since it was opened came from memory, a bundle or the cache: none
        was compiled, could not be, was not allowed to be, or was not loaded by the device."""
        return bool(native.library.quern_all_served(self.handle))

    def close(self) -> None:
        """Frees its ops and buffers and closes it."""
        self._finalizer()

    def __repr__(self) -> str:
        which = f"{self._kind!r}, index={self.gpu.index}" if self.gpu else repr(self._kind)
        state = "open" if self._finalizer.alive else "closed"
        return f"Context(target={self.target!r}, device={which}, {state})"

    def __enter__(self) -> "Context":
        return opened(self)

    def __exit__(self, *_: Any) -> None:
        self.close()


_lock = threading.RLock()
_opened: weakref.WeakSet[Context] = weakref.WeakSet()


def _shared(options: dict[str, Any]) -> Context:
    return Context.shared(**options)


def _close(handle: ctypes.c_void_p, owned: list[weakref.finalize], callbacks: list[Any]) -> None:
    for finalizer in owned:
        finalizer()
    native.library.quern_close(handle)
    callbacks.clear()
