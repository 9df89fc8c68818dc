#!/usr/bin/env python3
"""The kernels of GPUs through NVIDIA's compiler, NVRTC, which needs no GPU: it accepts each of them, and contracts,
flushes and approximates nothing. It installs NVRTC into a temporary folder.

usage: gpu_nvrtc_test.py --program print_kernels     (./test --suite gpu)
"""
import argparse
import ctypes
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REQUIREMENTS = pathlib.Path(__file__).with_name("gpu_nvrtc_requirements.txt")
ARCHITECTURES = (75, 90)
ARGS = argparse.Namespace()
UNUSED = "--diag-suppress=177"  # Every source has all helper functions.
# Without a rounding the assembler may contract them; the others are no IEEE 754 or no f32.
INEXACT = re.compile(r"\b(?:(?:mul|add|sub|div|sqrt|fma|mad)\.f32|\S*\.(?:ftz|approx|full)\S*|\S*\.f64|(?:ex2|lg2|sin|cos|rsqrt)\.\S+)")
PROBE = """extern "C" __global__ void probe(float *x, float a, float b, float c) {
  x[0] = a * b + c;
  x[1] = __fmaf_rn(a, b, c);
  x[2] = a / b;
  x[3] = __fsqrt_rn(c);
}"""


class Compiler:
    def __init__(self, folder):
        (path,) = (path for path in pathlib.Path(folder).rglob("libnvrtc.so.*"))
        self.nvrtc = ctypes.CDLL(str(path))

    def result(self, program, what):
        size = ctypes.c_size_t()
        assert getattr(self.nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert getattr(self.nvrtc, f"nvrtcGet{what}")(program, text) == 0
        return text.raw

    def text(self, program, what):
        return self.result(program, what).rstrip(b"\0").decode()

    def compile(self, source, architecture, options, binary=False):
        """The PTX, or the device's own instructions; or None; and what the compiler says."""
        words = [f"--gpu-architecture={'sm' if binary else 'compute'}_{architecture}", *options]
        program = ctypes.c_void_p()
        assert self.nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"test.cu", 0, None, None) == 0
        try:
            given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
            error = self.nvrtc.nvrtcCompileProgram(program, len(words), given)
            log = self.text(program, "ProgramLog")
            if error:
                return None, log
            return self.result(program, "CUBIN") if binary else self.text(program, "PTX"), log
        finally:
            self.nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


class NvrtcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                        "--require-hashes", "--target", folder.name, "-r", str(REQUIREMENTS)], check=True)
        cls.compiler = Compiler(folder.name)
        printed = json.loads(subprocess.run([ARGS.program], stdout=subprocess.PIPE, check=True).stdout)
        cls.options, cls.sources = printed["options"], printed["sources"]

    def test_every_kernel_compiles_and_is_exact(self):
        self.assertGreaterEqual(len(self.sources), 18)  # Two of rows and attention, and one of each type of weights.
        for name, source in self.sources.items():
            for architecture in ARCHITECTURES:
                with self.subTest(source=name, architecture=architecture):
                    ptx, log = self.compiler.compile(source["text"], architecture, [*self.options, UNUSED])
                    self.assertIsNotNone(ptx, log)
                    self.assertEqual(log, "")
                    entries = re.findall(r"\.visible \.entry (\w+)\(", ptx)
                    self.assertEqual(sorted(entries), sorted(source["kernels"]))
                    self.assertEqual(INEXACT.findall(ptx), [])

    def test_every_source_becomes_instructions(self):
        for name, source in self.sources.items():
            with self.subTest(source=name):
                binary, log = self.compiler.compile(source["text"], ARCHITECTURES[-1], [*self.options, UNUSED], binary=True)
                self.assertIsNotNone(binary, log)
                self.assertEqual(log, "")
                self.assertEqual(binary[:4], b"\x7fELF")
                for kernel in source["kernels"]:
                    self.assertIn(f".text.{kernel}".encode(), binary)

    def test_the_options_keep_operations_apart(self):
        ptx, log = self.compiler.compile(PROBE, 75, self.options)
        self.assertIsNotNone(ptx, log)
        for operation in ("mul", "add", "fma", "div", "sqrt"):
            self.assertEqual(ptx.count(f"{operation}.rn.f32"), 1, operation)
        self.assertEqual(INEXACT.findall(ptx), [])

    def test_without_them_it_would_be_seen(self):
        ptx, _ = self.compiler.compile(PROBE, 75, ["--use_fast_math"])
        self.assertGreater(len(INEXACT.findall(ptx)), 0)
        ptx, _ = self.compiler.compile(PROBE, 75, ["--fmad=true"])
        self.assertEqual(ptx.count("mul.rn.f32"), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
