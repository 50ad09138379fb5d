# SPDX-License-Identifier: MIT
"""Products of bf16 by cuBLASLt, which sweep_cuda.py times: y = x · wᵀ by each of the algorithms
that the library's heuristics rank first. Importing this raises OSError where there is no cuBLASLt.

The library is the one that the process has loaded already, as torch's, else that of NVIDIA's Python
packages, else the loader's. Functions, numbers and the struct are those of cublasLt.h, cublas_api.h
and library_types.h of CUDA 12 and 13. It stores matrices by columns, so that what is a row-major
[M,N] here is an N by M one there: its first operand is w, transposed, and its second x, which is
how torch calls it for torch.matmul(x, w.t()).
"""
import ctypes
import functools
import pathlib
import sys
from ctypes import POINTER, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

WORKSPACE = 32 << 20  # bytes that an algorithm may ask for, and that `run` is given
ALGORITHMS = 10       # that the heuristics are asked for
R_32F, R_16BF = 0, 14            # cudaDataType_t
COMPUTE_32F = 68                 # cublasComputeType_t
OP_N, OP_T = 0, 1                # cublasOperation_t
DESC_TRANSA, DESC_TRANSB = 3, 4  # cublasLtMatmulDescAttributes_t
PREF_MAX_WORKSPACE_BYTES = 1     # cublasLtMatmulPreferenceAttributes_t


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t. Where `state` is not 0 nothing else of it is valid."""
    _fields_ = [("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int),
                ("waves", c_float), ("reserved", c_int * 4)]


# By the name behind "cublasLt"; each gives a status. Without types ctypes would pass an address
# that is a Python number as an int of 32 bits.
PARAMETERS = {
    "Create": [POINTER(c_void_p)],
    "MatmulDescCreate": [POINTER(c_void_p), c_int, c_int],
    "MatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "MatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "MatmulPreferenceCreate": [POINTER(c_void_p)],
    "MatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "MatmulAlgoGetHeuristic": [c_void_p] * 7 + [c_int, POINTER(Heuristic), POINTER(c_int)],
    "Matmul": [c_void_p, c_void_p, POINTER(c_float)] + [c_void_p] * 4 + [POINTER(c_float)]
              + [c_void_p] * 4 + [POINTER(Heuristic), c_void_p, c_size_t, c_void_p],
}


def places(maps=pathlib.Path("/proc/self/maps")):
    """Where the library may be, the likeliest place first."""
    for line in maps.read_text().splitlines() if maps.exists() else ():
        words = line.split(maxsplit=5)
        if len(words) == 6 and pathlib.Path(words[5]).name.startswith("libcublasLt.so"):
            yield words[5]
    for folder in sys.path:
        for package in ("nvidia/cu13/lib", "nvidia/cublas/lib"):
            yield from map(str, sorted(pathlib.Path(folder, package).glob("libcublasLt.so.*")))
    yield from ("libcublasLt.so.13", "libcublasLt.so.12")


def load():
    for place in places():
        try:
            library = ctypes.CDLL(place)
        except OSError as error:
            missing = error
            continue
        for name, parameters in PARAMETERS.items():
            function = getattr(library, "cublasLt" + name)
            function.argtypes, function.restype = parameters, c_int
        return library
    raise missing


library = load()


def call(name, *arguments):
    status = getattr(library, "cublasLt" + name)(*arguments)
    if status:
        raise RuntimeError(f"cublasLt{name} failed: status {status}")


def made(name, *arguments):
    """What a function creates: an address."""
    out = c_void_p()
    call(name, ctypes.byref(out), *arguments)
    return out


def set_attribute(name, what, attribute, value):
    call(name, what, attribute, ctypes.byref(value), ctypes.sizeof(value))


@functools.cache
def handle():
    """The process's handle. Says once which library it is, as figures depend on its version."""
    version = getattr(library, "cublasLtGetVersion", lambda: "unknown")()
    print(f"cublaslt.py: version {version}, {library._name}", file=sys.stderr)
    return made("Create")


class Product:
    """y[m,n] = x[m,k] · w[n,k]ᵀ, all of bf16 and without gaps. `algorithms` has the heuristics'
    results, best first. Its descriptors, some hundred bytes, live as long as the process."""

    def __init__(self, n, k, m):
        self.desc = made("MatmulDescCreate", COMPUTE_32F, R_32F)
        set_attribute("MatmulDescSetAttribute", self.desc, DESC_TRANSA, c_int32(OP_T))
        set_attribute("MatmulDescSetAttribute", self.desc, DESC_TRANSB, c_int32(OP_N))
        self.w, self.x, self.y = (made("MatrixLayoutCreate", R_16BF, rows, columns, rows)
                                  for rows, columns in ((k, n), (k, m), (n, m)))
        preference, found = made("MatmulPreferenceCreate"), c_int()
        set_attribute("MatmulPreferenceSetAttribute", preference, PREF_MAX_WORKSPACE_BYTES,
                      c_uint64(WORKSPACE))
        results = (Heuristic * ALGORITHMS)()
        call("MatmulAlgoGetHeuristic", handle(), self.desc, self.w, self.x, self.y, self.y,
             preference, ALGORITHMS, results, ctypes.byref(found))
        self.algorithms = [r for r in results[:found.value] if r.state == 0]
        self.one, self.zero = c_float(1), c_float(0)

    def run(self, algorithm, w, x, y, workspace, stream):
        """Launches a product by one of `algorithms`; what follows it are addresses."""
        call("Matmul", handle(), self.desc, self.one, w, self.w, x, self.x, self.zero, y, self.y, y,
             self.y, algorithm, workspace, WORKSPACE, stream)
