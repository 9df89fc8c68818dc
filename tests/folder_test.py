#!/usr/bin/env python3
"""Models that are no single GGUF file: a folder in Hugging Face's format says the same as the GGUF file of the same
weights, weights that are quantised when they are loaded are those of gguf-py to the bit, a split file is the whole one.

usage: folder_test.py --ropeway PROGRAM --dump dump_model --maker make_tiny_model
"""
import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import gguf
import numpy as np

import smoke_test

ARGS = smoke_test.ARGS
TEXT = pathlib.Path(__file__).resolve().parent / "data" / "public_domain.txt"
KINDS = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}


def run(*words):
    return subprocess.run([ARGS.ropeway, *map(str, words)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=240)


def dump(model, *quantize):
    """What dump_model says: the metadata, and the tensors by their names."""
    reply = subprocess.run([ARGS.dump, model, *quantize], capture_output=True, text=True, check=True, timeout=240)
    lines = [json.loads(line) for line in reply.stdout.splitlines()]
    return lines[0]["metadata"], {line["name"]: line for line in lines[1:]}


def split(source, to, most):
    """Writes the parts of a GGUF file, of at most so many tensors each, with gguf-py; their paths."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(to, "llama", split_max_tensors=most)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(field.name, field.contents(), field.types[0],
                             sub_type=field.types[-1] if is_array else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(to.parent.glob(to.stem + "-*.gguf"))


class TinyModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.work = pathlib.Path(temporary.name)
        cls.folder = cls.work / "Tiny-Llama"
        cls.folder.mkdir()
        cls.file = cls.work / "tiny.gguf"
        subprocess.run([ARGS.maker, cls.folder, "--folder"], check=True, timeout=120)
        subprocess.run([ARGS.maker, cls.file, "--f32"], check=True, timeout=120)

    def says(self, model, *flags):
        reply = run("perplexity", "--model", model, "--file", TEXT, "--ctx", "256", *flags)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        return [line for line in reply.stdout.splitlines() if "tokens/s" not in line]


class FolderTest(TinyModels):
    def test_it_says_the_same_as_the_gguf_file(self):
        expected = self.says(self.file)
        self.assertEqual(self.says(self.folder), expected)
        for kind in KINDS:
            with self.subTest(quantize=kind):
                quantised = self.says(self.file, "--quantize", kind)
                self.assertNotEqual(quantised, expected)
                self.assertEqual(self.says(self.folder, "--quantize", kind), quantised)

    def test_the_maker_takes_no_flag_for_a_path(self):
        before = sorted(self.work.iterdir())
        for words in (["--help"], ["--f32"], ["--folder", "--f32"], [self.work / "other.gguf", "--help"]):
            with self.subTest(words=words):
                reply = subprocess.run([ARGS.maker, *words], capture_output=True, text=True, check=False, timeout=120,
                                       cwd=self.work)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertTrue(reply.stderr.startswith("usage: make_tiny_model "), reply.stderr)
        self.assertEqual(sorted(self.work.iterdir()), before)

    def test_it_has_the_same_tensors_and_tokenizer(self):
        _, folder = dump(self.folder)
        _, file = dump(self.file)
        self.assertEqual(folder, file)
        for text in ("The other hand", "<|im_start|>user\n12 o'clock<|im_end|>", "h\u00e9, \U0001f600"):
            self.assertEqual(run("tokenize", "--model", self.folder, text).stdout,
                             run("tokenize", "--model", self.file, text).stdout)

    def test_it_is_served_under_its_name_with_its_sampling(self):
        said = self.folder / "generation_config.json"
        said.write_text('{"temperature": 0.0, "top_p": 0.9, "eos_token_id": [2, 0]}')
        self.addCleanup(said.unlink)
        server = smoke_test.Server("--threads", "1", "--kv-cache-size", "16MiB", model=str(self.folder))
        try:
            self.assertEqual(json.loads(server.get("/v1/models")[1])["data"][0]["id"], "Tiny-Llama")
            body = {"prompt": "The cable car", "max_tokens": 8, "ignore_eos": True}
            answers = {server.post("/v1/completions", body)[1]["choices"][0]["text"] for _ in range(4)}
            self.assertEqual(len(answers), 1, "temperature 0 is greedy")
            greedy = server.post("/v1/completions", {**body, "temperature": 0})[1]["choices"][0]["text"]
            self.assertEqual(answers, {greedy})
            hot = {server.post("/v1/completions", {**body, "temperature": 2})[1]["choices"][0]["text"]
                   for _ in range(8)}
            self.assertGreater(len(hot), 1, "the request goes before the model")
        finally:
            server.stop()

    def test_inspect_says_that_it_runs_and_what_is_wrong(self):
        reply = run("inspect", self.folder)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertIn("Ropeway can run this model: llama, 2 layers", reply.stdout)
        broken = self.work / "broken"
        shutil.copytree(self.folder, broken)
        config = json.loads((broken / "config.json").read_text())
        (broken / "config.json").write_text(json.dumps({**config, "architectures": ["MambaForCausalLM"]}))
        reply = run("inspect", broken)
        self.assertEqual(reply.returncode, 1)
        self.assertIn("MambaForCausalLM", reply.stderr)
        self.assertEqual(len(reply.stderr.splitlines()), 1)
        (broken / "config.json").write_text(json.dumps(config))
        (broken / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
        reply = run("inspect", broken)
        self.assertEqual(reply.returncode, 1)
        self.assertIn("Ropeway cannot run this model:\n  - ", reply.stdout)
        self.assertIn('type "Unigram" is not supported', reply.stdout)
        for words in (["serve", "--port", "0"], ["run", "Hello"]):
            reply = run(*words, "--model", broken)
            self.assertEqual(reply.returncode, 1)
            self.assertIn('type "Unigram" is not supported', reply.stderr)

    def test_a_cut_file_is_one_sentence(self):
        broken = self.work / "cut"
        shutil.copytree(self.folder, broken)
        whole = (broken / "model.safetensors").read_bytes()
        for size in (0, 7, 8, 100, len(whole) - 1):
            (broken / "model.safetensors").write_bytes(whole[:size])
            reply = run("run", "--model", broken, "Hello")
            self.assertEqual(reply.returncode, 1, size)
            self.assertIn("model.safetensors", reply.stderr)
            self.assertEqual(len(reply.stderr.splitlines()), 1, reply.stderr)


class QuantizeTest(TinyModels):
    def test_its_bytes_are_those_of_gguf_py(self):
        random = np.random.default_rng(15)
        rows = {"normal": random.standard_normal((24, 96)), "wide": random.standard_normal((24, 96)) * 300,
                "small": random.standard_normal((24, 96)) * 1e-6, "zero": np.zeros((24, 96)),
                "halves": random.integers(-254, 255, (24, 96)) / 2.0, "levels": random.integers(-8, 9, (24, 96)),
                "signs": np.where(random.random((24, 96)) < 0.5, -1.0, 1.0)}
        path = self.work / "rows.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        values = {}
        for name, matrix in rows.items():
            f32 = matrix.astype(np.float32)
            bf16 = gguf.quants.quantize(f32, gguf.GGMLQuantizationType.BF16)
            values[f"{name}.f32.weight"] = f32
            values[f"{name}.f16.weight"] = f32.astype(np.float16).astype(np.float32)
            values[f"{name}.bf16.weight"] = gguf.quants.dequantize(bf16, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(f"{name}.f32.weight", f32)
            writer.add_tensor(f"{name}.f16.weight", f32.astype(np.float16))
            writer.add_tensor(f"{name}.bf16.weight", bf16, raw_dtype=gguf.GGMLQuantizationType.BF16)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        for kind, number in KINDS.items():
            _, tensors = dump(path, kind)
            self.assertEqual(set(tensors), set(values))
            for name, matrix in values.items():
                with self.subTest(kind=kind, tensor=name):
                    self.assertEqual(tensors[name]["type"], number.name)
                    expected = hashlib.sha256(gguf.quants.quantize(matrix, number).tobytes()).hexdigest()
                    self.assertEqual(tensors[name]["sha256"], expected)


class SplitTest(TinyModels):
    def test_its_parts_are_the_whole(self):
        parts = split(self.file, self.work / "split.gguf", 7)
        self.assertGreater(len(parts), 2)
        self.assertEqual(self.says(parts[0]), self.says(self.file))
        _, tensors = dump(parts[0])
        self.assertEqual(tensors, dump(self.file)[1])
        # A folder with nothing else.
        folder = self.work / "parts"
        folder.mkdir()
        for part in parts:
            shutil.copy(part, folder)
        self.assertEqual(self.says(folder), self.says(self.file))
        # What is missing is named; another part than the first says which one is meant.
        (folder / parts[1].name).unlink()
        reply = run("inspect", folder / parts[0].name)
        self.assertEqual(reply.returncode, 1)
        self.assertIn(parts[1].name, reply.stderr)
        self.assertEqual(run("inspect", parts[1]).returncode, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--maker", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v", *rest])
