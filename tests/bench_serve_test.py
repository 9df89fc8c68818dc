#!/usr/bin/env python3
"""Runs the examples of docs/benchmarks.md against `ropeway serve`, and holds what they write against what
the page says: the CSV's columns and order, the JSON's members, one sentence and exit code 1 for nonsense.

usage: bench_serve_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import smoke_test

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
WRONG = []


def expect(what, good):
    if not good:
        WRONG.append(what)


def run(command, folder):
    """`command` in `folder`, where `ropeway` is the program under test."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-euc", command], cwd=folder, env=environment, text=True,
                          capture_output=True, timeout=240, check=False)


def check_csv(path, page):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = re.search(r"## The CSV\n(.*?)\nKinds of errors", page, re.DOTALL).group(1)
    named = [name for line in columns.splitlines() if line.startswith("| `")
             for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    expect(f"the page names the columns {named}, the file has {list(rows[0])}",
           sorted(named) == sorted(rows[0]))
    order = [(int(row["run_num"]), int(row["seq"])) for row in rows]
    expect(f"20 rows by run and seq, not {order}", order == [(1, seq) for seq in range(20)])
    for row in rows:
        good = (row["status"] == "200" and row["error"] == "" and row["output_tokens"] == "8"
                and row["input_tokens"] == "128" and row["total_tokens"] == "136"
                and len(json.loads(row["prompt"])) == 128 and row["output_prompt"]
                and row["batch_num"].isdigit() and row["tokens_estimated"] == "0"
                and 0 < float(row["ttft"]) <= float(row["latency"]))
        expect(f"a good row, not {row}", good)
        if not good:
            break


def check_json(path):
    metrics = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["all"]
    expect(f"20 requests of 8 tokens, not {metrics}",
           metrics["succeeded"] == 20 and metrics["output_tokens"] == 160
           and metrics["input_tokens"] == 2560 and "good_requests_per_s" in metrics
           and 0 < metrics["generator_cpu_share"] < 1)
    for name in ("ttft_s", "itl_s", "tpot_s", "e2e_s"):
        expect(f"{name} has its quantiles", {"mean", "p50", "p90", "p99"} <= set(metrics[name]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_args(namespace=smoke_test.ARGS)
    page = PAGE.read_text(encoding="utf-8")
    examples = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    expect("the page has examples", len(examples) >= 3)
    server = smoke_test.Server()
    try:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "ropeway").symlink_to(pathlib.Path(smoke_test.ARGS.ropeway).resolve())
            for example in examples:
                reply = run(example.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}"), folder)
                expect(f"{example}{reply.stdout}{reply.stderr}exit code {reply.returncode}",
                       reply.returncode == 0 and " succeeded, 0 failed" in reply.stdout)
            check_csv(pathlib.Path(folder) / "requests.csv", page)
            check_json(pathlib.Path(folder) / "summary.json")
            reply = run("ropeway bench serve --num-prompts 0", folder)
            expect(f"one sentence, not {reply}", reply.returncode == 1 and reply.stdout == ""
                   and reply.stderr.count("\n") == 1 and "--num-prompts" in reply.stderr)
    finally:
        server.stop()
    print("\n".join(WRONG) if WRONG else f"{len(examples)} examples do what the page says")
    return 1 if WRONG else 0


if __name__ == "__main__":
    sys.exit(main())
