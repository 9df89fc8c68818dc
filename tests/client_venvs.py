"""Runs tests of clients from PyPI, each in a venv with the packages that it needs."""
import os
import pathlib
import subprocess
import tempfile
import venv


def run_in_venvs(script, packages, environment, alone=()):
    """Runs `script` with the name of each test of `packages`, a map to what to install for it, and with these variables set.
    Returns whether all passed. Tests with the same packages share a venv. `alone`: installed
    in each without what they depend on."""
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        pythons = {}
        for needed in dict.fromkeys(packages.values()):
            home = pathlib.Path(folder, str(len(pythons)))
            venv.create(home, with_pip=True)
            pythons[needed] = home / "bin" / "python"
            for words in (needed, ("--no-deps", *alone)) if alone else (needed,):
                subprocess.run([pythons[needed], "-m", "pip", "install", "-q", "--disable-pip-version-check", *words], check=True)
        for test, needed in packages.items():
            done = subprocess.run([pythons[needed], script, "-v", test], env={**os.environ, **environment}, check=False)
            passed = passed and done.returncode == 0
    return passed
