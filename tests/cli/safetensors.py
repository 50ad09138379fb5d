# SPDX-License-Identifier: MIT
"""Writes safetensors files by the format's description: a header of JSON, then the data."""

import json
import math
import random
import struct

BYTES = {"U8": 1, "I8": 1, "I32": 4, "F16": 2, "BF16": 2, "F32": 4, "I64": 8, "F8_E4M3": 1,
         "F8_E5M2": 1, "F8_E4M3FNUZ": 1, "F4": 0.5}


def header_of(tensors):
    """tensors: name → (dtype, shape[, data]); the header and the data."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, *given) in tensors.items():
        content = given[0] if given else bytes(int(math.prod(shape) * BYTES[dtype]))
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return header, data


def gaussian(shapes):
    """Tensors, from pairs of a name and a shape, of f32 numbers that are the same each time."""
    generator = random.Random(1)
    tensors = {}
    for name, shape in shapes:
        count = math.prod(shape)
        values = [generator.gauss(0, 0.3) for _ in range(count)]
        tensors[name] = ("F32", shape, struct.pack(f"<{count}f", *values))
    return tensors


def write(path, tensors, change=None):
    """`change` may alter the header before it is written. Data begins at a multiple of 8 bytes, as
    in files that the format's own library writes."""
    header, data = header_of(tensors)
    if change:
        change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
