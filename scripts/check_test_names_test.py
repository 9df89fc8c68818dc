#!/usr/bin/env python3
"""Plants names that no test has in a page of a small tree and expects check_test_names.py to find each one."""

import pathlib
import tempfile
import unittest

import check_test_names

TREE = {
    "src/core/batch_test.cc": "TEST(BatchTest, IsEmpty) {}\nTEST_F(BatchTest,\n       IsFull) {}\nTEST(Tls, Works) {}\n",
    "src/core/batch.h": "class ABatchThatIsNotFullYet {};\n",
    "tests/life_test.py": "class LifeTest(unittest.TestCase):\n    def test_ends(self):\n        pass\n",
    "tests/CMakeLists.txt": "ropeway_system_test(life_test COMMAND x)\n",
    "sim/CMakeLists.txt": "add_test(NAME sim_400_seeds COMMAND x)\nforeach(planted leak=integrity)\n"
                          "add_test(NAME sim_catches_${plant} COMMAND x)\n",
    "fuzz/CMakeLists.txt": "ropeway_fuzz_target(http SOURCES http_fuzz.cc)\n",
    "docs/page.md": "",
}


class CheckTestNamesTest(unittest.TestCase):
    def wrong(self, page):
        """The names that the page should not have."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**TREE, "docs/page.md": page}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return [line.split("`")[1] for line in check_test_names.check(root)]

    def test_names_that_exist(self):
        self.assertEqual(self.wrong(
            "`BatchTest.IsEmpty`, `.IsFull`; `Tls`, all; `Tls.Works`; `life_test.py`, `tests/life_test.py`\n"
            "`LifeTest.test_ends`, `.test_ends`; `core/batch_test.cc`; `sim_400_seeds`, `sim_catches_leak`\n"
            "`fuzz_corpus_http`; `ABatchThatIsNotFullYet`; `x_test.cc`, `fuzz_corpus_TARGET`; `KvCache`, `a.toml`\n"), [])

    def test_names_that_do_not(self):
        for name in ("BatchTest.IsGone", "GoneTest.IsEmpty", "GoneTest", "Tsl.Works", "LifeTest.test_begins",
                     "gone_test.py", "src/core/life_test.py", "sim_catches_gone", "fuzz_corpus_gone"):
            self.assertEqual(self.wrong(f"Text, and `{name}`.\n"), [name])

    def test_a_name_goes_on_within_its_paragraph(self):
        self.assertEqual(self.wrong("`BatchTest.IsEmpty`,\n`.IsFull`\n"), [])
        self.assertEqual(self.wrong("`BatchTest.IsEmpty`\n\n`.IsFull`\n"), [".IsFull"])
        self.assertEqual(self.wrong("| `BatchTest.IsEmpty` |\n| `.IsFull` |\n"), [".IsFull"])
        self.assertEqual(self.wrong("`BatchTest.IsEmpty`, `Tls`, `.IsFull`\n"), [".IsFull"])

    def test_a_test_without_its_suite(self):
        self.assertEqual(self.wrong("`ABatchThatIsFullIsNotEmpty`\n"), ["ABatchThatIsFullIsNotEmpty"])


if __name__ == "__main__":
    unittest.main()
