#!/usr/bin/env python3
"""Writes a model's first layers, with its vocabulary, embeddings and output matrix, as a GGUF file of its own: for tests
that compute much and read no text.

usage: short_model.py MODEL.gguf OUT.gguf [--layers N]
"""
import argparse
import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
from gguf_metadata import GgufReader  # pylint: disable=wrong-import-position

ALIGNMENT = 32


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def shorten(data, layers):
    reader = GgufReader(data)
    begin = reader.at
    metadata = reader.metadata()
    assert "general.alignment" not in metadata
    head = bytearray(data[begin:reader.at])
    _, end = metadata["llama.block_count"]
    struct.pack_into("<I", head, end - 4 - begin, layers)

    tensors = []  # Layer (-1: none), bytes of the description without the offset, offset.
    for _ in range(reader.num_tensors):
        begin = reader.at
        layer = re.match(r"blk\.(\d+)\.", reader.text())
        rank, = reader.numbers("I")
        reader.numbers(f"{rank}QI")
        description = data[begin:reader.at]
        tensors.append((int(layer[1]) if layer else -1, description, *reader.numbers("Q")))
    start = reader.at + -reader.at % ALIGNMENT
    offsets = sorted(offset for _, _, offset in tensors) + [len(data) - start]

    kept = [(description, offset) for layer, description, offset in tensors if layer < layers]
    infos, body = b"", bytearray()
    for description, offset in kept:
        infos += description + struct.pack("<Q", len(body))
        body += padded(data[start + offset:start + offsets[offsets.index(offset) + 1]])
    return padded(struct.pack("<4sIQQ", b"GGUF", 3, len(kept), len(metadata)) + head + infos) + body


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--layers", type=int, default=8)
    args = parser.parse_args()
    pathlib.Path(args.out).write_bytes(shorten(pathlib.Path(args.model).read_bytes(), args.layers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
