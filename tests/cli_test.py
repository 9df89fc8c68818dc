#!/usr/bin/env python3
"""The program's commands other than `serve`: run, perplexity, completion, configuration files, and
what all commands do with bad input and lost output.

usage: cli_test.py --ropeway PROGRAM --model FILE.gguf --short SHORT.gguf --tiny TINY.gguf
"""
import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = argparse.Namespace()
TEXT = pathlib.Path(__file__).resolve().parent / "data" / "public_domain.txt"


def call(*words, **more):
    more = {"stdin": subprocess.DEVNULL, **more} if "input" not in more else more
    return subprocess.run([ARGS.ropeway, *words], capture_output=True, text=True, check=False,
                          timeout=240, **more)


def run(*words, **more):
    return call("run", "--model", ARGS.model, *words, **more)


def run_tiny(*words, **more):
    """The tiny model's answer, which no end token cuts."""
    return call("run", "--model", ARGS.tiny, "--ignore-eos", *words, **more)


class InTempFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)


class RunTest(InTempFolder):
    FLAGS = ("--temperature", "0", "--max-tokens", "12")

    def test_one_shot_and_standard_input_give_the_same(self):
        question = "Name the capital of France."
        shot = run(*self.FLAGS, question)
        self.assertEqual((shot.returncode, shot.stderr), (0, ""))
        self.assertIn("Paris", shot.stdout)
        self.assertTrue(shot.stdout.endswith("\n"))
        piped = run(*self.FLAGS, input=question)
        self.assertEqual((piped.returncode, piped.stdout), (0, shot.stdout))
        behind = run(*self.FLAGS, "Name the capital", input="of France.")
        self.assertEqual((behind.returncode, behind.stdout), (0, run(*self.FLAGS, "Name the capital\n\nof France.").stdout))
        self.assertEqual(run(*self.FLAGS, question, input="").stdout, shot.stdout)

    def test_a_closed_standard_input_is_empty(self):
        reply = subprocess.run(["sh", "-c", '"$0" run --model "$1" --max-tokens 2 Hello <&-', ARGS.ropeway, ARGS.tiny],
                               capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))

    def test_standard_input_behind_a_prompt_is_bounded(self):
        reply = run_tiny("--max-tokens", "2", "Summarize:", input="x" * ((16 << 20) + 1))
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertIn("cannot read standard input, or it has more than 16777216 bytes", reply.stderr)

    def test_a_pipe_in_which_nothing_comes_is_said(self):
        reader, writer = os.pipe()
        with subprocess.Popen([ARGS.ropeway, "run", "--model", ARGS.tiny, "--max-tokens", "2", "Hello"], stdin=reader,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertIn("waiting for standard input", process.stderr.readline())
            os.close(writer)
            self.assertNotEqual(process.stdout.read().strip(), "")
        self.assertEqual(process.returncode, 0)
        os.close(reader)

    def test_raw_continues_the_text(self):
        reply = run(*self.FLAGS, "--raw", "--stats", "The capital of France is")
        self.assertIn("Paris", reply.stdout)
        self.assertRegex(reply.stderr, r"^\(5 prompt tokens, 12 tokens in [\d.]+ s \([\d.]+ tokens/s\): queue [\d.]+ ms, "
                                       r"formation 0\.0 ms, prefill [\d.]+ ms, decode [\d.]+ ms, output [\d.]+ ms\)\n$")

    def test_characters_of_several_tokens_are_streamed_whole(self):
        """Most of these characters are two tokens of the model, and 30 tokens end within one."""
        with subprocess.Popen([ARGS.ropeway, "run", "--model", ARGS.model, "--temperature", "0", "--raw", "--max-tokens",
                               "30", "一二三四五六七八九十一二三四五六七八九十一二三四"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            parts = list(iter(lambda: os.read(process.stdout.fileno(), 65536), b""))
        self.assertEqual(process.returncode, 0)
        self.assertGreater(len(parts), 3, "the answer came in one piece")
        shown = "".join(part.decode() for part in parts)  # Fails for a part that ends within a character.
        self.assertTrue(shown.startswith("五六七八九十一二三四"), shown)
        self.assertRegex(shown, "^[^\ufffd]*\ufffd\n$")

    def test_a_seed_gives_the_same_answer_again(self):
        ask = lambda seed: run_tiny("--max-tokens", "12", "--temperature", "1.5", "--seed", seed,
                                    "Tell a story.").stdout
        first = ask("1")
        self.assertEqual(first, ask("1"))
        self.assertNotEqual(first, ask("2"))

    def test_prompts_are_answered_as_alone_and_printed_by_batches(self):
        prompts = ["The capital of France is", "The capital of Italy is", "[2, 3] are", "Bread is"]
        path = self.write("prompts.txt", "\n".join(prompts) + "\n")
        out = self.folder / "answers.jsonl"
        run("--raw", *self.FLAGS, "--max-num-seqs", "1", "--prompts", path, "--output", str(out))
        lines = sorted(map(json.loads, out.read_text(encoding="utf-8").splitlines()), key=lambda line: line["index"])
        alone = [line["text"] for line in lines]
        self.assertEqual(run("--raw", *self.FLAGS, "--", prompts[2]).stdout.strip(), alone[2].strip())
        reply = run("--raw", *self.FLAGS, "--max-num-seqs", "2", "--prompts", path, "--output", str(out))
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        *batches, summary = re.split(r"^(?=Batch \d+: |\d+ requests in )", reply.stdout, flags=re.M)[1:]
        sizes = []
        for number, batch in enumerate(batches, 1):
            heading, rest = batch.split("\n\n", 1)
            found = re.fullmatch(r"Batch (\d+): (\d+) requests?", heading)
            self.assertEqual(int(found.group(1)), number)
            blocks = re.findall(r"^\[(\d)\] (.*?)\n(?=\[\d\] |\Z)", rest, re.M | re.S)
            self.assertEqual(len(blocks), int(found.group(2)), batch)
            self.assertEqual([int(i) for i, _ in blocks], sorted(int(i) for i, _ in blocks))
            for index, text in blocks:
                prompt = prompts[int(index) - 1]
                self.assertEqual(text.strip("\n"), (prompt + "\n" + alone[int(index) - 1]).strip("\n"))
            sizes.append(len(blocks))
        self.assertEqual(sum(sizes), 4)
        self.assertGreaterEqual(len(sizes), 2, "two slots cannot start four prompts in one step")
        self.assertRegex(summary, rf"^4 requests in {len(sizes)} batches, 0 failed: \d+ prompt tokens, "
                                  r"48 output tokens in ")
        lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(sorted(line["index"] for line in lines), [1, 2, 3, 4])
        for line in lines:
            self.assertEqual(line["prompt"], prompts[line["index"] - 1])
            self.assertEqual(line["text"].strip(), alone[line["index"] - 1].strip())
            self.assertEqual((line["finish_reason"], line["error"]), ("length", None))
            self.assertIn(line["batch_num"], range(1, len(sizes) + 1))
            self.assertEqual(line["batch"], line["batch_num"])
            self.assertGreater(line["prefill_time"], 0)
            self.assertGreater(line["decode_time"], 0)

    def test_each_answer_has_its_own_batch_and_times(self):
        out = self.folder / "answers.csv"
        reply = run_tiny("--raw", *self.FLAGS, "--stats", "--max-num-seqs", "1", "--policy", "fcfs", "--prompts",
                         self.write("prompts.txt", "Bread is\nIron, a metal, is\nWater is\n"), "--output", str(out))
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        shown = re.findall(r"^\((\d+) prompt tokens, 12 tokens: queue [\d.]+ ms, formation 0\.0 ms, "
                           r"prefill ([\d.]+) ms, decode ([\d.]+) ms, output [\d.]+ ms\)$", reply.stdout, re.M)
        with open(out, newline="", encoding="utf-8") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: int(row["index"]))
        self.assertEqual([row["batch_num"] for row in rows], ["1", "2", "3"])
        self.assertEqual([row["prompt"] for row in rows], ["Bread is", "Iron, a metal, is", "Water is"])
        self.assertEqual({(row["finish_reason"], row["completion_tokens"], row["error"]) for row in rows},
                         {("length", "12", "")})
        for row, (tokens, prefill, decode) in zip(rows, shown, strict=True):
            self.assertEqual(row["prompt_tokens"], tokens)
            # Both are rounded, each from the whole.
            self.assertAlmostEqual(float(row["prefill_time"]) * 1e3, float(prefill), delta=0.051)
            self.assertAlmostEqual(float(row["decode_time"]) * 1e3, float(decode), delta=0.051)
        # One after the other: each waits for those before it.
        for before, after in zip(rows, rows[1:]):
            self.assertGreater(float(after["queue_time"]), float(before["queue_time"]) + float(before["decode_time"]) / 2)

    def test_one_prompt_that_fails_costs_the_others_nothing(self):
        path = self.write("prompts.jsonl", '{"prompt": "Bread is", "max_tokens": 2}\n'
                          + json.dumps({"prompt": "word " * 600}) + "\n"
                          + '{"prompt": "Iron is", "max_tokens": 3, "temperature": 0}\n')
        reply = run_tiny("--raw", "--max-model-len", "256", "--prompts", path)
        self.assertEqual(reply.returncode, 1)
        self.assertIn("Without a batch: 1 request", reply.stdout)
        self.assertRegex(reply.stdout, r"\(failed: .*256")
        self.assertRegex(reply.stdout, r"\n3 requests in (1 batch|2 batches), 1 failed: ")  # In 1 or 2 steps.
        self.assertIn("5 output tokens", reply.stdout)

    def test_bad_input_is_one_sentence(self):
        cases = [
            (("--prompts", "no/such/file"), "no/such/file"),
            (("--prompts", self.write("empty", "\n")), "no prompt"),
            (("--prompts", self.write("bad", '{"prompt": "a"}\n{"promt": "b"}\n')), ":2:"),
            (("--output", "x", "a"), "--prompts"),
            (("--prompts", "x", "a"), "either"),
            (("--top-p", "0", "a"), "ropeway: --top-p: expected a number, above 0, to 1, not '0'"),
            (("--temperature", "3", "a"), "--temperature"), (("--max-tokens", "0", "a"), "--max-tokens"),
            (("--chat-template", "no/such/file", "a"), "no/such/file"),
            (("--kv-cache-dtype", "x", "a"), "--kv-cache-dtype: expected one of f16, q8_0, not 'x'"),
            (("a", "b"), "b"), ((), "empty"),
        ]
        for words, expected in cases:
            with self.subTest(words=words):
                reply = run(*words)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(expected, reply.stderr)
                self.assertEqual(len(reply.stderr.strip().splitlines()), 1, reply.stderr)

    def test_a_model_that_is_nowhere_is_named(self):
        reply = call("run", "--model", "no-such-model", "x")
        self.assertEqual(reply.returncode, 1)
        self.assertIn("no-such-model", reply.stderr)


class LostOutputTest(unittest.TestCase):
    def test_a_reader_that_goes_away_ends_the_program_quietly(self):
        for words in (["run", "--model", ARGS.tiny, "--ignore-eos", "Count to one million."],
                      ["inspect", ARGS.model], ["completion", "bash"]):
            with self.subTest(words=words):
                read_end, write_end = os.pipe()
                os.close(read_end)
                reply = subprocess.run([ARGS.ropeway, *words], stdin=subprocess.DEVNULL, stdout=write_end,
                                       stderr=subprocess.PIPE, text=True, check=False, timeout=240)
                os.close(write_end)
                self.assertEqual((reply.returncode, reply.stderr), (1, ""))

    def test_a_full_disk_is_said(self):
        for words in (["run", "--model", ARGS.tiny, "--ignore-eos", "--max-tokens", "4", "Hello"], ["--help"]):
            with self.subTest(words=words), open("/dev/full", "w", encoding="utf-8") as full:
                reply = subprocess.run([ARGS.ropeway, *words], stdin=subprocess.DEVNULL, stdout=full,
                                       stderr=subprocess.PIPE, text=True, check=False, timeout=240)
                self.assertEqual((reply.returncode, reply.stderr),
                                 (1, "ropeway: the output could not be written\n"))


class DevicesTest(InTempFolder):
    """A machine without a driver for OpenCL: its loader looks into an empty folder, or is no library."""

    def test_what_is_missing_is_said(self):
        (self.folder / "libOpenCL.so.1").write_bytes(b"no library")
        for variable, reason in (("OCL_ICD_VENDORS", "no OpenCL device was found: the GPU's driver for OpenCL is missing"),
                                 ("LD_LIBRARY_PATH", "OpenCL's loader cannot be used: ")):
            with self.subTest(variable):
                env = {**os.environ, variable: str(self.folder)}
                listed = call("devices", env=env)
                self.assertEqual((listed.returncode, listed.stderr), (0, ""))
                self.assertRegex(listed.stdout, r"^cpu       \S")
                self.assertIn(f"\nopencl    none: {reason}", listed.stdout)
                asked = run_tiny("--device", "opencl", "hi", env=env)
                self.assertEqual((asked.returncode, asked.stdout), (1, ""))
                self.assertIn(f"--device: {reason}", asked.stderr)
                self.assertTrue(asked.stderr.endswith(" (`ropeway devices` lists what there is)\n"), asked.stderr)
                # The CPU computes where there is no GPU.
                self.assertEqual(run_tiny("--device", "auto", "--max-tokens", "1", "hi", env=env).returncode, 0)


class PerplexityTest(InTempFolder):
    def measure(self, *flags):
        reply = call("perplexity", "--model", ARGS.model, "--file", str(TEXT), *flags)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        found = re.match(r"perplexity ([\d.]+) \+/- ([\d.]+)\n(\d+) tokens scored, in (\d+) windows?",
                         reply.stdout)
        self.assertTrue(found, reply.stdout)
        self.assertRegex(reply.stderr, r"window \d+ of \d+: perplexity [\d.]+ \+/- [\d.]+\n")
        return float(found.group(1)), float(found.group(2)), int(found.group(3)), int(found.group(4))

    def test_less_context_gives_a_higher_perplexity_and_every_token_counts_once(self):
        whole, error, scored, windows = self.measure("--ctx", "2048")
        short, _, scored_short, windows_short = self.measure("--ctx", "32", "--stride", "16")
        self.assertEqual(scored, scored_short)
        self.assertEqual(windows, 1)
        self.assertGreater(windows_short, 10)
        self.assertGreater(short, whole)
        self.assertTrue(1 < whole < 100 and 0 < error < whole, (whole, error))

    def test_bad_input_is_one_sentence(self):
        for words, expected in ((("--file", "no/such"), "no/such"), ((), "--file"),
                                (("--file", str(TEXT), "--ctx", "8", "--stride", "8"), "--stride"),
                                (("--file", str(TEXT), "--ctx", "100000"), "--ctx"),
                                (("--file", self.write("short", "a")), "2 tokens")):
            with self.subTest(words=words):
                reply = call("perplexity", "--model", ARGS.tiny, *words)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(expected, reply.stderr)


class BenchDeterminismTest(InTempFolder):
    def ask(self, *flags, **more):
        """The outputs and the rounds that it printed."""
        reply = call("bench", "determinism", "--model", ARGS.short, "--asks", "20", "--output-tokens", "24", *flags,
                     **more)
        self.assertEqual((reply.returncode, reply.stderr), (0, ""), reply.stdout)
        lines = [json.loads(line) for line in reply.stdout.splitlines()]
        self.assertEqual(lines[0]["output_tokens"], 24)
        return [line["output"] for line in lines if "output" in line], [line["round"] for line in lines if "round" in line]

    def test_twenty_asks_one_output_in_chunks_and_preempted(self):
        outputs, rounds = self.ask("--rounds", "4", "--seed", "4")
        self.assertEqual([output["count"] for output in outputs], [20])
        self.assertEqual((len(outputs[0]["tokens"]), len(outputs[0]["logprobs"])), (24, 24))
        # It counts only if the asks went through what they are there for.
        for name in ("company", "chunked", "preempted"):
            self.assertGreater(sum(r[name] for r in rounds), 0, name)
        self.assertEqual(sum(r["asks"] for r in rounds), 19)  # The first was alone.
        threads = {r["threads"] for r in rounds}
        self.assertTrue(1 in threads and max(threads) > 1, threads)
        self.assertGreater(max(r["most_rows"] for r in rounds), 8)
        self.assertEqual({r["prefix_caching"] for r in rounds}, {True, False})
        self.assertGreater(len({r["max_num_batched_tokens"] for r in rounds}), 2)

    def test_every_table_of_kernels_gives_the_same_output(self):
        best, rounds = self.ask("--rounds", "2")
        tables = {r["kernels"] for r in rounds}
        if tables == {"avx512vnni"} or "avx2" in tables:
            other, rounds = self.ask("--rounds", "2", "--seed", "5", env={**os.environ, "ROPEWAY_ISA": "avx2"})
            self.assertEqual({r["kernels"] for r in rounds}, {"avx2"})
            self.assertEqual(other, best)

    def test_bad_input_is_one_sentence(self):
        for words, expected in ((("--asks", "0"), "--asks"), (("--output-tokens", "x"), "--output-tokens"),
                                (("--company", "-1"), "--company"), (("--kv-cache-dtype", "q3"),
                                 "--kv-cache-dtype"), (("--rounds", "0"), "--rounds"),
                                (("--prompt", ""), "--prompt"), (("--prompt", "word " * 2000), "--prompt"),
                                (("--model", "no-such-model"), "--model is given 2 times")):
            with self.subTest(words=words):
                reply = call("bench", "determinism", "--model", ARGS.model, *words)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(expected, reply.stderr)
                self.assertEqual(len(reply.stderr.strip().splitlines()), 1, reply.stderr)
        reply = call("bench", "determinism", env={**os.environ, "ROPEWAY_ISA": "sse9"})
        self.assertEqual((reply.returncode, reply.stdout), (1, ""))
        self.assertIn("ROPEWAY_ISA", reply.stderr)


class BenchProgramTest(InTempFolder):
    def test_without_ropeway_bench_the_sentence_says_how_to_build_it(self):
        alone = self.folder / "ropeway"
        shutil.copy(ARGS.ropeway, alone)
        reply = subprocess.run([alone, "bench", "kernels"], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply)
        self.assertIn("`bench kernels` needs the program ropeway-bench", reply.stderr)
        self.assertIn("scripts/build.sh release --target ropeway-bench", reply.stderr)
        reply = subprocess.run([alone, "bench", "--help"], capture_output=True, text=True, check=False, timeout=60)
        self.assertIn("ropeway-bench", reply.stdout)


    def test_the_help_names_every_benchmark(self):
        helps = {program: subprocess.run([pathlib.Path(ARGS.ropeway).with_name(program), *words, "--help"],
                                         capture_output=True, text=True, check=True, timeout=60).stdout
                 for program, words in (("ropeway", ["bench"]), ("ropeway-bench", []))}
        names = re.search(r"one of (.*)\n", call("bench", "x").stderr).group(1).split(", not ")[0].split(", ")
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", helps["ropeway-bench"], re.M).group(1)
        names += re.findall(r"^  ([\w-]+)", listed, re.M)
        self.assertGreater(len(set(names)), 14)
        for name in names:
            for program, text in helps.items():
                self.assertRegex(text, rf"\b{name}\b", program)

    def test_a_long_benchmark_says_so_and_ends_clean_on_a_signal(self):
        words = [ARGS.ropeway, "bench", "sessions", "--model", ARGS.model]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env={**os.environ, "TMPDIR": str(self.folder)})
        self.assertEqual(process.stderr.readline(),
                         "This takes up to an hour and wants an idle machine; --quick takes minutes.\n")
        end = time.monotonic() + 120
        while not list(self.folder.iterdir()) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(list(self.folder.iterdir()), "no temporary folder")
        process.terminate()
        _, errors = process.communicate(timeout=240)
        self.assertEqual((process.returncode, errors.splitlines()[-1]), (1, "ropeway-bench: interrupted"))
        self.assertEqual(list(self.folder.iterdir()), [])


class ConfigTest(InTempFolder):
    def test_a_file_sets_flags_and_the_command_line_wins(self):
        config = self.write("ropeway.toml", '[run]\ntemperature = 0\nmax-tokens = 3\nstats = true\n'
                                            '[serve]\nport = 1\nmax-body-size = "1MiB"\n')
        reply = run_tiny("--config", config, "Hello")
        self.assertRegex(reply.stderr, r"prompt tokens, 3 tokens")
        reply = run_tiny("--config", config, "--max-tokens", "2", "Hello")
        self.assertRegex(reply.stderr, r"prompt tokens, 2 tokens")
        reply = run_tiny("--config", config, "--max-tokens", "2", "-n", "1", "Hello")
        self.assertIn("--max-tokens is given 2 times, but takes one value", reply.stderr)

    def test_the_type_of_the_cache_can_stand_in_it(self):
        config = self.write("ropeway.toml", '[run]\nkv-cache-dtype = "q8_0"\nkv-cache-size = "16MiB"\n'
                                            'log-level = "info"\nmax-tokens = 1\n')
        reply = run_tiny("--config", config, "Hello")
        self.assertEqual(reply.returncode, 0, reply.stderr)
        self.assertIn("16.0 MiB for the KV cache in q8_0\n", reply.stderr)

    def test_what_is_wrong_is_named_with_file_and_line(self):
        for text, expected in (("[serve]\nprot = 1\n", "2: unknown key 'prot'"),
                               ("[serve]\n\nport = '1'\n", "3: 'port' must be an integer"),
                               ("[serve]\nport = 99999\n", "2: --port: expected"),
                               ("[run]\nkv-cache-dtype = 'q3'\n",
                                "2: --kv-cache-dtype: expected one of f16, q8_0, not 'q3'"),
                               ("[bench.serve]\nusers = 'many'\n", "2: 'users' must be an integer"),
                               ("[serve\n", "1: not valid TOML")):
            with self.subTest(text=text):
                config = self.write("ropeway.toml", text)
                reply = call("run", "--config", config, "x")
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(f"{config}:{expected}", reply.stderr)
                self.assertEqual(len(reply.stderr.strip().splitlines()), 1, reply.stderr)


class CompletionTest(unittest.TestCase):
    def complete(self, *words, program="ropeway", cwd=None, **variables):
        """What bash offers for the last word of the line."""
        line = " ".join(f"'{word}'" for word in (program, *words))
        script = (f'source <("{os.path.abspath(ARGS.ropeway)}" completion bash)\n'
                  f'COMP_WORDS=({line}); COMP_CWORD={len(words)}\n'
                  'complete -p ropeway >/dev/null || exit 3\n'
                  '_ropeway; printf "%s\\n" "${COMPREPLY[@]}"')
        reply = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True,
                               timeout=60, cwd=cwd, env={**os.environ, **variables})
        self.assertEqual(reply.stderr, "")
        return [word for word in reply.stdout.split("\n") if word]

    def test_bash_offers_commands_flags_values_and_files(self):
        commands = self.complete("")
        for command in ("serve", "gateway", "run", "bench", "models", "perplexity", "inspect", "tokenize", "completion"):
            self.assertIn(command, commands)
        self.assertEqual(self.complete("ser"), ["serve"])
        self.assertEqual(self.complete("serve", "--max-num-b"), ["--max-num-batched-tokens"])
        self.assertEqual(self.complete("bench", ""), ["serve", "--help", "--config"])
        self.assertIn("--num-prompts", self.complete("bench", "serve", "--n"))
        self.assertEqual(self.complete("serve", "--log-level", "w"), ["warn"])
        self.assertEqual(self.complete("serve", "--port", ""), [])
        self.assertEqual(self.complete("completion", "b"), ["bash"])
        here = pathlib.Path(__file__).resolve()
        self.assertEqual(self.complete("serve", "--model", str(here)[:-3]), [str(here)])
        self.assertIn(str(here), self.complete("inspect", str(here)[:-3]))

    def test_every_command_and_flag_of_the_help_is_offered(self):
        def flags(path):
            return set(re.findall(r"--[a-z][a-z0-9-]*", "\n".join(
                line for line in call(*path, "--help-all").stdout.splitlines()
                if re.match(r"  (    |(-\w+, )+)--", line))))
        for path in ((), ("serve",), ("gateway",), ("run",), ("perplexity",), ("bench",), ("bench", "serve"),
                     ("models",), ("models", "list"), ("models", "pull"), ("models", "show"),
                     ("models", "rm"), ("inspect",), ("devices",), ("top",), ("tokenize",), ("completion",)):
            with self.subTest(path=path):
                self.assertTrue(flags(path))
                self.assertEqual(flags(path), set(self.complete(*path, "--")))

    def test_names_of_models_are_offered(self):
        with tempfile.TemporaryDirectory() as cache:
            models = pathlib.Path(cache, "ropeway", "models")
            models.mkdir(parents=True)
            (models / "my-model.gguf").write_bytes(b"")
            for words in (("serve", "--model"), ("run",), ("inspect",), ("models", "show"), ("models", "rm"),
                          ("models", "pull")):
                with self.subTest(words=words):
                    self.assertIn("my-model", self.complete(*words, "my-", program=ARGS.ropeway,
                                                            XDG_CACHE_HOME=cache))
            self.assertIn("smollm2-135m", self.complete("models", "pull", "smol", program=ARGS.ropeway,
                                                        XDG_CACHE_HOME=cache))

    def test_names_of_files_are_never_run(self):
        with tempfile.TemporaryDirectory() as cache:
            models = pathlib.Path(cache, "ropeway", "models")
            models.mkdir(parents=True)
            here = pathlib.Path(cache, "here")
            here.mkdir()
            program = os.path.abspath(ARGS.ropeway)
            for name in ("a$(touch RUN)", "b`touch RUN`", "c;touch RUN", "two words", "d\n$(touch RUN)"):
                (models / f"{name}.gguf").write_bytes(b"")
            (models / "my-model.gguf").write_bytes(b"")
            self.assertEqual(self.complete("models", "show", "two", program=program, cwd=here,
                                           XDG_CACHE_HOME=cache), [])
            for words in (("serve", "--model"), ("run",), ("models", "rm")):
                with self.subTest(words=words):
                    self.assertIn("my-model", self.complete(*words, "", program=program, cwd=here,
                                                            XDG_CACHE_HOME=cache))
            # Nor where the program itself prints such a name.
            printer = here / "printer"
            printer.write_text("#!/bin/sh\nprintf '%s\\n' 'a$(touch RUN)' 'two words'\n")
            printer.chmod(0o755)
            offers = self.complete("models", "show", "", program=printer, cwd=here)
            self.assertIn("a$(touch RUN)", offers)
            self.assertIn("two words", offers)
            self.assertEqual(self.complete("serve", "--model", "two", program=printer, cwd=here), ["two words"])
            bin_folder = here / "bin"
            bin_folder.mkdir()
            (bin_folder / "ropeway").symlink_to(printer)
            path = {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
            if shutil.which("fish"):
                self.assertIn("two words", self.complete_in_fish("ropeway models show ", cwd=here, **path))
            if shutil.which("zsh"):
                self.assertIn("two words", self.complete_in_zsh("models", "show", "", cwd=here, **path))
            self.assertFalse((here / "RUN").exists())

    def complete_in_fish(self, line, cwd=None, **variables):
        reply = subprocess.run(
            ["fish", "--no-config", "-c", '"$argv[1]" completion fish | source; complete -C "$argv[2]"',
             os.path.abspath(ARGS.ropeway), line], capture_output=True, text=True, check=True, timeout=60, cwd=cwd,
            # Names of models are what `ropeway` prints.
            env={**os.environ, "PATH": f"{os.path.dirname(os.path.abspath(ARGS.ropeway))}:{os.environ['PATH']}", **variables})
        self.assertEqual(reply.stderr, "")
        return [offer.split("\t")[0] for offer in reply.stdout.splitlines()]

    def test_fish_offers_commands_flags_and_values(self):
        complete = self.complete_in_fish
        self.assertIn("serve", complete("ropeway "))
        self.assertEqual(complete("ropeway serve --max-num-b"), ["--max-num-batched-tokens"])
        self.assertEqual(complete("ropeway bench serve --num-p"), ["--num-prompts"])
        self.assertEqual(complete("ropeway serve --log-level w"), ["warn"])
        self.assertEqual(complete("ropeway serve --port "), [])

    def complete_in_zsh(self, *words, cwd=None, **variables):
        # The functions of its completion system print what they are given.
        script = ('compdef() { : }\n_describe() { print -l -- ${(P)2} }\n_files() { print FILES }\n'
                  'compadd() { shift; print -l -- $@ }\nprogram=$1; shift\n'
                  'source =($program completion zsh)\nwords=(ropeway "$@"); CURRENT=$#words\n_ropeway\n')
        reply = subprocess.run(["zsh", "-f", "-c", script, "zsh", os.path.abspath(ARGS.ropeway), *words],
                               capture_output=True, text=True, check=True, timeout=60, cwd=cwd,
                               env={**os.environ, **variables})
        self.assertEqual(reply.stderr, "")
        return [offer.split(":")[0] for offer in reply.stdout.splitlines()]

    def test_zsh_offers_commands_flags_and_values(self):
        complete = self.complete_in_zsh
        self.assertIn("serve", complete(""))
        self.assertIn("--max-num-batched-tokens", complete("serve", "--max"))
        self.assertEqual(complete("bench", ""), ["serve", "--help", "--config"])
        self.assertEqual(complete("serve", "--log-level", ""), ["debug", "info", "warn", "error"])
        self.assertEqual(complete("serve", "--model", ""), ["FILES"])
        self.assertEqual(complete("serve", "--port", ""), [])
        self.assertIn("FILES", complete("inspect", ""))

    def test_an_unknown_shell_is_rejected(self):
        self.assertEqual(call("completion", "tcsh").returncode, 1)


class HelpTest(unittest.TestCase):
    def test_version_and_a_command_line_that_is_not_understood(self):
        self.assertRegex(call("--version").stdout, r"^\d+\.\d+\.\d+\n$")
        for word, same in (("version", ["--version"]), ("help", ["--help"]), ("ls", ["models", "list"])):
            self.assertEqual(call(word).stdout, call(*same).stdout)
            self.assertEqual(call(word).returncode, 0)
        for words, hint in (((), "ropeway --help"), (("serve", "--prot", "1"), "ropeway serve --help"),
                            (("bench", "serve", "--userz"), "ropeway bench serve --help"),
                            (("nonsense",), "ropeway --help"), (("bench",), "ropeway bench --help"),
                            (("serve", "--port"), "ropeway serve --help"),
                            (("serve", "--config", "no/such"), "no/such")):
            with self.subTest(words=words):
                reply = call(*words)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(hint, reply.stderr)
                self.assertEqual(len(reply.stderr.strip().splitlines()), 1, reply.stderr)

    def test_the_word_that_is_wrong_is_named(self):
        for words, fault in (((), "expected a command: serve, gateway, run, bench, "),
                             (("nonsense",), ", completion, not 'nonsense' "),
                             (("--prot", "1"), "not '--prot'"),
                             (("sreve",), "there is no command 'sreve': did you mean 'serve'? (see ropeway --help)"),
                             (("bench", "sevre"), "expected a command of ropeway-bench --help, or one of schedulers, "),
                             (("bench", "sevre"), ", not 'sevre'"),
                             (("run", "--temprature", "1", "Hello"), "'--temprature': did you mean '--temperature'?"),
                             (("serve", "-ngl", "99"), "there is no flag '-ngl': Ropeway computes on CPUs"),
                             (("run", "Hello", "you"), "one argument too many: 'you': "),
                             (("serve", "--config", "no/such"), "--config: cannot read 'no/such'")):
            with self.subTest(words=words):
                reply = call(*words)
                self.assertEqual((reply.returncode, reply.stdout), (1, ""))
                self.assertIn(fault, reply.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--short", required=True)
    parser.add_argument("--tiny", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
