#!/usr/bin/env python3
"""Each tensor type against gguf-py: rows of random bytes, packed into panels and unpacked again (dump_tensors), are
the numbers that gguf.dequantize gives, to the bit. Random bytes reach every level, scale and exponent; where f16 scales
are infinite or no number, so must the weights be.

usage: tensor_types_test.py --dump dump_tensors
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gguf
import numpy as np

ARGS = argparse.Namespace()
TYPES = ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4").split()
ROWS = 37  # Three panels, the last not full.
ELEMENTS = (256, 768)  # A row: one K block, or several; full units of blocks.
SHORT = (32, 160)  # Of types that store 32 together: units that are not full.


def matrices():
    """(name, type, rows of bytes) of every tensor."""
    random = np.random.default_rng(15)
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        for elements in ELEMENTS + (SHORT if block <= 32 else ()):
            data = random.integers(0, 256, (ROWS, elements // block * size), dtype=np.uint8)
            yield f"{name}.{elements}", kind, data


def dump(tensors):
    """What dump_tensors makes of a file of `tensors`: all numbers, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = pathlib.Path(folder, "types.gguf"), pathlib.Path(folder, "out")
        writer = gguf.GGUFWriter(path, "llama")
        for name, kind, data in tensors:
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        reply = subprocess.run([ARGS.dump, path, out], capture_output=True, text=True, check=False)
        assert reply.returncode == 0, reply.stderr
        return np.fromfile(out, dtype=np.float32)


class TensorTypesTest(unittest.TestCase):
    def test_every_number_equals_gguf_pys(self):
        tensors = list(matrices())
        numbers = dump(tensors)
        begin = 0
        for name, kind, data in tensors:
            with self.subTest(name=name), np.errstate(all="ignore"):
                expected = np.ascontiguousarray(gguf.dequantize(data, kind), dtype=np.float32).ravel()
                actual = numbers[begin:begin + expected.size]
                begin += expected.size
                self.assertEqual(actual.size, expected.size)
                # NaN's sign and payload have no meaning; the sign of zero has one.
                same = (actual.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(actual) & np.isnan(expected))
                wrong = np.flatnonzero(~same)
                self.assertEqual(wrong.size, 0, f"element {wrong[:5]}: {actual[wrong[:5]]}, not {expected[wrong[:5]]}")
                self.assertGreater(np.isfinite(actual).mean(), 0.8)
        self.assertEqual(begin, numbers.size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.parse_args(namespace=ARGS)
    unittest.main(argv=sys.argv[:1])
