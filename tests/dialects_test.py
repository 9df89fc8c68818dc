#!/usr/bin/env python3
"""A dialect of the API is one file and one row of the table of routes (CONTRIBUTING.md, "Files to touch")."""

import pathlib
import re
import unittest

SRC = pathlib.Path(__file__).parent.parent / "src"
ROWS = pathlib.Path("server/routes.cc")
HEADER = pathlib.Path("api/dialects.h")
STORED = pathlib.Path("server/server_context.cc")  # Lists the dialects whose answers can be stored.


def mentions(name, tests):
    """The sources that mention `name`, and how often; of tests or of the program."""
    found = {}
    for path in sorted(SRC.rglob("*")):
        is_test = path.stem.endswith("_test") or path.name.startswith("test_")
        if path.suffix in (".h", ".cc") and is_test == tests:
            if count := len(re.findall(rf"\b{name}\b", path.read_text())):
                found[path.relative_to(SRC)] = count
    return found


class DialectsTest(unittest.TestCase):
    def test_a_dialect_is_one_file_and_one_row(self):
        makers = re.findall(r"std::unique_ptr<ApiFormat> (Make\w+)\(\);", (SRC / HEADER).read_text())
        self.assertGreaterEqual(len(makers), 2)
        for maker in makers:
            found = mentions(maker, tests=False)
            self.assertEqual(found.pop(HEADER), 1, maker)
            self.assertEqual(found.pop(ROWS), 1, maker)
            self.assertEqual(found.pop(STORED, 1), 1, maker)
            self.assertEqual(list(found.values()), [1], f"{maker}: {found}")

    def test_so_is_a_toy(self):
        """That it answers is ApiFormatTest's; the row is in that test's table."""
        self.assertEqual(mentions("MakeToyDialect", tests=False), {})
        found = mentions("MakeToyDialect", tests=True)
        self.assertEqual(found.pop(pathlib.Path("server/test_toy_dialect.cc")), 1)
        # Declared, and named by one row.
        self.assertEqual(found, {pathlib.Path("server/api_format_test.cc"): 2})
        rows = (SRC / "server/api_format_test.cc").read_text()
        self.assertEqual(len(re.findall(r"DialectRoute\([^()]*\bMakeToyDialect,", rows)), 1)

    def test_a_route_is_one_row(self):
        """No list of paths stands beside the table: each stands there, and in its row alone."""
        rows = re.findall(r'^ +(?:(?:Dialect|Count)Route\(context, |\{"([A-Z]+)", )"(/[^"]*)"', (SRC / ROWS).read_text(), re.M)
        self.assertGreaterEqual(len(rows), 15)
        self.assertEqual(len(set(rows)), len(rows))
        for _, path in rows:
            if path == "/":
                continue  # A slash stands for other things, too.
            others = [str(p.relative_to(SRC)) for room in ("server", "http")
                      for p in sorted((SRC / room).rglob("*.cc"))
                      if not p.stem.endswith("_test") and not p.name.startswith("test_")
                      and p.relative_to(SRC) != ROWS and f'"{path}' in p.read_text()]
            self.assertEqual(others, [], path)


if __name__ == "__main__":
    unittest.main()
