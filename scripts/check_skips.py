#!/usr/bin/env python3
"""check_skips.py JUNIT.xml: fails if a test was skipped without naming the hardware it lacks.

A test may be skipped only by saying "needs hardware: ..." (for instance GTEST_SKIP() << "needs
hardware: AVX-512 VNNI"). Everything else that does not run, a disabled test included, would be a
test whose absence goes unnoticed.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

REASON = re.compile(r"(needs|missing) hardware: \S")


def unexplained(report):
    """The names of the tests in ctest's JUnit `report` that did not run and do not say why."""
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    names = []
    for case in cases:
        ran = case.get("status") in ("run", "fail") and case.find("skipped") is None
        if not ran and not REASON.search("".join(case.itertext())):
            names.append(case.get("name"))
    return names


def main():
    names = unexplained(pathlib.Path(sys.argv[1]))
    for name in names:
        print(f'skipped without saying "needs hardware: ...": {name}', file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
