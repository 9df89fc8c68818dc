#!/usr/bin/env python3
"""Dynamo's front before workers of python -m ropeway.dynamo, all real: ./test --suite dynamo.

Run by the Python of an environment that has Dynamo (scripts/dynamo_venv.sh); PYTHONPATH has the package
ropeway, ROPEWAY_TEST_MODEL is the model."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

MODEL = os.environ["ROPEWAY_TEST_MODEL"]
TOKENIZER = os.environ["ROPEWAY_TEST_TOKENIZER"]
WORDS = "river stone cloud garden winter music paper engine harbour lantern".split()


def free_port():
    # Dynamo 1.6.1 takes no system port above 32,767.
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Cluster:
    """A front and its workers, in a folder of their own."""

    discovery = "file"
    front_host = "127.0.0.1"

    def __init__(self, *front_flags, silence=5):
        """`silence`: the seconds of it after which the front takes a stream for lost."""
        self.folder = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.processes = []
        self.workers = []
        self.environment = dict(
            os.environ, DYN_FILE_KV=f"{self.folder.name}/store", DYN_LOG="error", HOME=self.folder.name,
            DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS=str(silence))
        os.mkdir(f"{self.folder.name}/store")
        self.prepare()
        self._start("front", *self.command_in(0), "-m", "dynamo.frontend", "--http-host", self.front_host, "--http-port",
                    str(self.port), "--discovery-backend", self.discovery, "--migration-limit", "3", *front_flags)

    def prepare(self):
        pass

    def command_in(self, _machine):
        """Python on the machine: 0 is the front's."""
        return [sys.executable]

    def host_of(self, _machine):
        return "127.0.0.1"

    def _start(self, name, *words, environment=None):
        log = open(f"{self.folder.name}/{name}.log", "wb")
        process = subprocess.Popen(words, stdout=log, stderr=log, env={**self.environment, **(environment or {})})
        log.close()
        self.processes.append(process)
        return process

    def add_worker(self, *flags, machine=1, environment=None):
        """Starts a worker; wait_for_workers says when it serves."""
        port = free_port()
        process = self._start(
            f"worker{len(self.workers)}", *self.command_in(machine), "-m", "ropeway.dynamo", "--model", MODEL, "--tokenizer", TOKENIZER,
            "--served-model-name", "smollm2", "--discovery-backend", self.discovery, "--threads", "1", "--kv-cache-size",
            "96MiB", *flags, environment={"DYN_SYSTEM_PORT": str(port), **(environment or {})})
        process.url = f"http://{self.host_of(machine)}:{port}"
        process.machine = machine
        self.workers.append(process)
        return process

    def wait_for_workers(self, count):
        limit = time.monotonic() + 60
        while time.monotonic() < limit and self.workers[-1].poll() is None:
            if sum(self.is_ready(worker) for worker in self.workers if worker.poll() is None) >= count:
                try:
                    if "smollm2" in self.get("/v1/models"):
                        return
                except OSError:
                    pass
            time.sleep(0.2)
        raise AssertionError(f"the workers are not ready: {self.logs()}")

    def is_ready(self, worker):
        try:
            with urllib.request.urlopen(f"{worker.url}/health", timeout=2) as answer:
                return json.load(answer)["status"] in ("ready", "healthy")
        except (OSError, ValueError, KeyError):
            return False

    def metrics_of(self, worker):
        with urllib.request.urlopen(f"{worker.url}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def value(self, worker, name):
        """Of a metric without labels of its own."""
        values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+]+)$", self.metrics_of(worker), re.MULTILINE)
        return sum(map(float, values))

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.front_host}:{self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def logs(self):
        return {path.name: path.read_text(errors="replace")[-1500:] for path in pathlib.Path(self.folder.name).glob("*.log")}

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.folder.cleanup()


class Answer:
    """What a stream said, by choice."""

    def __init__(self):
        self.texts, self.finish, self.logprobs, self.usage, self.error = {}, {}, {}, None, None
        self.id = None

    def add(self, event):
        self.id = event.get("id") or self.id
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            index = choice["index"]
            said = choice.get("delta", {}).get("content") or choice.get("text") or ""
            self.texts[index] = self.texts.get(index, "") + said
            if choice.get("finish_reason"):
                self.finish[index] = choice["finish_reason"]
            for token in (choice.get("logprobs") or {}).get("content") or ():
                self.logprobs.setdefault(index, []).append((token["token"], round(token["logprob"], 4)))

    def key(self):
        return self.texts, self.finish, self.logprobs, self.usage, self.error


def stream(cluster, body, on_text=None):
    """The answer to a chat; `on_text` is called with all that the first choice has said by then."""
    answer = Answer()
    data = json.dumps({"model": "smollm2", "stream": True, "stream_options": {"include_usage": True}, **body}).encode()
    request = urllib.request.Request(f"http://{cluster.front_host}:{cluster.port}/v1/chat/completions", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=100) as lines:
            for line in lines:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    if "error" in event:
                        answer.error = event["error"]
                    answer.add(event)
                    if on_text:
                        on_text(answer.texts.get(0, ""))
                elif line.startswith(b"event: error"):
                    answer.error = answer.error or "an error event"
    except urllib.error.HTTPError as error:
        answer.error = (error.code, error.read().decode())
    return answer


def chats(count, **fields):
    for i in range(count):
        yield {"messages": [{"role": "user", "content": f"Write a long story about a {WORDS[i % 10]} and a {WORDS[(i * 3 + 1) % 10]}."}],
               "max_tokens": 60, "temperature": 0.8, "seed": 1000 + i, "ignore_eos": True, **fields}


def ask(cluster, bodies, disturb=None):
    """The answers to all at once; `disturb` is called once each has begun to say something."""
    bodies = list(bodies)
    begun = [threading.Event() for _ in bodies]
    with concurrent.futures.ThreadPoolExecutor(len(bodies) + 1) as pool:
        asked = [
            pool.submit(stream, cluster, body, lambda text, event=event: len(text) > 20 and event.set())
            for body, event in zip(bodies, begun)
        ]
        if disturb:
            for event in begun:
                assert event.wait(60), "not all have begun"
            disturb()
        return [one.result() for one in asked]


class DynamoTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--router-mode", "kv")
        for _ in range(2):
            cls.cluster.add_worker()
        cls.cluster.wait_for_workers(2)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def ask(self, bodies, disturb=None):
        return ask(self.cluster, bodies, disturb)

    def compare(self, disturb, kinds):
        """The answers of a run in which a worker dies are those of a quiet one."""
        bodies = [body for fields in kinds for body in chats(20 // len(kinds), **fields)]
        quiet = self.ask(bodies)
        for answer in quiet:
            self.assertIsNone(answer.error)
        victims = [worker for worker in self.cluster.workers if worker.poll() is None]
        share = [self.cluster.value(worker, "ropeway_generation_tokens_total") for worker in victims]
        disturbed = self.ask(bodies, lambda: disturb(victims[0]))
        self.assertTrue(all(share), f"both workers had work: {share}")
        same = [a.key() == b.key() for a, b in zip(quiet, disturbed)]
        if not all(same):
            at = same.index(False)
            self.fail(f"{same.count(False)} of {len(same)} differ, such as {bodies[at]}: {quiet[at].key()} and {disturbed[at].key()}")
        self.replace(victims[0])

    def replace(self, worker):
        worker.wait(30)
        self.cluster.add_worker()
        self.cluster.wait_for_workers(2)
        # Until its lease is over, the front may send new requests to a worker that is gone, and answers 500.
        limit = time.monotonic() + 40
        good = 0
        while good < 8:
            self.assertLess(time.monotonic(), limit)
            (body,) = chats(1, max_tokens=1, seed=good)
            good = good + 1 if stream(self.cluster, body).error is None else 0
            time.sleep(0.1)

    KINDS = (
        {},
        {"frequency_penalty": 0.7, "presence_penalty": 0.2},
        {"stop": [" the castle", "zzz"]},
        {"logprobs": True, "top_logprobs": 2},
    )

    def test_a_worker_is_killed(self):
        def kill(worker):
            worker.kill()
            worker.wait()

        self.compare(kill, self.KINDS)

    def test_a_worker_is_killed_that_has_several_choices(self):
        (body,) = chats(1, n=2, max_tokens=300)
        quiet = stream(self.cluster, body)
        self.assertIsNone(quiet.error)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(stream, self.cluster, body)
            busy = lambda: [worker for worker in self.cluster.workers if worker.poll() is None
                            and self.cluster.value(worker, "ropeway_num_requests_running") == 2]
            self.wait_until(busy)
            time.sleep(0.2)
            (victim,) = busy()
            victim.kill()
            # Dynamo 1.6.1 does not go on with several choices at another worker: it says so.
            answer = asked.result()
            self.assertIsNotNone(answer.error)
            for index, text in answer.texts.items():
                self.assertTrue(quiet.texts[index].startswith(text))
        self.replace(victim)

    def test_a_worker_is_told_to_stop(self):
        def stop(worker):
            worker.send_signal(signal.SIGTERM)

        self.compare(stop, self.KINDS)

    def test_several_choices(self):
        (body,) = chats(1, n=2)
        answer = stream(self.cluster, body)
        self.assertIsNone(answer.error)
        self.assertEqual(set(answer.texts), {0, 1})
        self.assertEqual(answer.finish[0], "length")  # The other one's does not pass the front.
        self.assertNotEqual(answer.texts[0], answer.texts[1])
        self.assertEqual(stream(self.cluster, body).texts, answer.texts)
        (one,) = chats(1)
        self.assertEqual(stream(self.cluster, one).texts[0], answer.texts[0])

    def test_an_absent_seed_follows_from_the_request(self):
        """So the next worker draws the same one: it is that of the request's id."""
        (body,) = chats(1)
        del body["seed"]
        first, second = (stream(self.cluster, body) for _ in range(2))
        self.assertNotEqual(first.texts, second.texts)
        seed = int.from_bytes(hashlib.sha256(first.id.removeprefix("chatcmpl-").encode()).digest()[:4], "big") >> 1
        self.assertEqual(stream(self.cluster, {**body, "seed": seed}).texts, first.texts)

    def test_a_client_that_leaves_frees_its_blocks(self):
        (body,) = chats(1, max_tokens=2000)
        connection = socket.create_connection(("127.0.0.1", self.cluster.port))
        data = json.dumps({"model": "smollm2", "stream": True, **body}).encode()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(data) + data)
        connection.recv(1000)
        running = lambda: sum(self.cluster.value(worker, "ropeway_num_requests_running")
                              for worker in self.cluster.workers if worker.poll() is None)
        self.wait_until(lambda: running() == 1)
        connection.close()
        self.wait_until(lambda: running() == 0)

    def wait_until(self, true):
        limit = time.monotonic() + 5
        while not true():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)

    def test_bad_input_is_said(self):
        (body,) = chats(1, temperature=0.8)
        for fields in ({"logit_bias": None, "top_p": 3}, {"max_tokens": -1}):
            with self.subTest(fields):
                answer = stream(self.cluster, {**body, **fields})
                self.assertIsNotNone(answer.error)

    def test_forms_are_kept(self):
        (body,) = chats(1, ignore_eos=False)
        for fields, pattern in [
            ({"guided_regex": "[0-9]{3}-[a-c]{2}"}, "[0-9]{3}-[a-c]{2}"),
            ({"guided_choice": ["maybe never", "certainly"]}, "maybe never|certainly"),
            ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b"]}}}}, '"[ab]"'),
        ]:
            with self.subTest(fields):
                answer = stream(self.cluster, {**body, **fields})
                self.assertIsNone(answer.error)
                self.assertRegex(answer.texts[0], rf"\A({pattern})\Z")

    def test_blocks_are_shared_within_a_salt(self):
        alive = [worker for worker in self.cluster.workers if worker.poll() is None]
        hits = lambda: sum(self.cluster.value(worker, "ropeway_prefix_cache_hits_total") for worker in alive)
        (body,) = chats(1, max_tokens=1)
        body["messages"][0]["content"] += " Salted." * 50
        seen = []
        # The router does not know where salted blocks are. But there are two workers.
        for salt in ("one", "two", "three", "one", "one"):
            before = hits()
            self.assertIsNone(stream(self.cluster, {**body, "cache_salt": salt}).error)
            seen.append(hits() - before > 50)
        self.assertEqual(seen[:3], [False] * 3)
        self.assertIn(True, seen[3:])

    def test_prompts_go_where_their_prefixes_are(self):
        """Ten conversations, two turns each, by turns: the second turn finds the first one's blocks."""
        alive = [worker for worker in self.cluster.workers if worker.poll() is None]
        hits = lambda: sum(self.cluster.value(worker, "ropeway_prefix_cache_hits_total") for worker in alive)
        long = " ".join(f"item {i} is a {WORDS[i % 10]}" for i in range(40))
        histories = [[{"role": "user", "content": f"List {k}: {long}. Repeat it."}] for k in range(10)]
        ask = lambda messages: stream(self.cluster, {"messages": messages, "max_tokens": 20, "temperature": 0, "ignore_eos": True})
        before = hits()
        shared = 0
        for history in histories:
            answer = ask(history)
            history += [{"role": "assistant", "content": answer.texts[0]}, {"role": "user", "content": "Go on."}]
            shared += answer.usage["prompt_tokens"]
        time.sleep(0.5)
        between = hits()
        for history in histories:
            self.assertIsNone(ask(history).error)
        self.assertGreater(hits() - between, 0.8 * shared, f"hits before: {between - before}")


class AloneTest(unittest.TestCase):
    def test_a_worker_that_would_answer_otherwise_does_not_start(self):
        cluster = Cluster("--router-mode", "round-robin")
        try:
            cluster.add_worker()
            cluster.wait_for_workers(1)
            same = cluster.add_worker()
            other = cluster.add_worker("--kv-cache-dtype", "q8_0")
            self.assertEqual(other.wait(30), 1)
            log = cluster.logs()["worker2.log"]
            self.assertNotIn("Traceback", log)
            self.assertRegex(log, r"(?m)^ropeway\.dynamo: this worker would not give the same answers as worker.*KV q8_0.*KV f16")
            cluster.workers.remove(other)
            cluster.wait_for_workers(2)
            self.assertIsNone(same.poll())
        finally:
            cluster.close()

    def test_a_prompt_may_take_longer_than_silence_may_last(self):
        cluster = Cluster("--router-mode", "round-robin", silence=2)
        try:
            cluster.add_worker()
            cluster.wait_for_workers(1)
            words = " ".join(f"{WORDS[i % 10]} {i * 7919 % 1000}" for i in range(800))
            for count in (1, 2):
                started = time.monotonic()
                answer = stream(cluster, {"messages": [{"role": "user", "content": f"{count}: {words}"}], "max_tokens": 3, "n": count})
                self.assertIsNone(answer.error)
                self.assertEqual(answer.usage["completion_tokens"], 3 * count)
                self.assertGreater(time.monotonic() - started, 3, "the prompt was too short to show anything")
        finally:
            cluster.close()

    def test_no_worker_left_is_said(self):
        cluster = Cluster("--router-mode", "round-robin")
        try:
            worker = cluster.add_worker()
            cluster.wait_for_workers(1)
            (body,) = chats(1, max_tokens=1500)
            killed = threading.Timer(1.0, worker.kill)
            killed.start()
            started = time.monotonic()
            answer = stream(cluster, body)
            self.assertIsNotNone(answer.error, answer.finish)
            self.assertLess(time.monotonic() - started, 60)
        finally:
            cluster.close()


class Network(Cluster):
    """Machines are network namespaces on a bridge: the front's, three workers', and etcd beside them."""

    discovery = "etcd"
    front_host = "10.231.0.10"
    etcd_url = "http://10.231.0.254:2379"

    def prepare(self):
        self.environment.update(ETCD_ENDPOINTS=self.etcd_url, DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS="3")
        self.remove_links()  # Those of a run that was killed.
        self.ip("link add rwbr type bridge", "addr add 10.231.0.254/24 dev rwbr", "link set rwbr up")
        for machine in range(4):
            space = f"rw{machine}"
            self.ip(f"netns add {space}", f"link add {space} type veth peer name eth0 netns {space}", f"link set {space} master rwbr up",
                    f"-n {space} addr add {self.host_of(machine)}/24 dev eth0", f"-n {space} link set eth0 up", f"-n {space} link set lo up")
        self.start_etcd()

    def start_etcd(self):
        self.etcd = self._start("etcd", "etcd", "--data-dir", f"{self.folder.name}/etcd", "--listen-client-urls", self.etcd_url,
                                "--advertise-client-urls", self.etcd_url, "--listen-peer-urls", "http://127.0.0.1:12380")
        limit = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(self.etcd_url + "/health", timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < limit, "etcd does not answer"
                time.sleep(0.1)

    @staticmethod
    def ip(*commands):
        for command in commands:
            subprocess.run(["ip", *command.split()], check=True, capture_output=True)

    def command_in(self, machine):
        return ["ip", "netns", "exec", f"rw{machine}", sys.executable]

    def host_of(self, machine):
        return f"10.231.0.{10 + machine}"

    def close(self):
        super().close()
        self.remove_links()

    @staticmethod
    def remove_links():
        for machine in range(4):
            subprocess.run(["ip", "link", "del", f"rw{machine}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", f"rw{machine}"], capture_output=True)
        subprocess.run(["ip", "link", "del", "rwbr"], capture_output=True)


@unittest.skipUnless("--long" in sys.argv, "minutes: dynamo_suite.sh --long")
class NetworkTest(unittest.TestCase):
    """Three machines and etcd: 200 streams while one of them is lost in each way."""

    def test_machines_are_lost(self):
        try:
            cluster = Network("--router-mode", "round-robin")
        except subprocess.CalledProcessError as error:
            self.assertIn(b"permitted", error.stderr)
            self.skipTest("this machine does not let us make network namespaces")
        self.addCleanup(cluster.close)

        def worker_at(machine):
            return [worker for worker in cluster.workers if worker.machine == machine][-1]

        def fill():
            """A worker on each machine. One has AVX2 alone, whatever the CPU has."""
            for machine in (1, 2, 3):
                known = [worker for worker in cluster.workers if worker.machine == machine]
                if not known or known[-1].poll() is not None:
                    cluster.add_worker(machine=machine, environment={"ROPEWAY_ISA": "avx2"} if machine == 2 else {})
            cluster.wait_for_workers(3)
            good = 0
            limit = time.monotonic() + 60
            while good < 12:
                self.assertLess(time.monotonic(), limit, "the front keeps workers that are gone")
                (body,) = chats(1, max_tokens=1, seed=good)
                good = good + 1 if stream(cluster, body).error is None else 0

        def link(state):
            cluster.ip(f"link set rw1 {state}")

        def restart_etcd():
            cluster.etcd.kill()
            cluster.etcd.wait()
            time.sleep(2)
            cluster.start_etcd()

        def frozen():
            worker_at(2).send_signal(signal.SIGSTOP)

        def thaw():
            if worker_at(2).poll() is None:
                worker_at(2).send_signal(signal.SIGCONT)

        fill()
        bodies = [body for fields in ({}, {"frequency_penalty": 0.7}) for body in chats(25, max_tokens=100, **fields)]
        quiet = ask(cluster, bodies)
        for answer in quiet:
            self.assertIsNone(answer.error)
        for name, disturb, mend in [
            ("a link is down", lambda: link("down"), lambda: link("up")),
            ("a worker is frozen", frozen, thaw),
            ("etcd is restarted", restart_etcd, lambda: None),
            ("a worker is killed", lambda: worker_at(3).kill(), lambda: None),
        ]:
            started = time.monotonic()
            disturbed = ask(cluster, bodies, disturb)
            took = time.monotonic() - started
            mend()
            same = [a.key() == b.key() for a, b in zip(quiet, disturbed)]
            print(f"{name}: {sum(same)} of {len(same)} the same, in {took:.1f} s", file=sys.stderr)
            at = None if all(same) else same.index(False)
            self.assertIsNone(at, at is not None and f"{name}: {bodies[at]}: {quiet[at].key()} and {disturbed[at].key()}")
            time.sleep(12)  # Leases end, and workers without one exit.
            fill()


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--long"])
