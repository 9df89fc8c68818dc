#!/usr/bin/env python3
"""How a server ends and begins again: drained, cut off, killed, or not at all.

usage: life_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import smoke_test
from smoke_test import ARGS, Server, eventually

DRAIN_SECONDS = 4
SHORT = {"prompt": "The cable car leaves the valley and", "max_tokens": 12, "temperature": 0}
LONG = {"prompt": "Once upon a time", "max_tokens": 8000, "ignore_eos": True}


class Stream:
    """A stream that is being read; its first event has come."""

    def __init__(self, server, body, key=""):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True}),
                                {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        self.events = [self.next_event()]

    def next_event(self):
        """The next event's data; None at the end."""
        while True:
            line = self.reply.readline()
            if not line:
                return None
            if line.startswith(b"data: "):
                return line[len(b"data: "):].strip().decode()

    def rest(self):
        """All events, and how the stream ended: "" for a clean end of the body."""
        try:
            while (event := self.next_event()) is not None:
                self.events.append(event)
        except (http.client.HTTPException, OSError) as error:
            return self.events, repr(error)
        finally:
            self.connection.close()
        return self.events, ""


def text_of(events):
    return "".join(choice["text"] for event in events if event != "[DONE]"
                   for choice in json.loads(event).get("choices", []))


class LifeTest(unittest.TestCase):
    def server(self, *flags, access_log="off", **more):
        server = Server(*flags, "--access-log", access_log, **more)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def test_a_trace_is_whole_after_a_drain_and_readable_after_a_kill(self):
        with tempfile.TemporaryDirectory(prefix="ropeway-trace-") as folder:
            server = self.server("--trace-file", f"{folder}/drained.json", model=ARGS.tiny)
            server.post("/v1/completions", {**SHORT, "ignore_eos": True})
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60), 0)
            with open(f"{folder}/drained.json", encoding="utf-8") as file:
                events = json.load(file)
            steps = [event for event in events if event["name"] == "step"]
            rows = sum(step["args"]["rows"] for step in steps)
            self.assertEqual(len(steps), SHORT["max_tokens"])
            self.assertEqual(steps[0]["args"]["prefill_rows"], rows - SHORT["max_tokens"] + 1)
            self.assertEqual(events[-1]["args"], {"dropped_events": 0, "full": False})

            server = self.server("--trace-file", f"{folder}/killed.json", model=ARGS.tiny)
            server.post("/v1/completions", {**SHORT, "ignore_eos": True})
            path = f"{folder}/killed.json"
            eventually(lambda: os.path.getsize(path) > 1000, "a trace on the disk")
            server.process.kill()
            server.process.wait()
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertFalse(text.endswith("]\n"), "it was closed")
            self.assertGreater(len(json.loads(text[:text.rindex("\n")].rstrip(",\n") + "]")), 3)

    def test_what_ends_in_time_is_whole_and_the_rest_gets_an_error_event(self):
        server = self.server("--drain-timeout", f"{DRAIN_SECONDS}s")
        whole = server.post("/v1/completions", SHORT)[1]["choices"][0]["text"]
        short, long = Stream(server, SHORT), Stream(server, LONG)
        server.process.send_signal(signal.SIGTERM)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ends = [pool.submit(short.rest), pool.submit(long.rest)]
            self.rejects_new_requests(server)
            events, problem = ends[0].result()
            self.assertEqual((events[-1], problem), ("[DONE]", ""))
            self.assertEqual(text_of(events), whole)
            events, problem = ends[1].result()
            self.assertEqual(problem, "")
            errors = [json.loads(e)["error"] for e in events if e != "[DONE]" and "error" in json.loads(e)]
            self.assertEqual(len(errors), 1, events[-3:])
            self.assertTrue(errors[0]["message"])
            self.assertTrue(text_of(e for e in events if '"error"' not in e))
        self.assertEqual(server.process.wait(timeout=60), 0)

    def rejects_new_requests(self, server):
        eventually(lambda: server.get("/readyz")[0] == 503, "the signal is seen")
        status, text, _ = server.request("POST", "/v1/completions", SHORT)
        self.assertEqual(status, 503, text)
        self.assertTrue(json.loads(text)["error"]["message"])
        self.assertEqual(server.get("/livez")[0], 200)

    def test_an_idle_server_ends_at_once_on_either_signal(self):
        for which in (signal.SIGTERM, signal.SIGINT):
            server = self.server(model=ARGS.tiny)
            start = time.monotonic()
            server.process.send_signal(which)
            self.assertEqual(server.process.wait(timeout=60), 0)
            self.assertLess(time.monotonic() - start, 20)  # Far below the drain's 30 s.
            self.assertRegex(server.output().splitlines()[-1], r"\[info\] stopped; requests answered: \d+$")

    def test_each_line_of_the_log_is_json_where_that_is_asked_for(self):
        server = self.server("--log-format", "json", model=ARGS.tiny)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP: " in server.output(), "a line")
        server.stop()
        log = [json.loads(line) for line in server.output().splitlines() if line.startswith("{")]
        self.assertIn("stopped; requests answered: ", log[-1]["message"])
        self.assertIn("SIGHUP: nothing to reload", [line["message"][:25] for line in log])
        self.assertEqual({tuple(line) for line in log if line["message"] != "request"}, {("time", "level", "message")})
        self.assertNotIn("[info]", server.output())
        said = json.loads(self.fails("serve", "--model", "no/such.gguf", "--log-format", "json"))
        self.assertEqual(said["level"], "critical")

    def test_a_log_that_nobody_reads_holds_up_nothing(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)

        class Unread(Server):
            stderr = writer

        server = Unread("--access-log", "on", "--admin-key", "key-of-the-admin", "--drain-timeout", "5s", model=ARGS.tiny)
        os.close(writer)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        for _ in range(1000):  # Their lines are more than a pipe holds.
            server.get("/v1/models")
        for method, path, body in (("POST", "/v1/completions", {**SHORT, "zzqqxx": 1}), ("POST", "/admin/drain", None),
                                   ("GET", "/livez", None)):
            status, text, _ = server.request(method, path, body, key="key-of-the-admin", timeout=20)
            self.assertEqual(status, 200, text)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=20), 0)

    def test_each_request_is_a_line_of_the_log(self):
        server = self.server("--api-key", "secret-of-ann", "--log-format", "json", access_log="on", model=ARGS.tiny)
        body = {**SHORT, "ignore_eos": True}
        self.assertEqual(server.request("POST", "/v1/completions", body, key="secret-of-ann")[0], 200)
        self.assertEqual(server.request("POST", "/v1/completions", body)[0], 401)
        server.stop()
        lines = [json.loads(line) for line in server.output().splitlines() if line.startswith("{")]
        done, rejected = [line for line in lines if line.get("route") == "/v1/completions"]
        self.assertEqual((done["key"], done["status"], done["tokens_out"]), ("default", 200, SHORT["max_tokens"]))
        self.assertGreater(done["total_ms"], done["ttft_ms"])
        self.assertEqual((rejected["status"], rejected["code"]), (401, "invalid_api_key"))
        self.assertIn("stopped; requests answered: ", lines[-1]["message"])
        for secret in (SHORT["prompt"], "secret-of-ann"):
            self.assertNotIn(secret, server.output())

    def test_a_drain_timeout_of_zero_ends_what_runs(self):
        server = self.server("--drain-timeout", "0")
        stream = Stream(server, LONG)
        server.process.send_signal(signal.SIGTERM)
        events, _ = stream.rest()
        self.assertTrue(any('"error"' in e for e in events), events[-3:])
        self.assertEqual(server.process.wait(timeout=60), 0)

    def test_kill_leaves_nothing_that_hinders_the_next(self):
        server = self.server()
        streams = [Stream(server, LONG) for _ in range(4)]
        server.process.kill()
        server.process.wait()
        for stream in streams:
            stream.connection.close()
        with socket.socket() as s:  # As the server does it.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", server.port))
        again = self.server(port=server.port)
        self.assertEqual(again.post("/v1/completions", SHORT)[0], 200)

    def fails(self, *command):
        """The one sentence of a command that ends at once."""
        reply = subprocess.run([ARGS.ropeway, *map(str, command), "--log-level", "warn"],
                               capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((reply.returncode, reply.stdout), (1, ""), reply.stderr)
        self.assertEqual(len(reply.stderr.strip().splitlines()), 1, reply.stderr)
        return reply.stderr

    def test_what_is_wrong_with_the_server_is_said_before_a_model_is_looked_at(self):
        """There is none; so whoever looked at it first would say that."""
        with tempfile.TemporaryDirectory() as folder, socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            keys = pathlib.Path(folder) / "keys.toml"
            keys.write_text("no toml", encoding="utf-8")
            none = f"{folder}/none.gguf"
            for start in (("serve", "--model", none), ("serve", "smollm2-none"), ("gateway", "--backend", f"local:{none}")):
                said = self.fails(*start, "--port", port)
                self.assertRegex(said, rf"port {port} is in use: choose another one, such as --port \d+$")
                self.assertNotIn(f"--port {port}", said)
                for flags, why in ((("--host", "no.such.host.invalid"), "no.such.host.invalid"),
                                   (("--api-keys", keys), "keys.toml"), (("--admin-key", "short"), "admin key"),
                                   (("--tls-cert", keys, "--tls-key", keys), "keys.toml")):
                    self.assertIn(why, self.fails(*start, "--port", 0, *flags))
            said = self.fails("gateway", "--backend", f"local:{none}", "--port", 0, "--state-path", keys)
            self.assertIn("the directory", said)

    def test_listening_on_all_addresses_without_keys_is_a_warning(self):
        for keys, warned in (((), True), (("--api-key", "a-key-for-tests"), False)):
            server = self.server("--host", "0.0.0.0", *keys, model=ARGS.tiny)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(timeout=60)
            output = server.output()
            self.assertEqual("can be reached from other machines" in output, warned, output)
            self.assertNotIn("a-key-for-tests", output)

    def status_with(self, server, key):
        return server.request("GET", "/v1/models", key=key)[0]

    def hang_up(self, server, says):
        """SIGHUP; the one line in the log that it makes."""
        before = server.output()
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP: " in server.output()[len(before):], "a line")
        lines = server.output()[len(before):].strip().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(says, lines[0])
        self.assertNotIn("secret", lines[0])

    def test_a_hangup_reloads_keys_and_ends_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.toml"
            entry = '[[keys]]\nname = "{0}"\nkey = "secret-of-{0}"\n'

            def write(text):
                keys.write_text(text, encoding="utf-8")
                keys.chmod(0o600)

            write(entry.format("ann") + entry.format("bob"))
            server = self.server("--api-keys", keys, "--admin-key", "secret-of-admin", model=ARGS.tiny)
            body = {"prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
            self.assertEqual(server.request("POST", "/v1/completions", body, key="secret-of-ann")[0], 200)
            write(entry.format("ann") + entry.format("cid"))
            self.assertEqual(self.status_with(server, "secret-of-cid"), 401)
            self.hang_up(server, "SIGHUP: reloaded: 2 API keys")
            self.assertEqual([self.status_with(server, f"secret-of-{name}") for name in ("ann", "bob", "cid")],
                             [200, 401, 200])
            text = server.request("GET", "/metrics", key="secret-of-admin")[1]
            self.assertIn('ropeway_tenant_generation_tokens_total{tenant="ann"} 4', text)
            for bad, why in (("no toml", "line 1"), ("", "has no [[keys]] table"), (entry.format("a b"), "'name'"),
                             ('[[keys]]\nname = "x"\nkey = "secret-of-admin"\n', "The admin key must differ from")):
                write(bad)
                self.hang_up(server, "SIGHUP: reload failed, nothing was changed: ")
                self.assertIn(why, server.output())
                self.assertEqual(self.status_with(server, "secret-of-cid"), 200)
            keys.unlink()
            self.hang_up(server, "cannot read")
            write(entry.format("cid"))
            keys.chmod(0o644)
            self.hang_up(server, "reloaded: 1 API key; all users of this machine can read the keys in ")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60), 0)

    def test_files_that_may_hang_are_read_at_the_start_only(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.fifo"
            os.mkfifo(keys)

            def write():
                keys.write_text('[[keys]]\nname = "ann"\nkey = "secret-of-ann"\n', encoding="utf-8")

            for signals, code in (((signal.SIGTERM,), 0), ((signal.SIGTERM, signal.SIGTERM), 1)):
                writer = threading.Thread(target=write)  # Once: whoever reads it again waits for ever.
                writer.start()
                server = self.server("--api-keys", keys, model=ARGS.tiny)
                writer.join(timeout=60)
                self.hang_up(server, f"nothing was changed: --api-keys: cannot read '{keys}': it is not a regular file")
                self.assertEqual(self.status_with(server, "secret-of-ann"), 200)
                stream = Stream(server, LONG, key="secret-of-ann") if code else None
                for number in signals:
                    server.process.send_signal(number)
                    eventually(lambda: "SIGTERM: no new requests" in server.output(), "the first signal's line")
                self.assertEqual(server.process.wait(timeout=60), code)
                if stream:
                    stream.connection.close()

    def test_a_hangup_reloads_the_certificate(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = pathlib.Path(folder) / "cert.pem", pathlib.Path(folder) / "key.pem"

            def make(name):
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
                                "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert],
                               check=True, capture_output=True, timeout=60)
                return cert.read_text(encoding="utf-8")

            def shown():
                return ssl.get_server_certificate(("127.0.0.1", server.port))

            first = make("first")
            server = Server.__new__(Server)
            server.launch([ARGS.ropeway, "serve", "--model", ARGS.tiny, "--port", 0, "--access-log", "off", "--tls-cert", cert, "--tls-key", key],
                          ready=False)
            self.addCleanup(server.process.wait)
            self.addCleanup(server.process.kill)
            self.assertEqual(shown(), first)
            second = make("second")
            self.hang_up(server, f"SIGHUP: reloaded: the certificate {cert}")
            self.assertEqual(shown(), second)
            key.write_text("no key", encoding="utf-8")
            self.hang_up(server, f"SIGHUP: reload failed, nothing was changed: {key} holds no private key")
            self.assertEqual(shown(), second)

    def test_a_hangup_with_nothing_to_reload_ends_nothing(self):
        server = self.server(model=ARGS.tiny)
        self.hang_up(server, "SIGHUP: nothing to reload")
        self.assertEqual(server.post("/v1/completions", SHORT)[0], 200)
        stream = Stream(server, LONG)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGHUP)  # While it drains, too.
        stream.connection.close()
        self.assertEqual(server.process.wait(timeout=60), 0)

    def test_a_key_from_the_environment_is_asked_for(self):
        os.environ["ROPEWAY_API_KEY"] = "a-key-for-tests"
        try:
            server = self.server(model=ARGS.tiny)
        finally:
            del os.environ["ROPEWAY_API_KEY"]
        self.assertEqual(server.request("POST", "/v1/completions", SHORT)[0], 401)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(SHORT),
                           {"Content-Type": "application/json", "Authorization": "Bearer a-key-for-tests"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()


if __name__ == "__main__":
    parser = smoke_test.argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tiny", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
