#!/usr/bin/env python3
"""Checks the table of docs/fields.md, which fields each dialect of the API takes, against the rows of the program.

usage: fields_test.py --table PROGRAM [--update]

--update writes the table anew instead. PROGRAM: dialect_table, which prints the rows.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "fields.md"
TABLE = re.compile(r"^\| field \|.*\n(?:\|.*\n)+", re.M)
MAKER = re.compile(r"std::unique_ptr<ApiFormat> (Make\w+)\(\);")


def table(dialects):
    """In Markdown: a row for each field, a column for each dialect."""
    names = sorted({name for fields in dialects.values() for name in fields})
    lines = ["| field | " + " | ".join(dialects) + " |", "| --- |" + " --- |" * len(dialects)]
    for name in names:
        lines.append(f"| `{name}` | " + " | ".join(fields.get(name, "") for fields in dialects.values()) + " |")
    return "".join(line.replace(" |  |", " | |").replace("|  |", "| |") + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", required=True)
    parser.add_argument("--update", action="store_true")
    flags = parser.parse_args()
    done = subprocess.run([flags.table], capture_output=True, text=True, check=False)
    wrong = [done.stderr] if done.returncode else []
    # No dialect is left out.
    source = (ROOT / "tests" / "dialect_table.cc").read_text(encoding="utf-8")
    for maker in MAKER.findall((ROOT / "src" / "api" / "dialects.h").read_text(encoding="utf-8")):
        if f"api::{maker}}}" not in source:
            wrong.append(f"tests/dialect_table.cc has no row for {maker}")
    if not wrong:
        fresh = table(json.loads(done.stdout))
        page = PAGE.read_text(encoding="utf-8")
        if flags.update:
            PAGE.write_text(TABLE.sub(lambda _: fresh, page), encoding="utf-8")
        elif fresh not in page or len(TABLE.findall(page)) != 1:
            wrong.append("docs/fields.md: its table differs from the program's rows; tests/fields_test.py --update writes it anew")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
