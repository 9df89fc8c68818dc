#!/usr/bin/env python3
"""`ropeway gateway` before scripted servers (backend_double.py): whatever a backend does, each request has one clear end,
names who was at fault, and leaves no connection behind; batches, classes and replicas do what docs/gateway.md says.

usage: gateway_test.py --ropeway PROGRAM [unittest flags]
"""
import concurrent.futures
import json
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import backend_double as double
import gateway_server
from backend_double import Double, text_for
from gateway_server import ARGS, PATIENCE, SOON, Gateway, GatewayCase, backend, eventually, together

SILENCE = "1500ms"  # After which a backend is taken to hang.
HERE = "DNS:localhost,IP:127.0.0.1"


def certificate(folder, name, valid_for=HERE):
    """The file of one that is signed by itself alone; its key lies beside it."""
    key, made = pathlib.Path(folder) / f"{name}.key", pathlib.Path(folder) / f"{name}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={valid_for}", "-keyout", key, "-out", made],
                   check=True, capture_output=True, timeout=PATIENCE)
    return made


def tls_context(made):
    """A server's, with such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, made.with_suffix(".key"))
    return context


def post(path, body):
    """A request as its bytes."""
    data = json.dumps(body).encode()
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(), len(data), data)


# How each misbehaviour may end: None: as a good answer; else words of the error (any of them is enough).
BROKEN = {
    "slow-start": (double.slow_start, None),
    "hang-before-the-head": (double.hang_before_the_head, ""),
    "hang-before-the-first-token": (double.hang_before_the_first_token, ""),
    "hang-after-tokens": (double.hang_after_tokens, ""),
    "reset-before-the-head": (double.reset_before_the_head, ""),
    "reset-after-tokens": (double.reset_after_tokens, ""),
    "half-a-json": (double.half_a_json, ""),
    "half-a-body": (double.half_a_body, ""),
    "no-end": (double.no_end, ""),
    "wrong-type": (double.wrong_type, "text/html"),
    "no-http": (double.no_http, ""),
    "says-400": (double.refuses(400), "the double says 400"),
    "says-429": (double.refuses(429, "Retry-After: 2"), "the double says 429"),
    "says-500": (double.refuses(500), "the double says 500"),
    "says-503": (double.refuses(503), "the double says 503"),
    "changing-names": (double.changing_names, None),
    "another-choice": (double.another_choice, ""),
}
# These send as fast as they can, and so one after the other.
FLOODS = {"endless-stream": double.endless_stream, "huge-line": double.huge_line, "header-bomb": double.header_bomb}


class MisbehaviourTest(GatewayCase):
    """One gateway with a model for each misbehaviour, so that none hides behind another."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        scripts = {name: behave for name, (behave, _) in BROKEN.items()} | FLOODS | {
            "good": double.answer, "another-answer-behind": double.another_answer_behind}
        cls.doubles = {name: Double(behave, model=name) for name, behave in scripts.items()}
        cls.doubles["no-trust"] = Double(double.answer, model="no-trust", tls=tls_context(certificate(folder.name, "no-trust")))
        plain = Double(double.answer, model="no-tls")
        cls.doubles["no-tls"] = plain
        flags = [word for name, one in cls.doubles.items() if name != "no-tls" for word in backend(one)]
        flags += backend(plain.url.replace("http:", "https:"), model="no-tls")
        for one in cls.doubles.values():
            cls.addClassCleanup(one.close)
        # Each is tried twice, which shows as much as four times; a handshake without an answer takes the connect timeout
        # (1 s, so that these tests, beside which no others run, do not wait for long).
        cls.gateway = Gateway(ARGS.ropeway, *flags, "--backend-idle-timeout", SILENCE, "--backend-first-byte-timeout", SILENCE,
                              "--backend-connect-timeout", "1s", "--max-retries", "1")
        cls.addClassCleanup(cls.gateway.process.wait)
        cls.addClassCleanup(cls.gateway.process.kill)
        eventually(lambda: cls.doubles["good"].looks, "the gateway has looked at its backends", SOON)
        # Without the connections to the backends, some of which are just being made.
        cls.before = min(cls.own_descriptors() for _ in range(50) if not time.sleep(0.01))

    @classmethod
    def own_descriptors(cls):
        return cls.gateway.descriptors() - sum(one.open for one in cls.doubles.values())

    def tearDown(self):
        self.gateway.wait_until_idle()
        self.keeps_no_connection(self.gateway, self.doubles.values(), self.before)
        self.good(self.gateway.complete("and then?", model="good"), "and then?")

    def ask(self, name, stream):
        """With a deadline behind all that the gateway does by itself."""
        return self.gateway.complete(f"to {name}", model=name, stream=stream, timeout=8)

    def expect_failure(self, name, outcome, words=""):
        self.assertTrue(outcome.failed, outcome)
        self.assertNotIn("foreign", "".join(outcome.text.values()))
        # But for the client's own mistake: that is told in the backend's words.
        names = str(self.doubles[name].port) in outcome.errors[0]
        self.assertEqual(names, name != "says-400", outcome.errors[0])
        self.assertIn(words, outcome.errors[0])

    def test_each_misbehaviour_has_one_clear_end(self):
        cases = [(name, stream) for name in BROKEN for stream in (True, False)]
        for (name, stream), outcome in zip(cases, together(lambda case: self.ask(*case), cases, len(cases))):
            words = BROKEN[name][1]
            with self.subTest(name=name, stream=stream):
                if words is None:
                    self.good(outcome, f"to {name}")
                else:
                    self.expect_failure(name, outcome, words)
                    self.assertGreaterEqual(outcome.status, 200 if stream else 400)

    def test_a_status_is_passed_on_where_it_says_something(self):
        """Of whole answers: the request's own fault stays one, and what may pass says when."""
        self.assertEqual(self.ask("says-400", False).status, 400)
        busy = self.ask("says-429", False)
        self.assertIn(busy.status, (429, 503))
        self.assertGreaterEqual(int(busy.fields["retry-after"]), 1)
        self.assertGreaterEqual(len(self.doubles["says-429"].exchanges), 2)
        self.assertIn(self.ask("says-500", False).status, (500, 502, 503))

    def test_floods_are_cut_off(self):
        """An endless stream, a line of a gigabyte and endless headers: in little memory."""
        for name in FLOODS:
            with self.subTest(name=name):
                begin = time.monotonic()
                outcome = self.ask(name, True)
                self.assertTrue(outcome.ended_once, outcome)
                self.assertLess(time.monotonic() - begin, SOON)
                if name != "endless-stream":  # It may be taken to have reached max_tokens.
                    self.expect_failure(name, outcome)
                eventually(lambda name=name: self.doubles[name].in_flight == 0, f"{name} was cut off", SOON)
        status = pathlib.Path(f"/proc/{self.gateway.process.pid}/status").read_text(encoding="ascii")
        self.assertLess(int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024, 300, "MB")

    def test_an_answer_that_nobody_asked_for_is_nobodys(self):
        for i in range(6):
            outcome = self.ask("another-answer-behind", i % 2 == 0)
            self.good(outcome, "to another-answer-behind")

    def test_who_cannot_be_trusted_is_not_asked(self):
        cases = [(name, stream) for name in ("no-trust", "no-tls") for stream in (True, False)]
        for (name, stream), outcome in zip(cases, together(lambda case: self.ask(*case), cases)):
            with self.subTest(name=name, stream=stream):
                self.expect_failure(name, outcome)
                self.assertEqual(self.doubles[name].exchanges, [])


class TlsTest(GatewayCase):
    def test_a_certificate_is_trusted_for_its_name_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            right = certificate(folder, "right")
            elsewhere = certificate(folder, "elsewhere", "DNS:elsewhere.example")
            stranger = certificate(folder, "stranger", "DNS:elsewhere.example")
            trusted = pathlib.Path(folder) / "trusted.pem"
            trusted.write_text(right.read_text("ascii") + elsewhere.read_text("ascii"), "ascii")
            doubles = {made.stem: self.double(double.answer, model=made.stem, tls=tls_context(made))
                       for made in (right, elsewhere, stranger)}
            gateway = self.start(*backend(doubles["right"]), *backend(doubles["elsewhere"]),
                                 *backend(doubles["stranger"], insecure="true"), environment={"SSL_CERT_FILE": str(trusted)})
            for stream in (True, False):
                for name in ("right", "stranger"):
                    self.good(gateway.complete("hello", model=name, stream=stream), "hello")
                outcome = gateway.complete("hello", model="elsewhere", stream=stream)
                self.assertTrue(outcome.failed, outcome)
                self.assertIn(str(doubles["elsewhere"].port), outcome.errors[0])
            health = lambda: {one["model"]: one for one in gateway.health()["backends"]}
            eventually(lambda: "certificate" in health()["elsewhere"]["reason"], "probes say why", SOON)
            self.assertEqual((doubles["elsewhere"].exchanges, doubles["elsewhere"].looks), ([], []))
            self.assertIn("is not verified", gateway.output())


class HangupTest(GatewayCase):
    def test_a_hangup_reloads_keys_and_ends_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.toml"
            write = lambda name: keys.write_text(f'[[keys]]\nname = "{name}"\nkey = "secret-of-{name}"\n', encoding="utf-8")
            write("ann")
            gateway = self.start(*backend(self.double(double.answer)), "--api-keys", keys)
            gateway.key = "secret-of-ann"
            self.good(gateway.complete("hello"), "hello")
            write("bob")
            gateway.process.send_signal(signal.SIGHUP)
            eventually(lambda: "SIGHUP: reloaded: 1 API key" in gateway.output(), "a line", SOON)
            self.assertEqual(gateway.complete("hello").status, 401)
            gateway.key = "secret-of-bob"
            self.good(gateway.complete("hello"), "hello")
            self.assertEqual(gateway.stop(), 0)


class FailureShareTest(GatewayCase):
    def test_a_thousand_requests_through_a_backend_that_fails_at_random(self):
        numbers = random.Random(16)
        # Four, so that one that is left alone for a while does not hold up the test.
        doubles = [self.double(double.fails_at_random(0.2, numbers)) for _ in range(4)]
        gateway = self.start(*[word for one in doubles for word in backend(one)], "--hold-timeout", "20s", "--max-wait", "1h")
        before = gateway.descriptors() - sum(one.open for one in doubles)
        asks = [(f"number {i}", bool(i % 2)) for i in range(1000)]
        outcomes = together(lambda ask: gateway.complete(ask[0], 4, stream=ask[1]), asks, 24)
        good = failed = 0
        for (prompt, _), outcome in zip(asks, outcomes):
            self.assertTrue(outcome.ended_once, outcome)
            if outcome.good:
                self.good(outcome, prompt, 4)
                good += 1
            else:
                failed += 1
        print(f"  of 1,000 requests {good} ended well, {failed} with an error; "
              f"{sum(len(one.exchanges) for one in doubles)} were sent")
        # Half of the failures come before the first token, and are sent again.
        self.assertGreater(good, 700)
        gateway.wait_until_idle()
        ends = lambda: sum(gateway.metric(f"ropeway_request_{name}_total") for name in ("success", "rejected"))
        eventually(lambda: ends() == 1000, "the gateway has counted as many ends as requests", SOON)
        self.keeps_no_connection(gateway, doubles, before)

    def test_a_client_that_is_gone_is_no_more_work(self):
        one = self.double(double.slowly(0.01))
        gateway = self.start(*backend(one))
        for stream in (True, False):
            took = [self.cancelled_after(one, gateway, stream) for _ in range(5)]
            shown = ", ".join(f"{1000 * t:.1f}" for t in took)
            print(f"  {'a stream' if stream else 'an answer'} is cancelled after {shown} ms")
            self.assertLess(sorted(took)[2], 0.1)  # The median: other tests run meanwhile.
        gateway.wait_until_idle()
        eventually(lambda: one.open <= 1, "no connection is left but one of probes", SOON)

    def cancelled_after(self, one, gateway, stream):
        """How long the backend works on for a client that leaves in the middle, in seconds."""
        before = len(one.exchanges)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as client:
            client.sendall(post("/v1/completions", {"prompt": "on and on", "max_tokens": 3000, "stream": stream}))
            eventually(lambda: len(one.exchanges) > before, "the backend has the request", SOON)
            received = b""
            while stream and b"[on and on]" not in received:
                received += client.recv(65536)
            time.sleep(0 if stream else 0.05)  # Some tokens, of which the client sees nothing yet.
            left = time.monotonic()
        exchange = one.exchanges[before]
        eventually(lambda: exchange.gone_at is not None, "the backend's request is cancelled", SOON)
        self.assertGreaterEqual(exchange.gone_at, left, "the backend's request ran until then")
        return exchange.gone_at - left


class DispatchTest(GatewayCase):
    def test_batches_go_out_together(self):
        one = self.double(double.slowly(0.1))
        gateway = self.start(*backend(one, max_concurrency=32), "--dispatch", "batch", "--max-batch-size", "4",
                             "--max-batch-wait", "500ms")
        for outcome in together(lambda i: gateway.complete(f"{i}", 2), range(8)):
            self.assertTrue(outcome.good, outcome)
        self.assertEqual(one.most_in_flight, 4)
        batching = gateway.health()["batching"]
        self.assertEqual((batching["enabled"], batching["total_batches"], batching["total_requests"],
                          batching["avg_batch_size"], batching["queue_depth"], batching["max_batch_size"]),
                         (True, 2, 8, 4, 0, 4))
        self.assertGreaterEqual(batching["avg_batch_duration_ms"], 190)
        # One alone waits for others until the time is up.
        begin = time.monotonic()
        self.assertTrue(gateway.complete("alone", 1).good)
        self.assertGreater(time.monotonic() - begin, 0.45)
        # Parallel batches.
        gateway = self.start(*backend(one, max_concurrency=32), "--dispatch", "batch", "--max-batch-size", "4",
                             "--max-parallel-batches", "2")
        one.most_in_flight = 0
        together(lambda i: gateway.complete(f"{i}", 2), range(8))
        self.assertEqual(one.most_in_flight, 8)

    def test_one_of_a_batch_that_is_refused_ends_alone(self):
        def behave(exchange):
            if exchange.prompt == "refused":
                double.refuses(400)(exchange)
            else:
                double.answer(exchange, 0.05)

        one = self.double(behave)
        gateway = self.start(*backend(one, max_concurrency=8), "--dispatch", "batch", "--max-batch-size", "4",
                             "--max-batch-wait", "20s")
        prompts = ("first", "refused", "third", "fourth")
        for round_, stream in enumerate((False, True), 1):
            outcomes = together(lambda prompt, stream=stream: gateway.complete(prompt, 4, stream=stream), prompts)
            for prompt, outcome in zip(prompts, outcomes):
                if prompt != "refused":
                    self.good(outcome, prompt, 4)
                    continue
                self.assertTrue(outcome.failed, outcome)
                self.assertIn("the double says 400", outcome.errors[0])
                self.assertEqual(outcome.status, 400)
            batching = gateway.health()["batching"]
            self.assertEqual((batching["total_batches"], batching["avg_batch_size"]), (round_, 4))
        self.assertEqual(len(one.exchanges), 8, "none was sent a second time")

    def test_without_batching_it_is_one_at_a_time(self):
        one = self.double(double.slowly(0.01))
        gateway = self.start(*backend(one), "--dispatch", "batch", "--enable-batching", "off")
        for outcome in together(lambda i: gateway.complete(f"{i}", 2), range(6)):
            self.assertTrue(outcome.good, outcome)
        self.assertEqual(one.most_in_flight, 1)
        self.assertFalse(gateway.health()["batching"]["enabled"])

    def test_what_is_urgent_goes_first(self):
        release = threading.Event()

        def behave(exchange):
            if exchange.prompt == "first":
                release.wait(PATIENCE)
            double.answer(exchange)

        one = self.double(behave)
        gateway = self.start(*backend(one, max_concurrency=1))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(gateway.complete, "first", 2)]
            eventually(lambda: one.in_flight == 1, "the first one runs", SOON)
            for i, (name, priority) in enumerate((("low 1", 2), ("low 2", 2), ("high", 0)), 1):
                asked.append(pool.submit(gateway.complete, name, 2, priority=priority))
                eventually(lambda i=i: gateway.metric("ropeway_num_requests_waiting") == i, f"{i} wait", SOON)
            release.set()
            for outcome in asked:
                self.assertTrue(outcome.result().good, outcome.result())
        self.assertEqual([body["prompt"] for body in one.asked()], ["first", "high", "low 1", "low 2"])

    def test_a_client_that_left_the_queue_is_never_sent(self):
        release = threading.Event()

        def behave(exchange):
            release.wait(PATIENCE)
            double.answer(exchange)

        one = self.double(behave)
        gateway = self.start(*backend(one, max_concurrency=1))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = pool.submit(gateway.complete, "first", 2)
            eventually(lambda: one.in_flight == 1, "the first one runs", SOON)
            with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as client:
                client.sendall(post("/v1/completions", {"prompt": "second", "max_tokens": 2, "stream": True}))
                eventually(lambda: gateway.metric("ropeway_num_requests_waiting") == 1, "the second one waits", SOON)
            eventually(lambda: gateway.metric("ropeway_num_requests_waiting") == 0, "it is gone", SOON)
            release.set()
            self.assertTrue(first.result().good)
        self.assertTrue(gateway.complete("third", 2).good)
        self.assertEqual([body["prompt"] for body in one.asked()], ["first", "third"])


class ReplicasTest(GatewayCase):
    def test_what_fails_before_the_first_token_is_sent_elsewhere(self):
        for behave in (double.refuses(500), double.refuses(503), double.reset_before_the_head, double.wrong_type):
            bad, good = self.double(behave), self.double(double.answer)
            gateway = self.start(*backend(bad), *backend(good))
            for i in range(8):
                self.good(gateway.complete(f"{i}", stream=bool(i % 2)), f"{i}")
            self.assertGreaterEqual(len(bad.exchanges), 1)
            self.assertEqual(len(good.exchanges), 8)
            gateway.process.kill()

    def test_a_cut_stream_ends_with_one_error(self):
        """These replicas cannot go on with each other's streams, and the client has had text."""
        doubles = [self.double(double.reset_after_tokens) for _ in range(2)]
        gateway = self.start(*backend(doubles[0]), *backend(doubles[1]))
        outcome = gateway.complete("cut", stream=True)
        self.assertTrue(outcome.failed, outcome)
        self.assertEqual(outcome.text, {0: text_for("cut", 3)})
        self.assertEqual(sum(len(one.exchanges) for one in doubles), 1)

    def test_a_conversation_stays_where_it_began(self):
        doubles = [self.double(double.answer) for _ in range(3)]
        gateway = self.start(*[word for one in doubles for word in backend(one)])
        homes = set()
        for chat in range(9):
            messages = [{"role": "system", "content": f"You are number {chat}. " * 60}]
            for turn in range(4):
                messages.append({"role": "user", "content": f"Question {turn} of chat {chat}?"})
                outcome = gateway.chat(messages, 4)
                self.assertTrue(outcome.good, outcome)
                messages.append({"role": "assistant", "content": outcome.text[0]})
            there = [i for i, one in enumerate(doubles)
                     if any(f"number {chat}." in body["messages"][0]["content"] for body in one.asked())]
            self.assertEqual(len(there), 1, f"chat {chat} went to {there}")
            homes.update(there)
        self.assertGreaterEqual(len(homes), 2)

    def test_a_dead_backends_queue_moves(self):
        dying, other = self.double(double.hang_before_the_head), self.double(double.answer)
        gateway = self.start(*backend(dying, max_concurrency=2), *backend(other, max_concurrency=2))
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(gateway.complete, f"{i}") for i in range(12)]
            eventually(lambda: dying.in_flight > 0, "it has some", SOON)
            dying.close()
            for i, outcome in enumerate(asked):
                self.good(outcome.result(), f"{i}")

    def test_all_down_is_told_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        gateway = self.start(*backend(url), ready=False)
        eventually(lambda: gateway.get("/readyz")[0] == 503, "it says that it is not ready", SOON)
        begin = time.monotonic()
        outcome = gateway.complete("anyone?")
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(outcome.status, 503, outcome)
        self.assertGreaterEqual(int(outcome.fields["retry-after"]), 1)
        self.assertTrue(gateway.complete("anyone?", stream=True).failed)
        gateway.process.kill()
        # Or it is held until one is there.
        gateway = self.start(*backend(url), "--hold-timeout", "60s", ready=False)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            held = pool.submit(gateway.complete, "anyone?")
            eventually(lambda: gateway.metric("ropeway_num_requests_waiting") == 1, "it is held", SOON)
            self.double(double.answer, port=port)
            self.good(held.result(), "anyone?")

    def test_health_tells_of_each_backend(self):
        bad, good = self.double(double.refuses(500)), self.double(double.answer)
        gateway = self.start(*backend(bad, name="bad-one"), *backend(good, name="good-one"))
        for i in range(8):
            self.good(gateway.complete(f"{i}"), f"{i}")
        found = {one["name"]: one for one in gateway.health()["backends"]}
        self.assertEqual(sorted(found), ["bad-one", "good-one"])
        self.assertEqual((found["good-one"]["state"], found["good-one"]["completed"]), ("up", 8))
        self.assertGreaterEqual(found["bad-one"]["failures"]["broken"], 1)
        self.assertEqual(found["bad-one"]["failures"]["broken"], found["good-one"]["retries"])
        self.assertGreater(found["good-one"]["latency_ms"]["p50"], 0)
        text = gateway.get("/metrics")[1]
        for name, one in found.items():
            self.assertRegex(text, rf'ropeway_backend_completed_total{{[^}}]*="{name}"[^}}]*}} {one["completed"]}\n')
        self.assertEqual(gateway.metric("ropeway_gateway_retries_total"), found["good-one"]["retries"])


if __name__ == "__main__":
    gateway_server.main()
