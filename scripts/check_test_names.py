#!/usr/bin/env python3
"""check_test_names.py [ROOT]: every test that README.md, CONTRIBUTING.md or a page of docs/ names exists.

Of what stands in backticks these are names: `Suite.Name`, where the page goes on `.Name` and `.Other` of the same suite
in a paragraph or a row of a table; a suite alone, `SuiteTest`; a file, `x_test.cc`, `tests/y_test.py` or `src/z.h`; and
tests that CMake adds one by one, `sim_catches_PLANT` and `fuzz_corpus_TARGET`. A suite is one of GoogleTest or a class
of Python's unittest. Prints one line for each name that nothing has, and for each test without its suite; exit code 1
if there is one.
"""

import pathlib
import re
import sys

SOURCES = ("src", "tests", "sim", "bench", "fuzz", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")

GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
UNITTEST = re.compile(r"^class (\w+)\(.*\):$|^    def (test_\w+)\(", re.MULTILINE)
CLASS = re.compile(r"\b(?:class|struct) (\w+)")
CMAKE_TEST = re.compile(r"\b(?:add_test\(\s*NAME|ropeway_system_g?test\(\s*(?:NAME)?)\s*([\w${}]+)")

QUOTED = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]*\w\.(?:cc|h|py|sh)")
FULL_NAME = re.compile(r"([A-Z]\w+)\.([A-Z]\w+|test_\w+)")
SUITE = re.compile(r"[A-Z]\w*Test")
ADDED = re.compile(r"(?:sim|fuzz_corpus)_\w+")
SENTENCE = re.compile(r"[A-Z][a-z0-9]*(?:[A-Z][a-z0-9]+){4,}")  # A test's name, most likely.
PLACEHOLDER = re.compile(r"x(?:_test)?\.cc|\w*_[A-Z]+")


class Tests:
    """All tests below a folder."""

    def __init__(self, root):
        self.suites = {}  # Name -> names of its tests.
        self.files = []
        self.added = set()  # Names that CMake gives.
        self.classes = set()
        for folder in SOURCES:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in (".cc", ".h", ".py", ".sh"):
                    self.files.append(path.relative_to(root).as_posix())
                if path.suffix == ".h":
                    self.classes.update(CLASS.findall(path.read_text(encoding="utf-8")))
                if path.name.endswith("_test.cc"):
                    self.add_gtests(path.read_text(encoding="utf-8"))
                elif path.suffix == ".py":
                    self.add_unittests(path.read_text(encoding="utf-8"))
                elif path.name == "CMakeLists.txt":
                    self.add_cmake_tests(path.read_text(encoding="utf-8"))

    def add_gtests(self, text):
        for suite, name in GTEST.findall(text):
            self.suites.setdefault(suite, set()).add(name)

    def add_unittests(self, text):
        suite = None
        for of_class, name in UNITTEST.findall(text):
            suite = of_class or suite
            if name and suite:
                self.suites.setdefault(suite, set()).add(name)

    def add_cmake_tests(self, text):
        self.added.update(name for name in CMAKE_TEST.findall(text) if "$" not in name)
        self.added.update(f"fuzz_corpus_{target}" for target in re.findall(r"\bropeway_fuzz_target\((\w+)", text))
        if "sim_catches_${plant}" in text:
            self.added.update(f"sim_catches_{plant}" for plant in re.findall(r"\b(\w+)=\w+", text))

    def has_file(self, name):
        return any(f"/{path}".endswith(f"/{name}") for path in self.files)

    def has_class(self, name):
        return name in self.classes


def unknown_names(text, tests):
    """The (line number, name) of each name in the text of a page that no test has."""
    found = []
    suite = None  # That `.Name` belongs to.
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("|"):
            suite = None
        for name in QUOTED.findall(line):
            if PLACEHOLDER.fullmatch(name):
                continue
            if FILE.fullmatch(name):
                known = tests.has_file(name)
            elif full := FULL_NAME.fullmatch(name):
                suite = full.group(1)
                known = full.group(2) in tests.suites.get(suite, ())
            elif re.fullmatch(r"\.[A-Z]\w+|\.test_\w+", name):
                known = name[1:] in tests.suites.get(suite, ())
            elif SUITE.fullmatch(name) or name in tests.suites:
                suite = name
                known = name in tests.suites
            elif ADDED.fullmatch(name):
                known = name in tests.added
            elif SENTENCE.fullmatch(name):
                known = tests.has_class(name)
            else:
                continue
            if not known:
                found.append((number, name))
    return found


def check(root):
    """What is wrong, a line each."""
    tests = Tests(root)
    wrong = []
    for pattern in PAGES:
        for page in sorted(root.glob(pattern)):
            for number, name in unknown_names(page.read_text(encoding="utf-8"), tests):
                wrong.append(f"{page.relative_to(root)}:{number}: there is no test `{name}`")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    wrong = check(root)
    print("\n".join(wrong) if wrong else "every test that the documents name exists")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
