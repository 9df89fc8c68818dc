#!/usr/bin/env python3
"""The library as its users meet it: installs a build into a fresh folder, then builds a copy of
examples/ against that folder alone, runs the six programs and looks at what they print.

Every code block of docs/library.md must stand in the examples.

usage: install_test.py --build FOLDER --source CHECKOUT --model FILE.gguf [--cmake CMAKE]
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = argparse.Namespace()
WITH_MODEL = ("submit_and_wait", "submit_and_poll", "streaming", "chat_session", "gateway")
EXAMPLES = WITH_MODEL + ("custom_backend",)


def run(*words, expect=0, **more):
    words = [str(word) for word in words]
    reply = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, **more)
    assert reply.returncode == expect, f"{words}: exit code {reply.returncode}\n{reply.stdout}{reply.stderr}"
    return reply


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        start = time.monotonic()
        cls.folder = tempfile.TemporaryDirectory(prefix="ropeway-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        top = pathlib.Path(cls.folder.name)
        cls.prefix = top / "prefix"
        cls.build = top / "build"
        run(ARGS.cmake, "--install", ARGS.build, "--prefix", cls.prefix)
        # A copy: nothing of the checkout lies beside it.
        shutil.copytree(pathlib.Path(ARGS.source) / "examples", top / "examples")
        run(ARGS.cmake, "-S", top / "examples", "-B", cls.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -pedantic -Werror")
        run(ARGS.cmake, "--build", cls.build)
        print(f"installed and built in {time.monotonic() - start:.1f} s", flush=True)

    def run_example(self, name, *words, expect=0):
        return run(self.build / name, ARGS.model, *words, expect=expect)

    def test_what_is_installed(self):
        installed = {p.relative_to(self.prefix) for p in self.prefix.rglob("*") if p.is_file()}
        headers = {p for p in installed if p.suffix == ".h"}
        public = (pathlib.Path(ARGS.source) / "include" / "ropeway").glob("*.h")
        self.assertEqual(headers, {pathlib.Path("include/ropeway") / p.name for p in public})
        self.assertIn(pathlib.Path("bin/ropeway"), installed)
        for path in installed - headers - {pathlib.Path("bin/ropeway")}:
            self.assertIn(path.suffix, (".a", ".cmake"), path)
        version = run(self.prefix / "bin" / "ropeway", "--version").stdout
        self.assertRegex(version, r"\d+\.\d+\.\d+")

    def test_nothing_of_the_checkout_is_used(self):
        commands = (self.build / "compile_commands.json").read_text()
        self.assertEqual(len(json.loads(commands)), len(EXAMPLES))
        self.assertIn(str(self.prefix), commands)
        places = [str(pathlib.Path(p).resolve()) for p in (ARGS.source, ARGS.build)]
        configs = [p.read_text() for p in self.prefix.rglob("*.cmake")]
        self.assertTrue(configs)
        for text in [commands, (self.build / "build.ninja").read_text(), *configs]:
            for place in places:
                self.assertNotIn(place + "/", text)

    def test_each_header_compiles_alone(self):
        for header in sorted((self.prefix / "include" / "ropeway").glob("*.h")):
            with self.subTest(header=header.name):
                run("c++", "-std=c++20", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                    "-I", self.prefix / "include", "-x", "c++", "-", input=f'#include "ropeway/{header.name}"\n')

    def test_submit_and_wait(self):
        out = self.run_example("submit_and_wait").stdout
        self.assertIn("[0] The capital of France is -> Paris", out)
        self.assertIn("(length, 5 prompt tokens, 24 generated)", out)
        self.assertIn("[2] 1, 2, 3, -> 4, 5, 6", out)
        # In the company of others or alone: the same text.
        alone = self.run_example("submit_and_wait", "Once upon a time").stdout
        self.assertIn(alone.split("->", 1)[1], out.split("[1]", 1)[1])

    def test_submit_and_poll(self):
        out = self.run_example("submit_and_poll", "20").stdout
        lines = out.splitlines()
        self.assertEqual(len(lines), 20, out)
        seen = [re.fullmatch(r"(\d+) of 20: question (\d+): (\d+) tokens, (stop|length)", line) for line in lines]
        self.assertTrue(all(seen), out)
        self.assertEqual([int(m.group(1)) for m in seen], list(range(1, 21)))
        self.assertEqual({int(m.group(2)) for m in seen}, set(range(20)))
        for m in seen:
            self.assertTrue(1 <= int(m.group(3)) <= 8 + int(m.group(2)) % 24, m.group(0))

    def test_streaming(self):
        out = self.run_example("streaming").stdout
        text, end = out.rsplit("\n(", 1)
        self.assertEqual(text.count("."), 1, out)
        tokens = re.fullmatch(r"cancelled after (\d+) tokens\)\n", end)
        self.assertTrue(tokens, out)
        self.assertTrue(3 <= int(tokens.group(1)) < 200, out)

    def test_chat_session(self):
        with tempfile.TemporaryDirectory(prefix="ropeway-example-state-") as folder:
            first = self.run_example("chat_session", "My name is Ada.", f"{folder}/state").stdout
            begun = re.search(r"\(session my chat: 0 tokens before this turn, now (\d+) in 1 turns\)\n$", first)
            self.assertTrue(begun, first)
            second = self.run_example("chat_session", "What is my name?", f"{folder}/state").stdout
            self.assertRegex(second, rf"\(session my chat: {begun.group(1)} tokens before this turn, now \d+ in 2 turns\)\n$")

    def test_gateway(self):
        out = self.run_example("gateway").stdout
        self.assertGreater(len(out.splitlines()[0]), 10, out)
        self.assertRegex(out, r"\n\((stop|length), \d+ tokens\)\n\(the story: (cancelled|stop|length)\)\n"
                              r"backend 1: up, was sent 2 requests\n$")

    def test_gateway_before_nothing(self):
        reply = run(self.build / "gateway", "http://127.0.0.1:1", expect=1)
        self.assertEqual(reply.stdout, "")
        self.assertRegex(reply.stderr, r"^gateway: [^\n]*127\.0\.0\.1:1[^\n]+\n$")
        bad = run(self.build / "gateway", "http://nowhere:port", expect=1)
        self.assertRegex(bad.stderr, r"^gateway: [^\n]+\n$")

    def test_custom_backend(self):
        # One of its two backends takes nothing: every request is answered by the other one.
        out = run(self.build / "custom_backend", "hello there", "one two  three").stdout
        self.assertEqual(out, "[0] hello there (2 words)\n[1] one two three (3 words)\n")

    def test_a_missing_model_is_one_sentence(self):
        for name in WITH_MODEL:
            with self.subTest(example=name):
                reply = run(self.build / name, "no/such/model.gguf", expect=1)
                self.assertEqual(reply.stdout, "")
                self.assertRegex(reply.stderr, rf"^{name}: no/such/model.gguf: [^\n]+\n$")
                self.assertIn("usage:", run(self.build / name, expect=2).stderr)

    def test_the_page_shows_the_examples(self):
        source = pathlib.Path(ARGS.source)
        page = (source / "docs" / "library.md").read_text(encoding="utf-8")
        shown = {"cpp": "\n".join((source / "examples" / f"{name}.cc").read_text() for name in EXAMPLES),
                 "cmake": (source / "examples" / "CMakeLists.txt").read_text()}
        blocks = re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)
        self.assertGreaterEqual(sum(language == "cpp" for language, _ in blocks), 5)
        for language, block in blocks:
            if language in shown:
                self.assertIn(block, shown[language])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
