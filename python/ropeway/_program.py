"""Where the program `ropeway` of this wheel is."""

import os


def path() -> str:
    return os.path.join(os.path.dirname(__file__), "bin", "ropeway")
