#!/usr/bin/env python3
"""The files that the program reads and writes may be another's, hostile or cut off, and their disk full: it says so, and
never dies of it.

A full disk is a tmpfs in a mount namespace of our own. Where the system allows none, files that may not grow
(RLIMIT_FSIZE) take its place. A disk that is full from each single write on: rocks_state_db_test.cc,
disk_directory_test.cc.

usage: files_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf [unittest flags]
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from ropeway_server import eventually
from smoke_test import ARGS, Server

IN_NAMESPACE = "ROPEWAY_TEST_MAY_MOUNT"
COMPLETION = {"prompt": "The cable car", "max_tokens": 4, "ignore_eos": True, "temperature": 0}
LEVELS = (0, 4096, 8192, 16384, 32768, 65536, 131072, 1 << 20)  # Bytes that are left.


def run(*words, limit=None, timeout=120):
    """The program's end. `limit`: no file may grow beyond so many bytes."""
    def shrink():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run([ARGS.ropeway, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=timeout, stdin=subprocess.DEVNULL,
                          preexec_fn=shrink if limit is not None else None)


class SmallDisk:
    """A folder on a file system of its own, of 20 MiB."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ropeway-full-"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", self.path], check=True)

    def fill(self, left):
        """Until so many bytes are free, or fewer."""
        with (self.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while (free := shutil.disk_usage(self.path).free) > left:
                file.write(bytes(min(free - left, 1 << 20)))

    def empty(self):
        (self.path / "filler").unlink(missing_ok=True)

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        self.path.rmdir()


class FullDiskTest(unittest.TestCase):
    def setUp(self):
        self.may_mount = IN_NAMESPACE in os.environ
        if self.may_mount:
            self.disk = SmallDisk()
            self.addCleanup(self.disk.close)

    def serve(self, *flags):
        server = Server("--threads", "1", "--kv-cache-size", "16MiB", *flags, model=ARGS.tiny)
        self.addCleanup(server.process.kill)
        return server

    def serves(self, server):
        status, reply = server.post("/v1/completions", COMPLETION)
        self.assertEqual(status, 200, reply)

    def ends(self, server):
        code, output = server.stop()
        self.assertEqual(code, 0, output)
        return output

    def starts_and_serves(self, *flags):
        server = self.serve(*flags)
        self.serves(server)
        return self.ends(server)

    def test_a_server_starts_where_its_state_cannot_be_stored(self):
        if not self.may_mount:
            return self.without_a_mount("serve", "--state-path")
        for left in LEVELS:
            with self.subTest(left=left):
                state = self.disk.path / "state"
                shutil.rmtree(state, ignore_errors=True)
                self.disk.empty()
                self.disk.fill(left)
                output = self.starts_and_serves("--state-path", state)
                if left == 0:
                    self.assertIn("state cannot be stored", output)
        self.disk.empty()
        self.assertNotIn("cannot be stored", self.starts_and_serves("--state-path", state))
        return None

    def test_a_session_is_an_error_where_it_cannot_be_stored(self):
        if not self.may_mount:
            return self.without_a_mount("run", "--session")
        folder = self.disk.path / "talk.session"
        words = ("run", "--model", ARGS.tiny, "--ignore-eos", "--max-tokens", "4", "--session", folder, "Hello")
        for made in (False, True):
            for left in LEVELS:
                with self.subTest(made=made, left=left):
                    shutil.rmtree(folder, ignore_errors=True)
                    self.disk.empty()
                    if made:
                        self.assertEqual(run(*words).returncode, 0)
                    self.disk.fill(left)
                    ended = run(*words)
                    self.assertIn(ended.returncode, (0, 1), ended.stderr)
                    if ended.returncode == 1:
                        self.assertRegex(ended.stderr, "No space left|is full|cannot be made|cannot create the directory")
        # There is room again, and the conversation goes on.
        self.disk.empty()
        ended = run(*words)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return None

    def test_a_disk_tier_that_is_full_is_off_and_serving_starts(self):
        if not self.may_mount:
            return self.without_a_mount("serve", "--kv-disk-path")
        tier = self.disk.path / "kv"
        flags = ("--kv-disk-path", tier, "--kv-disk-size", "12MiB")
        for made in (False, True):
            for left in LEVELS:
                with self.subTest(made=made, left=left):
                    shutil.rmtree(tier, ignore_errors=True)
                    self.disk.empty()
                    if made:
                        self.starts_and_serves(*flags)
                    self.disk.fill(left)
                    server = self.serve(*flags)
                    self.serves(server)
                    on = server.metric("ropeway_kv_disk_on")
                    output = self.ends(server)
                    # Blocks that fit no more when they are flushed, later, turn it off too.
                    self.assertIn(output.count("is off until the next start"), (1,) if on == 0 else (0, 1), output)
                    self.assertNotIn("are removed", output)
        return None

    def test_a_disk_that_fills_up_while_serving(self):
        if not self.may_mount:
            return None  # The C++ tests do it.
        server = self.serve("--state-path", self.disk.path / "state", "--kv-disk-path", self.disk.path / "kv",
                            "--kv-disk-size", "12MiB", "--kv-disk-write-rate", "200MiB/s",
                            "--preempt-checkpoint", "always")
        numbers = random.Random(3)
        for left in (8 << 20, 1 << 20, 65536, 4096, 0):
            self.disk.fill(left)
            for _ in range(6):
                prompt = [numbers.randrange(3, 267) for _ in range(600)]
                status, reply = server.post("/v1/completions", {**COMPLETION, "prompt": prompt})
                self.assertEqual(status, 200, reply)
            time.sleep(0.5)  # The tier flushes.
        output = self.ends(server)
        self.assertLessEqual(output.count("is off until the next start"), 1, output)
        return None

    def test_stored_answers_on_a_full_disk(self):
        if not self.may_mount:
            return  # The C++ tests do it.
        flags = ("--state-path", self.disk.path / "state")
        body = {"input": "word " * 200, "max_output_tokens": 4, "ignore_eos": True, "seed": 1}
        server = self.serve(*flags)
        kept = {}  # By id.

        def store(**more):
            status, reply = server.post("/v1/responses", {**body, **more})
            if status == 200:
                kept[reply["id"]] = reply["output"]
            return status, reply

        self.assertEqual(store()[0], 200)
        self.disk.fill(0)
        # What the log has claimed before is still written.
        refused = next((reply for status, reply in (store() for _ in range(5000)) if status != 200), None)
        self.assertIsNotNone(refused, "a full disk takes 5,000 answers")
        self.assertRegex(refused["error"]["message"], "No space left|is full|cannot be stored")
        for more in ({"store": False}, {"background": True}, {}):
            status, reply = store(**more)
            self.assertEqual(status, 200 if more == {"store": False} else 503, reply)
            if more == {"store": False}:
                del kept[reply["id"]]
        self.serves(server)
        # All that was accepted is there; and again once there is room, also after a kill.
        self.shows(server, kept)
        self.disk.empty()
        eventually(lambda: store()[0] == 200, "answers are stored again")
        server.process.kill()
        server.process.wait()
        server = self.serve(*flags)
        self.shows(server, kept)
        self.ends(server)

    def shows(self, server, kept):
        for identifier, output in kept.items():
            status, text, _ = server.get(f"/v1/responses/{identifier}")
            self.assertEqual(status, 200, text)
            self.assertEqual(json.loads(text)["output"], output)

    def without_a_mount(self, command, flag):
        """Files that may not grow: it may reject the directory, but it does not die."""
        for limit in (0, 16, 4096, 16384, 65536):
            with self.subTest(limit=limit), tempfile.TemporaryDirectory(prefix="ropeway-full-") as folder:
                words = [command, "--model", ARGS.tiny, flag, pathlib.Path(folder) / "it.session"]
                if command == "serve":
                    # A port that is taken ends it once all is open.
                    words += ["--kv-cache-size", "16MiB", "--port", "1", "--host", "192.0.2.1"]
                else:
                    words += ["--ignore-eos", "--max-tokens", "4", "Hello"]
                ended = run(*words, limit=limit)
                self.assertIn(ended.returncode, (0, 1), f"{ended.returncode} {ended.stderr}")


class ForeignFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ropeway-foreign-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rejected(self, *words):
        """One sentence, and exit code 1."""
        ended = run(*words)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        return ended.stderr

    def test_a_directory_of_others_is_rejected_untouched(self):
        for names in (["notes.txt"], ["folder/x"], ["generation-00000012/important.txt", "notes.txt"]):
            with self.subTest(names):
                folder = self.folder / str(len(names[0]))
                for name in names:
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text("x", encoding="utf-8")
                said = self.rejected("serve", "--model", ARGS.tiny, "--kv-cache-size", "16MiB", "--port", "0",
                                     "--kv-disk-path", folder)
                self.assertIn("was not made by Ropeway", said)
                self.assertEqual(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
                                 names)

    def test_a_damaged_format_costs_no_blocks(self):
        flags = ("--threads", "1", "--kv-cache-size", "16MiB", "--kv-disk-path", self.folder)
        server = Server(*flags, model=ARGS.tiny)
        self.addCleanup(server.process.kill)
        prompt = [5 + i % 250 for i in range(400)]
        server.post("/v1/completions", {**COMPLETION, "prompt": prompt})
        self.assertEqual(server.stop()[0], 0)
        form = self.folder / "FORMAT"
        good = form.read_bytes()
        form.write_bytes(good.replace(b"block_bytes", b"block_byteS"))
        said = self.rejected("serve", "--model", ARGS.tiny, "--port", "0", *flags)
        self.assertIn("FORMAT': is damaged", said)
        form.write_bytes(good)
        server = Server(*flags, model=ARGS.tiny)
        self.addCleanup(server.process.kill)
        self.assertGreater(server.metric("ropeway_kv_disk_blocks"), 0)
        self.assertEqual(server.stop()[0], 0)

    def test_a_deep_toml_file_is_a_sentence(self):
        file = self.folder / "deep.toml"
        for text in ("a" + ".a" * 99_999 + " = 1\n", "[" + "a." * 99_999 + "a]\n", "x = " + "[" * 100_000):
            file.write_text(text, encoding="utf-8")
            file.chmod(0o600)
            for flags in (("--config", file), ("--api-keys", file)):
                with self.subTest(text=text[:10], flag=flags[0]):
                    said = self.rejected("serve", "--model", ARGS.tiny, "--port", "0", *flags)
                    self.assertIn("deep.toml", said)
                    self.assertRegex(said, "more than 16 parts|more than 32 brackets")

    def test_a_model_that_is_cut_off_while_it_loads(self):
        whole = pathlib.Path(ARGS.model).stat().st_size
        numbers = random.Random(14)
        ends = []
        for _ in range(10):
            model = self.folder / "model.gguf"
            shutil.copyfile(ARGS.model, model)
            size, delay = numbers.randrange(whole), numbers.uniform(0, 0.2)
            cutter = threading.Timer(delay, os.truncate, (model, size))
            cutter.start()
            ended = run("run", "--model", model, "--raw", "--max-tokens", "1", "Hello")
            cutter.join()
            self.assertIn(ended.returncode, (0, 1), f"cut to {size} after {delay:.3f} s: {ended.stderr}")
            if ended.returncode == 1:
                self.assertIn(str(model), ended.stderr)
            ends.append(ended.returncode)
        self.assertIn(1, ends, "no load met the end of the file")


def enter_namespace():
    """Runs this program anew where it may mount, if the system allows that."""
    for words in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        with tempfile.TemporaryDirectory(prefix="ropeway-mount-") as folder:
            tried = subprocess.run([*words, "mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if tried.returncode == 0:
            os.environ[IN_NAMESPACE] = "1"
            os.execvp(words[0], [*words, sys.executable, *sys.argv])
    print("no file system can be mounted here: files that may not grow take its place", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny", required=True)
    _, rest = parser.parse_known_args(namespace=ARGS)
    if IN_NAMESPACE not in os.environ:
        enter_namespace()
    unittest.main(argv=[sys.argv[0], "-v", *rest])
