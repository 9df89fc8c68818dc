#!/usr/bin/env python3
"""Plants words in the comments of a small tree and expects check_words.py to find each one, and no others."""

import pathlib
import tempfile
import unittest
from unittest import mock

import check_words


class CheckWordsTest(unittest.TestCase):
    def check(self, text, exceptions=(), name="src/core/batch.h"):
        """What check_words says of a tree with one file."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            with mock.patch.object(check_words, "EXCEPTIONS", list(exceptions)):
                return check_words.check(pathlib.Path(folder))

    def found(self, text, **more):
        return [line.split('"')[1] for line in self.check(text, **more)]

    def test_words_in_comments(self):
        for text, word in (
                ("int a;  // Likewise.\n", "Likewise"),
                ("// Nobody waits.\n", "Nobody"),
                ("/* It is told to\n   whom it serves. */\n", "whom"),
                ("int a;  // Used by the loop, as are the next two.\n", "as are the next two"),
                ("// REQUIRES: mu_ is held, as for the next.\n", "as for the next"),
                ("int a;  // Guarded by mutex_.\n", "Guarded by mutex_"),
                ("// Requests of which none runs.\n", "of which"),
                ("// It is gone\n// on with.\n", "is gone on with"),
                ("int a = 1'000; const char b = '\"';  // Who asks.\n", "Who")):
            self.assertEqual(self.found(text), [word], text)

    def test_a_phrase_on_two_lines(self):
        self.assertEqual(self.check("int a;\n// One two, of\n// which three.\n")[0].split(":")[:2],
                         ["src/core/batch.h", "2"])

    def test_what_may_stay(self):
        for text in ("// Ten files, each of which is read.\n", "int whole;  // GUARDED_BY(mu_)\n",
                     'const char* name = "nobody";\n', 'const char* page = R"(\n// nobody\n)";\n',
                     "int nobody = 0;\n", "// The next two rows.\n", "// Whole blocks.\n"):
            self.assertEqual(self.check(text), [], text)

    def test_other_files(self):
        self.assertEqual(self.check("// nobody\n", name="docs/batch.h"), [])
        self.assertEqual(self.check("# nobody\n", name="src/core/CMakeLists.txt"), [])

    def test_exceptions(self):
        text = "// An attacker\n// who listens.\n"
        self.assertEqual(self.found(text), ["who"])
        self.assertEqual(self.check(text, exceptions=[("src/core/batch.h", "attacker who listens")]), [])
        self.assertEqual(self.found(text, exceptions=[("src/core/batch.cc", "attacker who listens")]),
                         ["who", "attacker who listens"])
        self.assertEqual(self.found("// None.\n", exceptions=[("src/core/batch.h", "attacker who")]),
                         ["attacker who"])


if __name__ == "__main__":
    unittest.main()
