#!/usr/bin/env python3
"""Runs every ```sh block of curl commands in README.md and docs/api.md against `ropeway serve`. A block
followed by a ```json block must print exactly that; any other must not print an error, and the answer
that the README's transcript shows must be the one that its command gets.

usage: docs_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import smoke_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n?```json\n(.*?)```)?", re.DOTALL)


def check(server, name, commands, expected):
    """What is wrong with the block's output; None if nothing is."""
    words = commands.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    reply = subprocess.run(["bash", "-euc", words], capture_output=True, text=True, timeout=120,
                           check=False)
    if reply.returncode != 0 or not reply.stdout.strip():
        return f"{name}: exit code {reply.returncode}: {commands}{reply.stdout}{reply.stderr}"
    if expected and json.loads(reply.stdout) != json.loads(expected):
        return f"{name}: {commands}printed {reply.stdout}, documented is {expected}"
    if not expected and '"error"' in reply.stdout:
        return f"{name}: {commands}printed {reply.stdout}"
    if name == "README.md":
        answer = json.loads(reply.stdout)["choices"][0]["message"]["content"]
        if answer not in " ".join((ROOT / name).read_text(encoding="utf-8").split()):
            return f"{name}: the transcript does not show the answer {answer!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_args(namespace=smoke_test.ARGS)
    server = smoke_test.Server()
    wrong = []
    blocks = 0
    try:
        for name in ("README.md", "docs/api.md"):
            found = [m.groups() for m in BLOCK.finditer((ROOT / name).read_text(encoding="utf-8"))
                     if m.group(1).lstrip().startswith("curl")]
            if not found:
                wrong.append(f"{name}: no curl block found")
            blocks += len(found)
            wrong += filter(None, (check(server, name, *groups) for groups in found))
    finally:
        server.stop()
    print("\n".join(wrong) if wrong else f"{blocks} blocks print what they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
