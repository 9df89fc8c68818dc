#!/usr/bin/env python3
"""Runs every ```sh block of curl commands in README.md, docs/api.md, docs/structured_output.md, docs/tools.md, docs/embeddings.md,
docs/clients/llamacpp.md and docs/responses.md against `ropeway serve`, and all of docs/security.md, in order: its TLS files, its keys, its server and its curl
commands, and the answer of docs/responses.md that survives a kill. A block followed by a ```json block must print exactly that; any other must not print an error,
and the answer that the README's transcript shows must be the one that its command gets. Each metric of
the server must be named in a page.

usage: docs_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import shlex
import ssl
import subprocess
import sys
import tempfile

import smoke_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n?```json\n(.*?)```)?", re.DOTALL)


class TlsServer(smoke_test.Server):
    """A server with a self-signed certificate."""

    def connect(self, timeout):
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)


def check(server, name, commands, expected):
    """What is wrong with the block's output; None if nothing is."""
    words = commands.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}")
    words = words.replace("localhost:8443", f"localhost:{server.port}")
    reply = subprocess.run(["bash", "-euc", words], capture_output=True, text=True, timeout=120,
                           check=False)
    if reply.returncode != 0 or not reply.stdout.strip():
        return f"{name}: exit code {reply.returncode}: {commands}{reply.stdout}{reply.stderr}"
    if expected and json.loads(reply.stdout) != json.loads(expected):
        return f"{name}: {commands}printed {reply.stdout}, documented is {expected}"
    if not expected and re.search(r'"error": ?[^n]', reply.stdout):
        return f"{name}: {commands}printed {reply.stdout}"
    if name == "README.md":
        answer = json.loads(reply.stdout)["choices"][0]["message"]["content"]
        if answer not in " ".join((ROOT / name).read_text(encoding="utf-8").split()):
            return f"{name}: the transcript does not show the answer {answer!r}"
    return None


def blocks_of(name, begin="curl"):
    """The (commands, expected output) of the page's blocks that begin with this word."""
    return [m.groups() for m in BLOCK.finditer((ROOT / name).read_text(encoding="utf-8"))
            if m.group(1).split()[0] == begin]


def unnamed_metrics(server):
    """The metrics that no page names. A name in a row may stand for the beginning of the next: `ropeway_x_total`, `..._y_total`."""
    connection = server.connect(60)
    connection.request("GET", "/metrics")
    names = re.findall(r"^# TYPE (\S+) ", connection.getresponse().read().decode(), re.MULTILINE)
    connection.close()
    assert len(names) > 50, names
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"`(\w+)(?:\{[\w,]*\})?`", pages))
    ends = tuple(re.findall(r"`\.\.\.(_\w+)`", pages))
    return [name for name in names if name not in named and not name.endswith(ends)]


def check_security():
    """Does what docs/security.md says, in an empty folder; how many blocks, and what is wrong."""
    name = "docs/security.md"
    (make_certificate, _), = blocks_of(name, "openssl")
    (serve, _), = blocks_of(name, "ropeway")
    keys = re.search(r"```toml\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL).group(1)
    smoke_test.ARGS.ropeway = os.path.abspath(smoke_test.ARGS.ropeway)
    smoke_test.ARGS.model = os.path.abspath(smoke_test.ARGS.model)
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            subprocess.run(["bash", "-euc", make_certificate], check=True, capture_output=True)
            path = pathlib.Path("keys.toml")
            path.write_text(keys, encoding="utf-8")
            path.chmod(0o600)
            words = shlex.split(serve.replace("\\\n", " "))
            assert words[:4] == ["ropeway", "serve", "--port", "8443"], words
            server = TlsServer(*words[4:])
            try:
                found = blocks_of(name)
                return len(found) + 2, [w for block in found if (w := check(server, name, *block))]
            finally:
                output = server.stop()[1]
                assert "can read" not in output, output
        finally:
            os.chdir(home)


def check_stored():
    """Does what docs/responses.md says about an answer that survives a kill, in an empty folder; how many blocks, and what is wrong."""
    name = "docs/responses.md"
    (serve, _), = blocks_of(name, "ropeway")
    flags = shlex.split(serve.partition(" 2>")[0])
    assert flags[:2] == ["ropeway", "serve"], flags
    steps = blocks_of(name, "id=$(curl") + blocks_of(name, "until")
    assert len(steps) == 2, steps
    goes_on = [block for block in blocks_of(name) if "$(cat id)" in block[0]]
    smoke_test.ARGS.ropeway = os.path.abspath(smoke_test.ARGS.ropeway)
    smoke_test.ARGS.model = os.path.abspath(smoke_test.ARGS.model)
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        server = smoke_test.Server(*flags[2:])
        try:
            wrong = [check(server, name, *steps[0])]
            server.process.kill()
            server.process.wait()
            server = smoke_test.Server(*flags[2:])
            wrong += [check(server, name, *block) for block in steps[1:] + goes_on]
        finally:
            server.stop()
            os.chdir(home)
    return 1 + len(steps) + len(goes_on), [w for w in wrong if w]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_args(namespace=smoke_test.ARGS)
    server = smoke_test.Server()
    wrong = []
    blocks = 0
    try:
        for name in ("README.md", "docs/api.md", "docs/structured_output.md", "docs/tools.md",
                     "docs/responses.md", "docs/embeddings.md", "docs/clients/llamacpp.md"):
            found = [block for block in blocks_of(name) if "$(cat id)" not in block[0]]
            if not found:
                wrong.append(f"{name}: no curl block found")
            blocks += len(found)
            wrong += filter(None, (check(server, name, *groups) for groups in found))
        wrong += [f"no page names the metric {name}" for name in unnamed_metrics(server)]
    finally:
        server.stop()
    for more, faults in (check_security(), check_stored()):
        blocks += more
        wrong += faults
    print("\n".join(wrong) if wrong else f"{blocks} blocks print what they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
