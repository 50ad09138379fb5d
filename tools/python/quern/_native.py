# SPDX-License-Identifier: MIT
"""The C interface of include/quern/quern.h and tool.h, as far as this package uses it: structs,
functions, and failures as exceptions. Nothing here is public but Error and
InputError."""

from __future__ import annotations

import ctypes
import operator
import pathlib
from ctypes import (POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64,
                    c_void_p)
from typing import Any

OPERANDS_MAX = 16
TEXT_MAX = 256
GEMM, MOE, MOE_ALIGN = 1, 3, 4  # of enum quern_op_kind
WQ_NONE = 7  # of enum quern_weight
# What a launch hands in and no weights have: a and c, where op=moe has its rows, and what
# op=moe_align makes these of.
OF_A_LAUNCH = ("a", "c", "rows", "experts", "rows_used", "routing", "topk_ids")


class Sized(ctypes.Structure):
    """Every public struct begins with its size; a zero elsewhere means the default."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class ErrorDetail(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char_p), ("stage", c_char_p),
                ("condition", c_char_p), ("log", c_char_p), ("reproduce", c_char_p),
                ("fact", c_char_p), ("remedy", c_char_p)]


class Problem(Sized):
    _fields_ = [("size", c_size_t), ("op", c_int), ("wq", c_int), ("group", c_int32),
                ("scale", c_int), ("zero", c_int), ("a", c_int), ("c", c_int), ("n", c_int64),
                ("k", c_int64), ("bias", c_int32), ("layout", c_int), ("round", c_int),
                ("unused", c_int32), ("exact", c_int), ("unused2", c_int32), ("kernels", c_int),
                ("unused3", c_int32), ("act", c_int), ("glu", c_int), ("experts", c_int32),
                ("top_k", c_int32), ("block_rows", c_int32), ("unused4", c_int32)]


class Event(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("problem", c_char_p), ("kernel", c_char_p),
                ("target", c_char_p), ("key", c_char_p), ("source_key", c_char_p),
                ("m_lo", c_int64), ("m_hi", c_int64), ("reason", c_int), ("tier", c_int),
                ("other_toolchain", c_int), ("ns", c_uint64), ("status", c_int)]


EVENT_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Event))
LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Options(Sized):
    _fields_ = [("size", c_size_t), ("device", c_int), ("device_index", c_int),
                ("target", c_char_p), ("cache_dir", c_char_p), ("cache_max_bytes", c_uint64),
                ("cache_mode", c_int), ("jit", c_int), ("rocm_path", c_char_p),
                ("worker_path", c_char_p), ("jobs", c_int), ("allow_unverified", c_int),
                ("log", LOG_FUNCTION), ("log_user", c_void_p), ("log_level", c_int),
                ("bundle_path", c_char_p), ("toolchain", c_int), ("record", c_char_p),
                ("tuning", c_char_p), ("event", EVENT_FUNCTION), ("event_user", c_void_p),
                ("bundle_keys", c_char_p), ("blas", c_int), ("cache_trust", c_int),
                ("force", c_char_p), ("cuda_path", c_char_p), ("facts", c_char_p), ("base", c_int),
                ("remote", c_char_p), ("remote_keys", c_char_p), ("remote_trust", c_int),
                ("remote_grace_ms", c_int), ("remote_mode", c_int),
                ("remote_sign_key", c_char_p), ("weights", c_int)]


class Args(Sized):
    _fields_ = [("size", c_size_t), ("a", c_void_p), ("b", c_void_p), ("scales", c_void_p),
                ("zeros", c_void_p), ("absmax8", c_void_p), ("code", c_void_p),
                ("offset", c_void_p), ("bias", c_void_p), ("c", c_void_p), ("a_scale", c_void_p),
                ("b_scale", c_void_p), ("workspace", c_void_p), ("lda", c_int64), ("ldc", c_int64),
                ("rows", c_void_p), ("experts", c_void_p), ("rows_used", c_void_p),
                ("routing", c_void_p), ("slots", c_int64), ("topk_ids", c_void_p),
                ("flags", c_uint64)]


class Progress(Sized):
    _fields_ = [("size", c_size_t), ("done", c_size_t), ("total", c_size_t),
                ("problem", c_char_p), ("kernel", c_char_p), ("m_lo", c_int64), ("m_hi", c_int64),
                ("cached", c_int), ("compile_ms", c_double), ("status", c_int)]


PROGRESS_FUNCTION = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Progress))


class Operand(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("rank", c_int), ("shape", c_int64 * 3),
                ("bytes", c_uint64), ("access", c_int), ("weights", c_int)]


class Quantized(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t)]


class DeviceInfo(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("name", ctypes.c_char * 256),
                ("target", ctypes.c_char * 64), ("compute_units", ctypes.c_uint),
                ("clock_ghz", c_double), ("memory_bytes", c_uint64), ("cache_bytes", c_uint64),
                ("runtime", ctypes.c_char * 512), ("runtime_version", c_int)]


# name: (result, arguments). A result of None here is a quern_status, checked by `call`.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "quern_status_name": (c_char_p, [c_int]),
    "quern_last_error": (POINTER(ErrorDetail), []),
    "quern_problem_parse": (None, [c_char_p, POINTER(Problem)]),
    "quern_problem_text": (None, [POINTER(Problem), c_char_p, c_size_t]),
    "quern_problem_operands": (None, [POINTER(Problem), c_int64, POINTER(Operand),
                                      POINTER(c_size_t)]),
    "quern_moe_slots": (None, [POINTER(Problem), c_int64, POINTER(c_int64)]),
    "quern_moe_align": (None, [POINTER(Problem), c_int64, c_void_p, c_void_p, c_void_p, c_void_p]),
    "quern_repack": (None, [POINTER(Problem), c_int, c_void_p, c_void_p]),
    "quern_quantize": (None, [POINTER(Problem), c_void_p, POINTER(Quantized), POINTER(c_size_t)]),
    "quern_quantized_free": (c_void_p, [POINTER(Quantized), c_size_t]),
    "quern_dequantize": (None, [POINTER(Problem), POINTER(Quantized), c_size_t, c_void_p]),
    "quern_open": (None, [POINTER(Options), POINTER(c_void_p)]),
    "quern_close": (c_void_p, [c_void_p]),
    "quern_ctx_device": (None, [c_void_p, POINTER(DeviceInfo)]),
    "quern_op_create_flags": (None, [c_void_p, POINTER(Problem), c_int64, ctypes.c_uint,
                                     POINTER(c_void_p)]),
    "quern_op_create_on": (None, [c_void_p, POINTER(Problem), c_int64, c_void_p,
                                  POINTER(c_void_p)]),
    "quern_op_ready": (c_int, [c_void_p]),
    "quern_op_release": (c_void_p, [c_void_p]),
    "quern_op_launch": (None, [c_void_p, POINTER(Args), c_int64, c_void_p]),
    "quern_op_block_rows": (None, [c_void_p, c_int64, POINTER(c_int)]),
    "quern_op_workspace": (c_size_t, [c_void_p, c_int64]),
    "quern_op_explain": (c_size_t, [c_void_p, c_int64, c_char_p, c_size_t]),
    "quern_prewarm": (None, [c_void_p, POINTER(Problem), c_size_t, c_int64, PROGRESS_FUNCTION,
                             c_void_p]),
    "quern_stats": (None, [c_void_p, POINTER(c_uint64), c_size_t]),
    "quern_all_served": (c_int, [c_void_p]),
    "quern_tier_name": (c_char_p, [c_int]),
    "quern_stat_name": (c_char_p, [c_int]),
    "quern_stat_meaning": (c_char_p, [c_int]),
    "quern_seal": (None, [c_int]),
    "quern_preload": (None, [c_void_p, c_char_p]),
    "quern_buffer_create": (None, [c_void_p, c_size_t, c_int, c_char_p, POINTER(c_void_p)]),
    "quern_buffer_destroy": (c_void_p, [c_void_p]),
    "quern_buffer_address": (c_void_p, [c_void_p]),
    "quern_buffer_write": (None, [c_void_p, c_void_p, c_size_t]),
    "quern_buffer_read": (None, [c_void_p, c_void_p, c_size_t]),
}


class Error(RuntimeError):
    """A failed call; InputError if what was given is wrong. str() is the sentence; the other parts
    are those of struct quern_error."""

    def __init__(self, status: int, name: str, message: str, log: str = "",
                 reproduce: str = "") -> None:
        super().__init__(message)
        self.status = status  # a quern_status
        self.name = name  # its name, e.g. "QUERN_E_ALIGN"
        self.log = log  # the compiler's, or ""
        self.reproduce = reproduce  # a command that shows the failure again, or ""


class InputError(Error, ValueError):
    """A call that failed because of what it was given, a problem's words, a target or an argument,
    as the ValueErrors that the package raises itself."""


Error.__module__ = InputError.__module__ = "quern"  # as named in tracebacks, and imported
_OF_INPUT = ("QUERN_E_ARGUMENT", "QUERN_E_PROBLEM", "QUERN_E_TARGET")


# In place of the library's remedy, which names what C has: of a target that was not given.
_REMEDIES = {"QUERN_E_TARGET": "set Context(target=…) or QUERN_TARGET to a name such as gfx1151"}


def _load() -> ctypes.CDLL:
    """The library of this package, which has its compiler worker beside it; of a package without
    one (a source tree on PYTHONPATH) the one on the loader's path."""
    own = pathlib.Path(__file__).parent / "lib" / "libquern.so.0"
    library = ctypes.CDLL(str(own) if own.exists() else own.name)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = c_int if result is None else result
        function.argtypes = arguments
    return library


library = _load()


def check(status: int) -> None:
    """Raises what the calling thread's last error says, unless the status is success."""
    if status:
        detail = library.quern_last_error().contents
        name = library.quern_status_name(status).decode()
        message, log, reproduce, fact, remedy = (
            (text or b"").decode(errors="replace") for text in (
                detail.message, detail.log, detail.reproduce, detail.fact, detail.remedy))
        if remedy and name in _REMEDIES:
            message = f"{fact}; {_REMEDIES[name]}"
        kind = InputError if name in _OF_INPUT else Error
        raise kind(status, name, message, log, reproduce)


def call(name: str, *arguments: Any) -> None:
    check(getattr(library, name)(*arguments))


def parse(problem: str | Problem) -> Problem:
    if isinstance(problem, Problem):
        return problem
    out = Problem()
    call("quern_problem_parse", problem.encode(), ctypes.byref(out))
    return out


def text_of(problem: Problem) -> str:
    text = ctypes.create_string_buffer(TEXT_MAX)
    call("quern_problem_text", ctypes.byref(problem), text, TEXT_MAX)
    return text.value.decode()


def with_blocks(problem: Problem, block_rows: int) -> Problem:
    """A problem of op=moe that says how many rows its blocks have; another as it is."""
    if problem.op != MOE:
        return problem
    own = Problem.from_buffer_copy(problem)
    own.block_rows = block_rows
    return own


def of_expert(problem: Problem) -> Problem:
    """The op=gemm that one expert of op=moe is; another problem as it is."""
    if problem.op != MOE:
        return problem
    own = Problem.from_buffer_copy(problem)
    own.op, own.experts, own.top_k, own.block_rows = GEMM, 0, 0, 0
    return own


def operands_of(problem: Problem, m: int, block_rows: int = 1) -> dict[str, Operand]:
    """What a launch of m rows takes, by name; of op=moe with blocks of so many rows, on which only
    the lengths of `rows` and `experts` depend."""
    problem = with_blocks(problem, block_rows)
    operands = (Operand * OPERANDS_MAX)()
    count = c_size_t()
    call("quern_problem_operands", ctypes.byref(problem), m, operands, ctypes.byref(count))
    return {o.name.decode(): o for o in operands[:count.value]}


def slots_of(problem: Problem, m: int) -> int:
    """How many slots m rows have at most, of op=moe with block_rows or of op=moe_align."""
    slots = c_int64()
    call("quern_moe_slots", ctypes.byref(problem), m, ctypes.byref(slots))
    return slots.value


def takes_rows(problem: Problem, m: int) -> bool:
    """Whether a launch of op=moe_align takes m rows: there is a most that it takes of choices."""
    slots = c_int64()
    return not library.quern_moe_slots(ctypes.byref(problem), m, ctypes.byref(slots))


def columns_of(problem: Problem) -> int:
    """Columns of C: half of n where gate and up become one."""
    return problem.n // 2 if problem.act else problem.n


def choose(what: str, words: tuple[str, ...], word: str | None) -> int:
    """The number of an enumeration's word; 0, the default, for none."""
    if word is None:
        return 0
    if word not in words:
        raise ValueError(f"{what} is {word!r}; expected one of {', '.join(words)}")
    return words.index(word) + 1


def integer(what: str, value: Any) -> int:
    """An integer of any type, numpy's too. What is none, ctypes would refuse by its position."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}; expected an integer") from None


def version() -> str:
    return "@version@"
