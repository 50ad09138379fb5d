# SPDX-License-Identifier: MIT
"""Writes safetensors files by the format's description: a header of JSON, then the data."""

import json
import math
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


def write(path, tensors, change=None):
    """`change` may alter the header before it is written."""
    header, data = header_of(tensors)
    if change:
        change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
