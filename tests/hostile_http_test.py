#!/usr/bin/env python3
"""Hand-made hostile requests, by raw sockets and curl, against the real server.

Whatever arrives is answered with a 4xx or the end of its connection, never with a 5xx or a crash; and
the server answers the next client as before.

usage: hostile_http_test.py --ropeway PROGRAM --model FILE.gguf
"""
import argparse
import contextlib
import http.client
import json
import random
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from smoke_test import ARGS, PATIENCE, Server, eventually

MAX_CONNECTIONS = 500
CLOSED = 0  # Instead of a status: the connection ended without an answer.
PROBE = {"prompt": "The cable car leaves the valley and", "max_tokens": 12, "temperature": 0}
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def post(body, path=b"/v1/completions"):
    return (b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


class HostileCase(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-connections", str(MAX_CONNECTIONS), *cls.FLAGS)
        cls.text = cls.probe()

    @classmethod
    def tearDownClass(cls):
        code, output = cls.server.stop()
        assert code == 0, output

    @classmethod
    def probe(cls):
        status, reply = cls.server.post("/v1/completions", PROBE)
        assert status == 200, reply
        return reply["choices"][0]["text"]

    def tearDown(self):
        self.assertEqual(self.server.get("/livez")[0], 200)
        self.assertEqual(self.server.get("/readyz")[0], 200)
        self.assertEqual(self.probe(), self.text)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=60)

    def status_of(self, data, more=None, half_close=True):
        """The status of the answer to `data` followed by what `more` yields."""
        with self.connect() as client:
            with contextlib.suppress(OSError):  # It may be rejected before it is sent whole.
                client.sendall(data)
                for part in more or ():
                    client.sendall(part)
                if half_close:
                    client.shutdown(socket.SHUT_WR)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while b"\r\n" not in received and (some := client.recv(65536)):
                    received += some
        if not received:
            return CLOSED
        self.assertTrue(received.startswith(b"HTTP/1."), received[:100])
        return int(received[9:12])

    def rejected(self, name, data, more=None, half_close=False):
        with self.subTest(name):
            status = self.status_of(data, more, half_close)
            self.assertTrue(status in (CLOSED, 505) or 400 <= status < 500, f"{name}: {status}")
            return status


class HostileTest(HostileCase):
    FLAGS = ("--write-timeout", "3s")  # A client that reads nothing is cut off after it.

    def test_malformed_json(self):
        bodies = [
            b"", b"{", b"}", b"[", b"nul", b"null", b"0", b'"a"', b"[]", b"{}", b'{"prompt":}',
            b'{"prompt":"a"', b'{"prompt":"a"}}', b'{"prompt":"a"}{"prompt":"a"}',
            b"{'prompt':'a'}", b'{"prompt":"a",}', b'\xef\xbb\xbf{"prompt":"a"}x',
            b'{"prompt":"\xff"}', b'{"prompt":"\xc0\x80"}', b'{"prompt":"\xed\xa0\x80"}',
            b'{"prompt":"\\ud800"}', b'{"prompt":"\\u12"}', b'{"prompt":"a\nb"}',
            b'{"prompt":"a","prompt":"b"}', b'{"prompt":"a"\x00}', b"\x00" * 1000,
            b'{"prompt":"a","temperature":NaN}', b'{"prompt":"a","temperature":1e999}',
            b'{"prompt":"a","max_tokens":' + b"9" * 5000 + b"}",
            b'{"prompt":-1.5}', b'{"prompt":"a" /* comment */}',
        ]
        for body in bodies:
            for path in (b"/v1/completions", b"/v1/chat/completions", b"/tokenize", b"/detokenize"):
                status = self.rejected(f"{path} {body[:40]}", post(body, path))
                self.assertEqual(status, 400, body[:60])

    def test_deep_nesting_and_many_values(self):
        for name, body in {
                "arrays": b"[" * 1_000_000, "objects": b'{"a":' * 500_000,
                "in a field": b'{"prompt":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
                "values": b'{"prompt":[' + b"1," * 3_000_000 + b"1]}",
                "keys": b"{" + b",".join(b'"k%d":0' % i for i in range(300_000)) + b"}",
        }.items():
            self.assertEqual(self.rejected(name, post(body)), 400, name)

    def test_wrong_types_and_absurd_numbers(self):
        wrong = [None, True, -1, 1.5, 1e308, 2 ** 63, 2 ** 64, "x", [], [None], [[]], {}, {"a": 1}]
        fields = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed", "stop",
                  "logprobs", "stream", "stream_options", "model", "logit_bias", "echo", "timeout",
                  "stop_token_ids", "presence_penalty", "frequency_penalty", "repetition_penalty",
                  "min_tokens", "typical_p", "ignore_eos", "best_of", "suffix"]
        for field in fields:
            for value in wrong:
                body = {"prompt": "a", "max_tokens": 1, field: value}
                status = self.status_of(post(json.dumps(body).encode()), half_close=False)
                # Some of these are valid for some fields.
                self.assertTrue(status == 200 or 400 <= status < 500, f"{body}: {status}")
        for prompt in wrong[:6] + wrong[8:]:
            if prompt is not None:
                self.assertEqual(self.rejected(f"prompt {prompt}", post(json.dumps(
                    {"prompt": prompt, "max_tokens": 1}).encode())), 400, prompt)
        for messages in (None, [], [{}], {}, "a", [1], [{"role": 1, "content": "a"}], [[]],
                         [{"role": "user", "content": [{"type": "image_url"}]}]):
            self.assertEqual(self.rejected(f"messages {messages}", post(
                json.dumps({"messages": messages}).encode(), b"/v1/chat/completions")), 400)

    def test_lengths_that_lie(self):
        for headers in (b"Content-Length: -1", b"Content-Length: -9223372036854775808",
                        b"Content-Length: 99999999999999999999", b"Content-Length: 1e3",
                        b"Content-Length: 0x10", b"Content-Length: 2\r\nContent-Length: 3",
                        b"Content-Length: 2\r\nContent-Length: 2", b"Content-Length: 2, 2",
                        b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length:",
                        b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: gzip, chunked",
                        b"Content-Length: 2\r\nTransfer-Encoding: identity"):
            self.assertIn(self.rejected(headers, POST + headers + b"\r\n\r\n{}"), (400, 413), headers)
        # The body is shorter than announced, and the client closes its side.
        self.rejected("half a body", POST + b"Content-Length: 100\r\n\r\n{", half_close=True)

    def test_large_bodies(self):
        mebibyte = b" " * (1 << 20)
        self.assertEqual(self.rejected("100 MB", POST + b"Content-Length: 104857600\r\n\r\n",
                                      (mebibyte for _ in range(100))), 413)
        chunk = b"100000\r\n" + mebibyte + b"\r\n"
        self.assertIn(self.rejected("100 MB in chunks", CHUNKED, (chunk for _ in range(100))),
                      (413, CLOSED))

    def test_large_bodies_by_curl(self):
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(100 << 20)
            for headers in ([], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect:"],
                            ["-H", "Content-Encoding: gzip"]):
                reply = subprocess.run(
                    ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "60", *headers,
                     "--data-binary", f"@{file.name}",
                     f"http://127.0.0.1:{self.server.port}/v1/completions"],
                    capture_output=True, text=True, check=False, timeout=120)
                self.assertIn(reply.stdout, ("413", "415", "000"), headers)

    def test_chunk_sizes_that_are_none(self):
        for part in (b"zz\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"1\r\nxx\r\n0\r\n\r\n", b"\r\n", b"\x00\r\n"):
            self.assertEqual(self.rejected(part, CHUNKED + part), 400, part)

    def test_header_floods(self):
        start = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
        for name, headers in {"many": b"".join(b"X-%d: y\r\n" % i for i in range(50_000)),
                              "long": b"X: " + b"y" * 5_000_000,
                              "name": b"y" * 1_000_000}.items():
            self.assertIn(self.rejected(name, start + headers), (400, 431, CLOSED), name)
        self.assertIn(self.rejected("target", b"GET /" + b"x" * 1_000_000), (431, CLOSED))
        self.assertIn(self.rejected("method", b"G" * 1_000_000), (400, 431, CLOSED))

    def test_bytes_that_are_no_http(self):
        for data in (b"GET /livez\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /li\x00vez HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: x\x00y\r\n\r\n", b"G\x00T / HTTP/1.1\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHo\x00st: x\r\n\r\n", b"GET /livez HTTP/1.1\nHost: localhost\n\n",
                     b"GET  /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
                     b"GET /livez\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"SSH-2.0-OpenSSH\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
                     b"GET /livez HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
            self.rejected(data[:40], data, half_close=True)
        noise = random.Random(7)
        for _ in range(100):
            self.rejected("noise", noise.randbytes(noise.randrange(1, 4000)), half_close=True)

    def test_hostile_targets(self):
        for target in (b"/../../etc/passwd", b"/v1/models/../../x", b"/%00", b"/v1/models/%ff%fe",
                       b"/v1/models/" + b"a" * 20_000, b"*", b"//", b"/admin/requests/../../livez",
                       b"http://x:99999/admin/drain"):
            status = self.rejected(target[:40], b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(status, (400, 403, 404, 405), target[:40])
        self.assertEqual(self.rejected("drain", b"POST /admin/drain HTTP/1.1\r\nHost: localhost\r\n"
                                      b"Content-Length: 0\r\n\r\n"), 403)

    def test_pipelining_floods(self):
        get = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def read_all(client):
            with contextlib.suppress(OSError):
                while client.recv(65536):
                    pass

        with self.connect() as client:
            reader = threading.Thread(target=read_all, args=(client,))
            reader.start()
            with contextlib.suppress(OSError):
                client.sendall(get * 20_000 + get[:-2] + b"Connection: close\r\n\r\n")
            reader.join(PATIENCE)
            self.assertFalse(reader.is_alive())
        with self.connect() as client, contextlib.suppress(OSError):
            client.sendall(get * 200_000)  # And not a byte of the answers is read.
        long = json.dumps({**PROBE, "max_tokens": 2000, "ignore_eos": True}).encode()
        with self.connect() as client, contextlib.suppress(OSError):
            client.sendall(post(long) * 2000)
            self.assertEqual(client.recv(10), b"")

    def test_a_flood_of_connections(self):
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
            for number in range(MAX_CONNECTIONS + 200):
                waiting.register(stack.enter_context(self.connect()), selectors.EVENT_READ, number)
            # For those beyond the cap the oldest are closed; the others idle.
            ended, deadline = [], time.monotonic() + PATIENCE
            while len(ended) < 200:
                self.assertLess(time.monotonic(), deadline, f"{len(ended)} ended")
                for key, _ in waiting.select(1):
                    answer = b""
                    with contextlib.suppress(ConnectionResetError):
                        answer = key.fileobj.recv(20)
                    self.assertEqual(answer, b"")
                    waiting.unregister(key.fileobj)
                    ended.append(key.data)
            self.assertLess(max(ended), 250)
            # Nobody is locked out meanwhile.
            self.assertEqual(self.server.get("/livez")[0], 200)
            self.assertEqual(self.probe(), self.text)

        def served():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.server.get("/livez")[0] == 200
            return False

        eventually(served, "their slots are free again")


class TimeoutTest(HostileCase):
    """Tests that end by the server's timeouts, which are short here."""

    FLAGS = ("--header-timeout", "1500ms", "--body-timeout", "1500ms", "--idle-timeout", "3s")

    def test_a_body_that_never_comes(self):
        self.assertEqual(self.rejected("no body", POST + b"Content-Length: 9\r\n\r\n"), 408)

    def test_endless_chunks(self):
        def endless(part):
            while True:
                yield part

        for name, part in {"tiny": b"1\r\n \r\n" * 1000, "extension": b"1;" + b"x" * 4096,
                           "size": b"0" * 4096, "trailers": b"0\r\n" + b"A: b\r\n" * 1000}.items():
            self.assertIn(self.rejected(name, CHUNKED, endless(part)), (400, 408, 413, CLOSED), name)

    def test_slow_senders_are_timed_out_and_delay_no_other_client(self):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.connect()) for _ in range(200)]
            for byte in b"POST /v1/comp":
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.sendall(bytes([byte]))
                time.sleep(0.05)
            self.assertEqual(self.probe(), self.text)
            for client in clients:
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while some := client.recv(65536):
                        answer += some
                self.assertTrue(not answer or answer.startswith(b"HTTP/1.1 408"), answer)


MESSAGES = [{"role": "user", "content": "Hi"}]
OPTIONS = ("num_predict", "temperature", "top_k", "top_p", "repeat_penalty", "seed")
# Of each path a body, and its fields by what they take.
DIALECTS = {
    "/v1/messages": ({"max_tokens": 1, "messages": MESSAGES}, {
        "number": ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed"), "boolean": ("stream",), "text": ("model",),
        "list": ("messages", "stop_sequences", "tools"),
        "object": ("metadata", "thinking", "tool_choice", "output_config", "context_management")}),
    "/v1/messages/count_tokens": ({"messages": MESSAGES}, {"text": ("model",), "list": ("messages", "tools"), "object": ("thinking",)}),
    "/api/chat": ({"messages": MESSAGES}, {
        "number": ("top_logprobs", *(f"options.{name}" for name in OPTIONS)), "boolean": ("stream", "logprobs"), "text": ("model",),
        "list": ("messages", "tools"), "object": ("options",)}),
    "/api/generate": ({"prompt": "a", "raw": True}, {
        "number": ("top_logprobs", *(f"options.{name}" for name in OPTIONS)), "boolean": ("stream", "raw"),
        "text": ("model", "prompt", "system"), "object": ("options",)}),
    "/api/show": ({"model": "default"}, {"text": ("model", "name")}),
    "/api/embed": ({"input": "a"}, {"number": ("dimensions", "timeout"), "boolean": ("truncate",), "text": ("model",)}),
    "/api/embeddings": ({"prompt": "a"}, {"number": ("timeout",), "text": ("model", "prompt")}),
    "/completion": ({"prompt": "a", "n_predict": 1}, {
        "number": ("n_predict", "temperature", "top_k", "top_p", "min_p", "n_probs", "seed", "n_cmpl", "repeat_penalty"),
        "boolean": ("stream", "ignore_eos", "return_tokens"), "text": ("model",), "list": ("samplers", "response_fields")}),
    "/embedding": ({"content": "a"}, {"number": ("embd_normalize", "timeout"), "text": ("model",)}),
    "/v1/embeddings": ({"input": "a"}, {"number": ("dimensions", "timeout"), "boolean": ("normalize", "truncate"), "text": ("model",)}),
    "/apply-template": ({"messages": MESSAGES}, {"list": ("messages", "tools"), "object": ("chat_template_kwargs",)}),
}
WRONG = {
    "number": ("x", [[]], {"a": 1}, 1e300, -1e300, True), "boolean": (1, "x", [[]], {"a": 1}), "text": (1, True, [[]], [1.5]),
    "list": (1, True, "x", {"a": 1}, [[]]), "object": (1, True, "x", [[]])}


def message_of(path, status, text):
    """What an error says, in the form of the path's API."""
    reply = json.loads(text)
    if path.startswith("/api/"):
        (message,) = reply.values()
        assert set(reply) == {"error"}, text
    elif path.startswith("/v1/messages"):
        message = reply["error"]["message"]
        assert (reply["type"], set(reply)) == ("error", {"type", "error", "request_id"}), text
        assert reply["error"]["type"].endswith(("_error", "_large")), text
    else:
        message = reply["error"]["message"]
        openai = path.startswith("/v1/")
        assert set(reply["error"]) == {"message", "type", "code"} | ({"param"} if openai else set()), text
        assert openai or reply["error"]["code"] == status, text
    assert isinstance(message, str), text
    return message


class HostileDialectsTest(HostileCase):
    """Each API answers what is wrong in its own form, and names the field."""

    def fails(self, path, body, status=400, method="POST"):
        got, text, headers = self.server.request(method, path, body)
        self.assertEqual(got, status, f"{path} {str(body)[:100]}: {text[:300]}")
        return message_of(path, got, text), headers

    def test_wrong_fields(self):
        for path, (body, fields) in DIALECTS.items():
            for kind, names in fields.items():
                for name, value in ((name, value) for name in names for value in WRONG[kind]):
                    *outer, inner = name.split(".")
                    wrong = {**body, outer[0]: {inner: value}} if outer else {**body, name: value}
                    with self.subTest(path=path, field=name, value=value):
                        self.assertIn(f"'{name}", self.fails(path, wrong)[0])

    def test_bodies_that_are_none(self):
        for path in DIALECTS:
            for body in (b"", b"{", b"[1]", b"null", b'{"model":"a","model":"b"}', b'{"x":"\xff"}', b'{"x":"\\ud800"}', b'{"x":1e999}',
                         b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}"):
                with self.subTest(path=path, body=body[:30]):
                    self.assertTrue(self.fails(path, body)[0])
            self.fails(path, b'{"x":"' + b"y" * (8 << 20) + b'"}', 413)
            _, headers = self.fails(path, b"{}", 405, "PUT")
            self.assertEqual(headers["Allow"], "POST, OPTIONS")

    def test_too_many_inputs(self):
        for path, name in (("/api/embed", "input"), ("/v1/embeddings", "input"), ("/embedding", "content")):
            self.assertIn("2049 inputs", self.fails(path, {name: ["a"] * 2049})[0])
        status, text, _ = self.server.request("POST", "/v1/embeddings", {"input": ["a", "b" * 100_000]})
        self.assertEqual(status, 400)
        self.assertTrue(message_of("/v1/embeddings", status, text).startswith("at index 1: "), text)

    def test_clients_that_leave_leave_nothing(self):
        bodies = {"/completion": {"prompt": "a", "n_predict": -1, "ignore_eos": True, "stream": True},
                  "/api/generate": {"prompt": "a", "raw": True, "options": {"ignore_eos": True}},
                  "/v1/embeddings": {"input": ["a b c " * 20] * 2048}, "/api/embed": {"input": ["a b c " * 20] * 2048},
                  "/embedding": {"content": ["a b c " * 20] * 2048}}
        for path, body in bodies.items():
            with contextlib.ExitStack() as stack:
                for _ in range(3):
                    stack.enter_context(self.connect()).sendall(post(json.dumps(body).encode(), path.encode()))
                time.sleep(0.05)
        for name in ("ropeway_num_requests_running", "ropeway_num_requests_waiting", "ropeway_kv_cache_usage_ratio"):
            eventually(lambda name=name: self.server.metric(name) == 0, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.parse_known_args(namespace=ARGS)
    unittest.main(argv=[sys.argv[0], "-v"])
