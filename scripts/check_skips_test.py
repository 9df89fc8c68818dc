#!/usr/bin/env python3
"""check_skips.py against reports as ctest 3.25 writes them."""

import pathlib
import tempfile
import unittest

import check_skips

RAN = '<testcase name="Ran" status="run"><system-out>needs nothing</system-out></testcase>'
FAILED = '<testcase name="Failed" status="fail"><failure message=""/></testcase>'
HARDWARE = ('<testcase name="Vnni" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
            "<system-out>Skipped\nneeds hardware: AVX-512 VNNI\n[  SKIPPED ]</system-out></testcase>")
SILENT = ('<testcase name="Silent" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
          "<system-out>[  SKIPPED ] no model here</system-out></testcase>")
DISABLED = '<testcase name="Disabled" status="disabled"><system-out>Disabled</system-out></testcase>'


class CheckSkipsTest(unittest.TestCase):
    def unexplained(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "junit.xml"
            report.write_text("<testsuite>" + "".join(cases) + "</testsuite>")
            return check_skips.unexplained(report)

    def test_missing_hardware_is_a_reason(self):
        self.assertEqual(self.unexplained(RAN, FAILED, HARDWARE), [])

    def test_anything_else_is_named(self):
        self.assertEqual(self.unexplained(SILENT, RAN, DISABLED), ["Silent", "Disabled"])


if __name__ == "__main__":
    unittest.main()
