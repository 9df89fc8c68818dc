#!/usr/bin/env python3
"""check_left_processes.py NAME=VALUE: fails if a process with this variable in its environment is still there.

scripts/ctest.sh gives the variable to the tests and their children inherit it. Each process that is left is
printed and killed; the exit code is 1 if there was one. A process has a few seconds to end by itself.
"""
import os
import pathlib
import signal
import sys
import time

GRACE_SECONDS = 3


def left(mark):
    """{pid: command line} of the processes with `mark` in their environment."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass  # It ended, or belongs to another user.
    return found


def main():
    mark = sys.argv[1]
    deadline = time.monotonic() + GRACE_SECONDS
    while (found := left(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, command in found.items():
        print(f"a test left a process behind: {pid} {command}", file=sys.stderr)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
