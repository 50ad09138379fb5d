# SPDX-License-Identifier: MIT
"""Kernels of Tensile's libraries (rocBLAS): their names and arguments out of the metadata, and a
launch plan for `quern sim` that multiplies two small matrices with one of them."""

import math
import re
import struct

NT_METADATA = 32  # of "AMDGPU" notes: the metadata in msgpack
PT_NOTE = 4


def unpack(data, at=0):
    """The msgpack value at a place, and where the next one begins; only what metadata has."""
    tag = data[at]
    if tag < 0x80 or tag >= 0xe0:
        return tag - (256 if tag >= 0xe0 else 0), at + 1
    if tag in (0xc2, 0xc3):
        return tag == 0xc3, at + 1
    if 0xcc <= tag <= 0xcf:
        size = 1 << (tag - 0xcc)
        return int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size
    long = {0xd9: 1, 0xda: 2, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}.get(tag, 0)
    count = (int.from_bytes(data[at + 1:at + 1 + long], "big") if long
             else tag & (31 if tag >= 0xa0 else 15))
    at += 1 + long
    if 0xa0 <= tag < 0xc0 or tag in (0xd9, 0xda):
        return data[at:at + count].decode(), at + count
    values = []
    is_map = tag < 0x90 or tag in (0xde, 0xdf)
    for _ in range(count * (2 if is_map else 1)):
        value, at = unpack(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2])) if is_map else values), at


def kernels(path):
    """The metadata of each kernel of a library: linked from many, it has a note for each."""
    data = path.read_bytes()
    (headers,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    for n in range(count):
        kind, _, begin, _, _, size = struct.unpack_from("<IIQQQQ", data, headers + 56 * n)
        at = begin
        while kind == PT_NOTE and at < begin + size:
            name, length, note = struct.unpack_from("<III", data, at)
            at += 12 + (name + 3) // 4 * 4
            if note == NT_METADATA:
                yield from unpack(data, at)[0]["amdhsa.kernels"]
            at += (length + 3) // 4 * 4


class Gemm:
    """D = A * B with a kernel, of one matrix each; index k of A and B first or last in memory as
    the kernel's name says, which has its tile and into how many parts it splits k, too. Parts are
    added to D by atomics, or (`parts`) stored one behind the other, as sums of f32 or i32."""

    def __init__(self, kernel):
        self.kernel, self.name = kernel, kernel[".name"]
        sizes = re.search(r"_MT(\d+)x(\d+)x(\d+)_", self.name).groups()
        self.tile, self.depth = [int(x) for x in sizes[:2]], int(sizes[2])
        self.split = int(re.search(r"_GSU(\d+)", self.name)[1])
        self.parts = self.split if "_GSUAMB" in self.name else 1
        self.a_first = "_Ailk_" in self.name  # rows of A are adjacent
        self.b_first = "_Bjlk_" in self.name  # columns of B are adjacent
        self.set_sizes(1, 1, 1)

    def set_sizes(self, m, n, k):
        self.m, self.n, self.k = m, n, k

    def tiles(self):
        return math.ceil(self.m / self.tile[0]), math.ceil(self.n / self.tile[1])

    def arguments(self, scalar):
        """Pairs of an argument and its words of 4 bytes, or a buffer's name; None where one is
        not known here, or there are more than a plan may have. `scalar` gives a number's words."""
        across, down = self.tiles()
        wgm = int(re.search(r"_WGM(\d+)", self.name)[1])
        remainder = down % wgm or wgm
        of_d = [self.m, self.m * self.n]
        values = {
            "Tensor2dSizeA": [self.m * self.k, 0], "Tensor2dSizeB": [self.n * self.k, 0],
            "AddressD": "d", "AddressC": "c", "AddressA": "a", "AddressB": "b",
            "Alpha": scalar(1), "Beta": scalar(0), "StridesD": of_d, "StridesC": of_d,
            "StridesA": [self.m if self.a_first else self.k, self.m * self.k],
            "StridesB": [self.n if self.b_first else self.k, self.n * self.k],
            "SizesFree": [self.m, self.n, 1], "SizesSum": [self.k], "OrigStaggerUIter": [0],
            "NumWorkGroups0": [across], "NumWorkGroups1": [down], "NumFullBlocks": [down // wgm],
            "WgmRemainder1": [remainder],
            "MagicNumberWgmRemainder1": [(1 << 31) // remainder + 1]}
        names = [argument[".name"] for argument in self.kernel[".args"]]
        last = self.kernel[".args"][-1]
        end = (last[".offset"] + last[".size"] + 7) // 8 * 8
        if (any(name not in values for name in names)
                or end != self.kernel[".kernarg_segment_size"]):
            return None
        return [(name, values[name]) for name in names]

    def plan(self, path, target, scalar, sizes):
        """A launch plan for `quern sim`, of buffers with these sizes in bytes."""
        arguments = []
        for name, value in self.arguments(scalar):
            if isinstance(value, str):
                arguments.append({"name": value, "kind": "pointer"})
            elif len(value) == 2:
                arguments.append({"name": name, "kind": "i64",
                                  "value": value[0] | value[1] << 32})
            else:
                arguments += [{"name": f"{name}{n}", "kind": "u32", "value": word}
                              for n, word in enumerate(value)]
        across, down = self.tiles()
        access = {"a": "r", "b": "r", "c": "r", "d": "rw"}
        return {"quern_plan": 1, "target": target,
                "operands": [{"name": name, "bytes": size, "access": access[name]}
                             for name, size in sizes.items()],
                "launches": [{"object": str(path), "kernel": self.name,
                              "grid": [across, down * self.split, 1],
                              "block": [self.kernel[".max_flat_workgroup_size"], 1, 1],
                              "lds_bytes": 0, "args": arguments}]}
