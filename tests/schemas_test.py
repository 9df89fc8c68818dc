#!/usr/bin/env python3
"""Random outputs of schemas' grammars (schema_walks): each complete one is valid by Python's jsonschema.

Of schemas written for features (make_written_schemas.py), of Pydantic classes, and of schema files that packages have
(make_package_schemas.py). Prints how many of each are accepted, and why the others are not.

HereTest: the packages that .venv has. LongTest: more walks, also by a large vocabulary. PackagesTest: installs the other
packages into a temporary folder.

usage: schemas_test.py --program schema_walks --model FILE [--large FILE] [TEST...]
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

import make_package_schemas as packages
import make_random_schemas

ARGS = argparse.Namespace()
HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data" / "schemas"
SCRIPT = HERE / "make_package_schemas.py"
# The least share of schemas that are accepted.
LEAST = {"written": 0.9, "pydantic": 0.9, "random": 0.2, "files": 0}
MOST_CUT = 0.05  # The share of walks that may reach the most tokens.
SHOWN = 15  # Reasons of rejections.


def keep_first(pairs):
    kept = {}
    for key, value in pairs:
        kept.setdefault(key, value)
    return kept


def readings(text):
    """The values that a text stands for: two if it repeats keys, of which readers keep the first or the last."""
    last, first = json.loads(text), json.loads(text, object_pairs_hook=keep_first)
    return [last] if last == first else [last, first]


def run_program(model, lines, words):
    """The program's answers, by two processes."""
    def run(part):
        reply = subprocess.run([ARGS.program, "--model", model, *words], input="\n".join(part), capture_output=True,
                               text=True, check=False)
        assert reply.returncode == 0, reply.stderr
        # Not splitlines(), which texts may end a line for.
        return [json.loads(line) for line in reply.stdout.split("\n") if line]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [answer for part in pool.map(run, (lines[::2], lines[1::2])) for answer in part]


def reason_of(message):
    """A message without what differs from schema to schema."""
    message = re.sub(r"^at '.*?': ", "", message)
    message = re.sub(r"(names|points to|has not; |has too, ) ?'.*?'", r"\1 '...'", message)
    return re.sub(r"\d+", "N", message)


def written():
    return (DATA / "written.jsonl").read_text(encoding="utf-8").splitlines()


def of_packages(name, python, wanted):
    """The schemas of those entries of a list whose package is wanted."""
    path = DATA / f"{name}.jsonl"

    # A process for each: some packages change the schemas of others.
    def run(package):
        reply = subprocess.run([python, SCRIPT, "print", path, package], capture_output=True, text=True, check=False)
        assert reply.returncode == 0, reply.stderr
        return reply.stdout.splitlines()
    chosen = sorted({entry["package"] for entry in packages.read_list(path) if wanted(entry)})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [line for lines in pool.map(run, chosen) for line in lines]


class SchemasTest(unittest.TestCase):
    def check(self, kind, lines, model, walks, max_tokens=700):
        schemas = {entry["name"]: entry["schema"] for entry in map(json.loads, lines)}
        self.assertEqual(len(schemas), len(lines))
        answers = run_program(model, lines, ["--walks", str(walks), "--max-tokens", str(max_tokens)])
        self.assertEqual(len(answers), len(lines))
        accepted = [answer for answer in answers if "error" not in answer]
        self.report(kind, answers, accepted)
        for answer in accepted:
            with self.subTest(schema=answer["name"]):
                self.assertEqual(answer["failed"], [])
                self.check_texts(schemas[answer["name"]], answer["texts"])
        self.assertGreaterEqual(len(accepted), LEAST[kind] * len(answers))
        self.assertLessEqual(sum(answer["cut"] for answer in accepted), MOST_CUT * walks * len(accepted))

    def check_texts(self, schema, texts):
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        # Not FormatChecker(), which has other drafts' formats, too: the times of draft 3.
        validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
        for text in texts:
            for value in readings(text):
                errors = [error.message for error in validator.iter_errors(value)]
                self.assertEqual(errors, [], text)

    def report(self, kind, answers, accepted):
        times = sorted(answer["compile_ms"] for answer in accepted) or [0]
        texts = [text for answer in accepted for text in answer["texts"]]
        repeated = sum(len(readings(text)) > 1 for text in texts)
        print(f"{kind}: {len(accepted)} of {len(answers)} schemas accepted ({len(accepted) / len(answers):.1%}); "
              f"{len(texts)} texts, {repeated} with a key twice, {sum(answer['cut'] for answer in accepted)} cut; "
              f"compiling takes {times[len(times) // 2]:.0f} ms (median), {times[-1]:.0f} (most)")
        names = {answer["name"].split(" ")[0] for answer in answers}
        if kind == "pydantic" and len(names) > 1:
            for name in sorted(names):
                own = [answer for answer in answers if answer["name"].startswith(name + " ")]
                print(f"  {name}: {sum('error' not in answer for answer in own)} of {len(own)}")
        reasons = collections.Counter(reason_of(answer["error"]) for answer in answers if "error" in answer)
        for reason, count in reasons.most_common(SHOWN):
            print(f"  {count} x {reason}")
        sys.stdout.flush()


class HereTest(SchemasTest):
    def test_invalid_texts_are_found(self):
        for schema, text in (({"type": "integer"}, '"a"'), ({"format": "date"}, '"2023-02-30"'),
                             ({"additionalProperties": {"type": "null"}}, '{"a":1,"a":null}')):
            with self.assertRaises(self.failureException):
                self.check_texts(schema, [text])

    def test_written(self):
        lines = written()
        self.assertEqual(len(lines), 156)
        self.check("written", lines, ARGS.model, walks=3)

    def test_pydantic(self):
        lines = of_packages("pydantic", sys.executable, packages.is_here)
        self.assertGreaterEqual(len(lines), 100)
        self.check("pydantic", lines, ARGS.model, walks=3)

    def test_files(self):
        lines = of_packages("files", sys.executable, packages.is_here)
        self.assertGreaterEqual(len(lines), 25)
        self.check("files", lines, ARGS.model, walks=3)


class LongTest(SchemasTest):
    def test_random(self):
        self.check("random", make_random_schemas.schemas(40, 4000), ARGS.model, walks=10)

    def test_written(self):
        self.check("written", written(), ARGS.model, walks=100)

    def test_written_by_a_large_vocabulary(self):
        self.check("written", written(), ARGS.large, walks=20)

    def test_pydantic_by_a_large_vocabulary(self):
        self.check("pydantic", of_packages("pydantic", sys.executable, packages.is_here), ARGS.large, walks=10)


class PackagesTest(SchemasTest):
    def test_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            python = packages.install(folder, [DATA / "pydantic.jsonl", DATA / "files.jsonl"])
            for kind in ("pydantic", "files"):
                lines = of_packages(kind, python, lambda entry: not packages.is_here(entry))
                self.assertGreaterEqual(len(lines), 30)
                self.check(kind, lines, ARGS.model, walks=10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--large")
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], *rest])
