#!/usr/bin/env python3
"""check_old_cpus.py [BUILD]: runs the program of BUILD (default build/dev) on emulated older CPUs.

One has AVX2 and no AVX-512, one has neither (qemu-user 7.2 emulates no AVX-512). On each, the
kernels' tests and a completion that a tiny random model serves must run without an illegal
instruction, and the completion must be what this machine's own CPU says, log-probabilities included.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The CPU, the best instruction set there, and the next one, which it does not have.
CPUS = [("Haswell-noTSX", "avx2", "avx512vnni"), ("Nehalem", "reference", "avx2")]
# As the file's own tokenizer reads it, at 20 rows and at one; the tiny model knows single bytes.
REQUEST = {"prompt": "The rope never stops", "max_tokens": 8, "temperature": 0, "logprobs": 2,
           "ignore_eos": True}
START_SECONDS = 300
REPLY_SECONDS = 300


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=REPLY_SECONDS) as reply:
        return json.loads(reply.read())


def address_of(server, log):
    """Where the server listens, once it says so."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        log.seek(0)
        if found := re.search(r" on (http://\S+)\n", log.read()):
            return found.group(1)
        if server.poll() is not None:
            sys.exit(f"the server ended with status {server.returncode}"
                     f"{' (illegal instruction)' if server.returncode == -4 else ''}")
        time.sleep(0.2)
    sys.exit(f"the server was not ready in {START_SECONDS} s")


def serve(program, model, emulator, isa, log=subprocess.DEVNULL):
    """A server that uses `isa`, or where that is None, what it finds best."""
    environment = {name: value for name, value in os.environ.items() if name != "ROPEWAY_ISA"}
    if isa:
        environment["ROPEWAY_ISA"] = isa
    return subprocess.Popen(
        emulator + [program, "serve", "--model", model, "--port", "0", "--threads", "1",
                    "--kv-cache-size", "16MiB"], stdout=log, stderr=subprocess.DEVNULL,
        env=environment)


def rejected(program, model, emulator, isa):
    """Does the program end with an error, and no signal, where it is told to use `isa`?"""
    server = serve(program, model, emulator, isa)
    try:
        return server.wait(START_SECONDS) == 1
    except subprocess.TimeoutExpired:
        return False
    finally:
        server.kill()


def completion(program, model, emulator, isa=None):
    """The choices that the server answers REQUEST with."""
    with tempfile.TemporaryFile("w+") as log:
        server = serve(program, model, emulator, isa, log)
        try:
            return post(address_of(server, log) + "/v1/completions", REQUEST)["choices"]
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "tiny.gguf"
        subprocess.run([build / "tests" / "make_tiny_model", model], check=True)
        program = build / "ropeway"
        native = completion(program, model, [])
        for cpu, best, missing in CPUS:
            start = time.monotonic()
            emulator = ["qemu-x86_64", "-cpu", cpu]
            print(f"{cpu}: kernels_test", flush=True)
            # qemu names on standard error each feature of the CPU that it leaves out. Its
            # /proc/cpuinfo is this machine's.
            subprocess.run(emulator + [build / "src" / "kernels" / "kernels_test", "--gtest_brief=1"],
                           check=True, timeout=1200, stderr=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL,
                           env={**os.environ, "ROPEWAY_TEST_BEST_TABLE": best})
            for isa in (None, best):
                print(f"{cpu}: a served completion, on {isa or 'what it finds'}", flush=True)
                emulated = completion(program, model, emulator, isa)
                if emulated != native:
                    sys.exit(f"{cpu} says\n{json.dumps(emulated)}\n"
                             f"and this CPU\n{json.dumps(native)}")
            if not rejected(program, model, emulator, missing):
                sys.exit(f"{cpu}: ROPEWAY_ISA={missing} is not rejected")
            print(f"{cpu}: good ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
