#!/usr/bin/env python3
"""`ropeway top` before a real server and a scripted one: one screen as plain text, and in a pseudo-terminal it draws,
takes keys, follows the terminal's size, connects again, and leaves the terminal as it was.

usage: top_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf
"""
import argparse
import fcntl
import http.server
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

from ropeway_server import RopewayServer

ARGS = argparse.Namespace()
PATIENCE = 60  # Seconds that a busy machine may take.
ADMIN_KEY = "an-admin-key"
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
HELLO = b'event: hello\ndata: {"version":"9.9","kind":"engine","models":["a\\u001b[2Jb"],"slots":1}\n\n'
FRAME = b'event: frame\ndata: {"requests":[],"queue":{}}\n\n'


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name not in ("ROPEWAY_ADMIN_KEY", "NO_COLOR")}
    return {**kept, "TERM": "xterm", **more}


def once(*flags, **more):
    return subprocess.run([ARGS.ropeway, "top", *flags], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, stdin=subprocess.DEVNULL, env=environment(**more))


class Top:
    """`ropeway top` with a terminal of its own."""

    def __init__(self, *flags, rows=24, columns=80, **more):
        self.shown = ""
        ours, theirs = pty.openpty()
        self.terminal, self.theirs = ours, theirs
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(theirs)
        self.process = subprocess.Popen([ARGS.ropeway, "top", *flags], stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env=environment(**more),
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        """Reads until `pattern` matches what came since the last match; replies with the match."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.shown, re.DOTALL)
            if found:
                self.shown = self.shown[found.end():]
                return found.group()
            if not select.select([self.terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise AssertionError(f"no {pattern!r} in {self.shown!r}")
            self.shown += os.read(self.terminal, 65536).decode(errors="replace")

    def send(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        """The exit code, once the screen was left."""
        self.wait_for(re.escape(LEAVE))
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.terminal)
        os.close(self.theirs)


class TopCase(unittest.TestCase):
    def top(self, *flags, **more):
        top = Top(*flags, **more)
        self.addCleanup(top.close)
        return top

    def check_end(self, top, code=0):
        self.assertEqual(top.end(), code)
        self.assertEqual(termios.tcgetattr(top.theirs), top.modes)


class RealServerTest(TopCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RopewayServer(ARGS.ropeway, ARGS.tiny, "--max-num-seqs", "1", "--api-key", "users-key",
                                   "--admin-key", ADMIN_KEY)
        cls.server.admin_key = ADMIN_KEY
        cls.flags = ("--url", f"http://127.0.0.1:{cls.server.port}", "--admin-key", ADMIN_KEY)
        cls.stop = threading.Event()
        cls.clients = [threading.Thread(target=cls.ask) for _ in range(2)]
        for client in cls.clients:
            client.start()

    @classmethod
    def tearDownClass(cls):
        cls.stop.set()
        for client in cls.clients:
            client.join()
        cls.server.process.terminate()
        cls.server.process.wait()

    @classmethod
    def ask(cls):
        while not cls.stop.is_set():
            cls.server.request("POST", "/v1/completions", {"prompt": "one two three", "max_tokens": 64,
                                                           "ignore_eos": True}, key="users-key")

    def once_with_a_running_request(self):
        """One screen, and again while none shows a running request: between two of a client none runs."""
        deadline = time.monotonic() + PATIENCE
        while True:
            reply = once("--once", "--url", f"http://127.0.0.1:{self.server.port}/v1", ROPEWAY_ADMIN_KEY=ADMIN_KEY)
            if " medium running " in reply.stdout:
                return reply
            self.assertLess(time.monotonic(), deadline, reply.stdout + reply.stderr)

    def test_once_prints_one_screen_as_plain_text(self):
        reply = self.once_with_a_running_request()
        self.assertEqual((reply.returncode, reply.stderr), (0, ""))
        self.assertNotIn("\x1b", reply.stdout)
        for pattern in (r"^ ropeway \d\S+  engine  ", r"^Slots   \[[#.]+\] \d/1 running", r"^Blocks .* free",
                        r"^minute +p50 +p95 +p99", r"^TTFT .* ms", r"^ REQUEST TENANT +CLASS +STATE",
                        r" default +medium running .* \d+ +\d+ +\d\.\d s +-$"):
            self.assertRegex(reply.stdout, re.compile(pattern, re.MULTILINE))
        self.assertNotIn("q quit", reply.stdout)
        hour = once("--window", "hour", *self.flags)  # Without a terminal there is no need to say so.
        self.assertRegex(hour.stdout, re.compile("^hour +p50", re.MULTILINE))

    def test_a_key_that_is_missing_or_wrong_is_one_sentence(self):
        without = once("--url", self.flags[1])
        self.assertEqual((without.returncode, without.stdout), (1, ""))
        self.assertRegex(without.stderr, r"^ropeway: \S+ needs its admin key \(HTTP 401\): give it with --admin-key "
                                         r"or in ROPEWAY_ADMIN_KEY\.\n$")
        users = once("--url", self.flags[1], "--admin-key", "users-key")
        self.assertEqual(users.returncode, 1)
        self.assertRegex(users.stderr, r"does not take this admin key \(HTTP 403: [^\n]+\)\.\n$")

    def test_it_draws_takes_keys_and_leaves_the_terminal_as_it_was(self):
        top = self.top(*self.flags)
        top.wait_for(re.escape(ENTER))
        top.wait_for("minute.*TTFT.*REQUEST TENANT.*q.*quit")
        self.assertEqual(termios.tcgetattr(top.theirs)[3] & (termios.ICANON | termios.ECHO), 0)
        top.send("h")
        top.wait_for(r"\x1b\[5;1H\x1b\[2K\x1b\[1mhour ")
        top.send("m")
        top.wait_for(r"\x1b\[5;1H\x1b\[2K\x1b\[1mminute ")
        top.send("p")
        top.wait_for("PAUSED.*go on")
        top.resize(40, 120)
        os.killpg(top.process.pid, signal.SIGWINCH)
        top.wait_for(r"\x1b\[2J.*tenant .*\x1b\[40;1H")
        top.send("q")
        self.check_end(top)

    def test_signals_leave_the_terminal_as_it_was(self):
        for sent, code in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)):
            with self.subTest(sent=sent):
                top = self.top(*self.flags, NO_COLOR="1")
                text = top.wait_for("minute.*q.*quit")
                self.assertNotRegex(text, r"\x1b\[[39]\dm")
                os.kill(top.process.pid, sent)
                self.check_end(top, code)

    def test_a_stopped_one_gives_the_terminal_back_and_goes_on(self):
        top = self.top(*self.flags)
        top.wait_for("minute.*q.*quit")
        os.kill(top.process.pid, signal.SIGTSTP)
        top.wait_for(re.escape(LEAVE))
        os.waitid(os.P_PID, top.process.pid, os.WSTOPPED | os.WNOWAIT)
        self.assertEqual(termios.tcgetattr(top.theirs), top.modes)
        os.kill(top.process.pid, signal.SIGCONT)
        top.wait_for(re.escape(ENTER) + ".*minute.*q.*quit")
        top.send("q")
        self.check_end(top)

    def test_a_dumb_terminal_gets_plain_text(self):
        top = self.top(*self.flags, TERM="dumb")
        text = top.wait_for("REQUEST TENANT")
        self.assertNotIn("\x1b", text)
        self.assertEqual(top.process.wait(timeout=PATIENCE), 0)


class ScriptedServer:
    """Answers each GET by `answer(handler)`."""

    def __init__(self, answer, port=0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def reply(status, kind, body):
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return answer


class ScriptedServerTest(TopCase):
    def serve(self, answer, port=0):
        server = ScriptedServer(answer, port)
        self.addCleanup(server.close)
        return server

    def test_what_is_no_ropeway_is_one_sentence(self):
        stream = "text/event-stream"
        for answer, expected in (
                (reply(404, "text/html", b"<h1>no</h1>"), "has no /admin/events (HTTP 404): it is no Ropeway"),
                (reply(200, "text/html", b"<h1>hi</h1>"), "is no stream of events"),
                (reply(200, stream, b"data: x\n\n"), "ended the stream before its first event"),
                (reply(200, stream, FRAME), "its first event is not `hello`"),
                (reply(200, stream, b"event: hello\ndata: {\n\n"), "is no Ropeway that `top` understands"),
                (reply(429, "application/json", b'{"error":{"message":"Too many\\u001b[2J clients."}}'),
                 "answers HTTP 429: Too many"),
                (reply(302, "text/html", b""), "answers HTTP 302.")):
            with self.subTest(expected=expected):
                result = once("--once", "--url", f"http://127.0.0.1:{self.serve(answer).port}")
                self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1))
                self.assertIn(expected, result.stderr)
                self.assertNotIn("\x1b", result.stderr)
        for url, expected in (("http://127.0.0.1:1", "No server answers at http://127.0.0.1:1 "),
                              ("ftp://x", "--url")):
            result = once("--once", "--url", url)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1))
            self.assertIn(expected, result.stderr)

    def test_a_lost_connection_is_told_and_made_again(self):
        ends = threading.Event()

        def answer(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", "text/event-stream")
            handler.end_headers()
            while not ends.is_set():
                handler.wfile.write(HELLO + FRAME if not ends.wait(0.05) else b"")
                handler.wfile.flush()

        server = self.serve(answer)
        top = self.top("--url", f"http://127.0.0.1:{server.port}")
        text = top.wait_for("ropeway 9.9.*connected.*no requests.*q.*quit")
        self.assertNotIn("a\x1b[2Jb", text)
        ends.set()
        top.wait_for("CONNECTION LOST, trying again")
        ends.clear()
        top.wait_for("connected ")
        # A server that now wants a key ends it, with the terminal as it was.
        server.close()
        self.addCleanup(ends.set)
        ends.set()
        top.wait_for("CONNECTION LOST, trying again")
        self.serve(reply(401, "text/plain", b""), server.port)
        top.wait_for(re.escape(LEAVE))
        top.wait_for("needs its admin key")
        self.assertEqual(top.process.wait(timeout=PATIENCE), 1)
        self.assertEqual(termios.tcgetattr(top.theirs), top.modes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
