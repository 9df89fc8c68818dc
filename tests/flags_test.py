#!/usr/bin/env python3
"""Checks docs/flags.md against the programs ropeway and ropeway-bench, which lie in one folder: each ```text
block after a command's heading is that command's --help-all, word for word; and every example in the help and every
```sh block runs, with the default model or, where its answers and vocabulary do not matter, a tiny one under its name.

usage: flags_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf [--update]

--update writes the page's help blocks anew instead.
"""
import argparse
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import child

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "flags.md"
SECTION = re.compile(r"(^## `(ropeway[a-z -]*)`\n(?:(?!## ).*\n)*?```text\n)((?:(?!```).*\n)*)(```$)", re.M)


@functools.cache
def help_of(program, command):
    name, *words = command.split()
    return subprocess.run([pathlib.Path(program).with_name(name), *words, "--help-all"], capture_output=True, text=True,
                          check=True, timeout=60).stdout


def commands(program, command=None):
    """`command` and all commands below it; those of both programs without one."""
    if command is None:
        yield from commands(program, "ropeway")
        yield from commands(program, "ropeway-bench")
        return
    yield command
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", help_of(program, command), re.M)
    for line in re.findall(r"^  ([\w-]+)", listed.group(1), re.M) if listed else []:
        yield from commands(program, f"{command} {line}")


def check_page(program, page):
    wrong = []
    shown = {name: text for _, name, text, _ in SECTION.findall(page)}
    for command in commands(program):
        if shown.pop(command, None) != help_of(program, command):
            wrong.append(f"{PAGE.name}: the help of `{command}` is missing or differs; "
                         "tests/flags_test.py --update writes it anew")
    return wrong + [f"{PAGE.name}: there is no `{name}`" for name in shown]


class Runner:
    """Runs examples in a folder with `ropeway` on the path and the default model among the fetched ones."""

    def __init__(self, program, model, tiny, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        for cache, file in (("cache", model), ("tiny", tiny)):
            models = folder / cache / "ropeway" / "models"
            models.mkdir(parents=True)
            (models / "SmolLM2-135M-Instruct.Q4_1.gguf").symlink_to(pathlib.Path(file).resolve())
        for name in ("ropeway", "ropeway-bench"):
            (folder / "bin" / name).symlink_to(pathlib.Path(program).resolve().with_name(name))
        for name in ("README.md", "tests"):
            (folder / name).symlink_to(ROOT / name)
        self.environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def check(self, block):
        """What is wrong with it; None if nothing is."""
        serves = re.search(r"^(?:[A-Z_]+=\S+ )*ropeway (?:serve|gateway) ", block, re.M) is not None
        if block.startswith("source"):
            block += "\ncomplete -p ropeway"  # Which alone says whether it did anything.
        block = re.sub(r"(--port |port = )\d+", r"\g<1>0", block)
        cache = self.folder / ("cache" if re.search("ropeway run |ropeway-bench engine ", block) else "tiny")
        process = child.start(["bash", "-euc", re.sub("ropeway (serve|gateway) ", r"exec ropeway \1 ", block)],
                              cwd=self.folder, env={**self.environment, "XDG_CACHE_HOME": str(cache)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if serves:
            while (line := process.stdout.readline()) and "Try:" not in line:
                time.sleep(0)
            process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=240)
        if process.returncode == 0 and (serves or out.strip()):
            return None
        return f"exit code {process.returncode}: {block}\n{out}{error}"


def examples(program, page):
    yield from re.findall(r"```sh\n(.*?)```", page, re.S)
    for command in commands(program):
        if command in ("ropeway bench serve", "ropeway top"):
            continue  # They need a running server; their own tests run them.
        yield from re.findall(r"^Example:\n  (.*)", help_of(program, command), re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny", required=True)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    if args.update:
        page = SECTION.sub(lambda m: m.group(1) + help_of(args.ropeway, m.group(2)) + m.group(4), page)
        PAGE.write_text(page, encoding="utf-8")
    wrong = check_page(args.ropeway, page)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args.ropeway, args.model, args.tiny, pathlib.Path(folder))
        for block in examples(args.ropeway, page):
            count += 1
            wrong += filter(None, [runner.check(block)])
    print("\n".join(wrong) if wrong else f"the page shows every flag; {count} examples run")
    return 1 if wrong or count < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
