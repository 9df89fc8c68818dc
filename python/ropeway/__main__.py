"""python -m ropeway: the program `ropeway`, which the wheel brings."""

import os
import sys

from ropeway._program import path


def main() -> None:
    program = path()
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"python -m ropeway: there is no {program} to run, which `pip install .` puts there: {error.strerror}")


if __name__ == "__main__":
    main()
