#!/usr/bin/env python3
"""check_left_processes.py finds a process that carries the mark, kills it and fails; and passes without one."""
import os
import pathlib
import subprocess
import sys
import unittest

CHECK = pathlib.Path(__file__).with_name("check_left_processes.py")
TESTS = CHECK.parent.parent / "tests"


def check(mark):
    return subprocess.run([sys.executable, CHECK, mark], capture_output=True, text=True, check=False, timeout=60)


class CheckLeftProcessesTest(unittest.TestCase):
    def setUp(self):
        self.name, self.value = "ROPEWAY_LEFT_TEST", str(os.getpid())
        self.mark = f"{self.name}={self.value}"
        self.environment = {**os.environ, self.name: self.value}

    def test_nothing_left(self):
        subprocess.run(["true"], env=self.environment, check=True)
        reply = check(self.mark)
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))

    def test_a_grandchild_is_found_and_killed(self):
        # The shell ends at once and leaves the other process behind.
        subprocess.run(["sh", "-c", "sleep 300 >/dev/null 2>&1 &"], env=self.environment, check=True)
        reply = check(self.mark)
        self.assertEqual(reply.returncode, 1)
        self.assertRegex(reply.stderr, r"\Aa test left a process behind: \d+ sleep 300 \n\Z")
        self.assertEqual(check(self.mark).returncode, 0)

    def test_a_child_of_a_killed_test_is_killed(self):
        # The child has asked for its end once it is no longer setpriv.
        script = (f"import sys; sys.path.insert(0, {str(TESTS)!r}); import child, os, pathlib, signal, time\n"
                  "started = child.start(['sleep', '300'])\n"
                  "while pathlib.Path(f'/proc/{started.pid}/comm').read_text() != 'sleep\\n': time.sleep(0.01)\n"
                  "os.kill(os.getpid(), signal.SIGKILL)")
        subprocess.run([sys.executable, "-c", script], env=self.environment, check=False)
        self.assertEqual(check(self.mark).returncode, 0)


if __name__ == "__main__":
    unittest.main()
