"""python -m ropeway: the program `ropeway`, which the wheel brings."""

import os
import sys

from ropeway._program import path


def main() -> None:
    program = path()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
