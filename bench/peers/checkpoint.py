"""The checkpoints that bench_matrix makes: tensors by name, as arrays."""
import json
import struct

import numpy

TYPES = {"F32": numpy.float32, "F16": numpy.float16, "I8": numpy.int8}
PROMPT, LAST = 128, 256  # decode fills the cache from one to the other


def read(folder):
    with open(f"{folder}/config.json", encoding="utf-8") as f:
        config = json.load(f)
    path = f"{folder}/weights.safetensors"
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(length))
    data = numpy.memmap(path, numpy.uint8, "r", 8 + length)
    tensors = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        array = data[begin:end].view(TYPES[t["dtype"]])
        tensors[name] = array.reshape(t["shape"])
    return config, tensors


def tokens(labels):
    return [(i * 7919 + 13) % labels for i in range(1024)]
