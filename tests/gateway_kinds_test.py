#!/usr/bin/env python3
"""`ropeway gateway`: the kinds of backends by scripted servers (backend_double.py), with what each says and does not know;
keys and names; and what is wrong at the start, which is one line.

usage: gateway_kinds_test.py --ropeway PROGRAM [unittest flags]
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import backend_double as double
import gateway_server
from backend_double import text_for
from gateway_server import ARGS, PATIENCE, SOON, GatewayCase, backend, eventually, together

GUIDE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "gateway.md"


class KindsTest(GatewayCase):
    def test_usage_is_filled_in_and_says_so(self):
        told, silent = self.double(double.answer, model="told"), self.double(double.without_usage, model="silent")
        gateway = self.start(*backend(told), *backend(silent))
        outcome = gateway.complete("count me", 5, model="told")
        self.assertEqual((outcome.usage["prompt_tokens"], outcome.usage["completion_tokens"]), (7, 5))
        self.assertNotIn("estimated", json.dumps(outcome.raw))
        outcome = gateway.complete("count me", 5, model="silent")
        self.assertGreater(outcome.usage["prompt_tokens"], 0)
        self.assertGreater(outcome.usage["completion_tokens"], 0)
        self.assertIs(outcome.usage["estimated"], True)

    def test_streams_pass_token_by_token(self):
        one = self.double(double.slowly(0.02))
        gateway = self.start(*backend(one))
        outcome = gateway.chat("slowly", 20, stream=True)
        self.good(outcome, "slowly", 20)
        pieces = [event for event in outcome.raw if event["choices"] and event["choices"][0]["delta"].get("content")]
        self.assertEqual(len(pieces), 20)

    def test_several_choices_are_several_requests(self):
        one = self.double(double.answer)
        gateway = self.start(*backend(one))
        outcome = gateway.complete("twice", 4, n=2, stream=True)
        self.assertTrue(outcome.good, outcome)
        self.assertEqual(outcome.text, {0: text_for("twice", 4), 1: text_for("twice", 4)})

    def test_a_key_goes_to_its_backend_alone(self):
        one, other = self.double(double.answer, model="one"), self.double(double.answer, model="other")
        gateway = self.start(*backend(one, key_env="DOUBLE_KEY"), *backend(other), "--log-level", "debug",
                             environment={"DOUBLE_KEY": "secret-of-the-double"})
        for model in ("one", "other"):
            self.assertTrue(gateway.complete("hello", model=model, user="x").good)
        self.assertEqual(one.exchanges[0].headers["authorization"], "Bearer secret-of-the-double")
        self.assertNotIn("authorization", other.exchanges[0].headers)
        shown = gateway.output() + json.dumps(gateway.health()) + gateway.get("/metrics")[1]
        self.assertNotIn("secret-of-the-double", shown)

    def test_unknown_models_and_names(self):
        one = self.double(double.answer)
        gateway = self.start(*backend(one, model="public", upstream="inner", alias="nickname"))
        for name in ("public", "nickname", "default"):
            self.good(gateway.complete("hello", model=name), "hello")
        self.assertEqual({body["model"] for body in one.asked()}, {"inner"})
        self.assertEqual(gateway.complete("hello", model="nobody").status, 404)
        self.assertIn("public", [model["id"] for model in json.loads(gateway.get("/v1/models")[1])["data"]])

    def test_a_file_names_several_models_and_their_replicas(self):
        doubles = [self.double(double.answer, model=name) for name in ("a", "a", "b")]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gateway.toml"
            path.write_text(f"""[gateway]
max-retries = 1

[[gateway.backend]]
url = "{doubles[0].url}"
model = "a"
alias = ["first", "one"]

[[gateway.backend]]
url = "{doubles[1].url}"
model = "a"
weight = 2
max-concurrency = 4

[[gateway.backend]]
url = "{doubles[2].url}"
model = "b"
upstream = "inner-b"
""", encoding="utf-8")
            gateway = self.start("--config", path)
        for i, name in enumerate(("a", "first", "one", "default")):
            self.good(gateway.complete(f"{i}", model=name), f"{i}")
        self.good(gateway.complete("to b", model="b"), "to b")
        self.assertEqual(len(doubles[0].exchanges) + len(doubles[1].exchanges), 4)
        self.assertEqual([body["model"] for body in doubles[2].asked()], ["inner-b"])

    def test_the_file_of_the_guide(self):
        """What docs/gateway.md shows is a configuration; only its addresses and paths are others here."""
        found = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(found), 1)
        with tempfile.TemporaryDirectory() as folder:
            keys, path = pathlib.Path(folder) / "keys.toml", pathlib.Path(folder) / "gateway.toml"
            keys.write_text('[[keys]]\nname = "one"\nkey = "key-of-a-client-1"\n', encoding="utf-8")
            keys.chmod(0o600)
            shown = found[0]
            for there, here in (('"keys.toml"', f'"{keys}"'), ("http://10.0.0.1:8080", "http://127.0.0.1:1"),
                                ("http://10.0.0.2:8080", "http://127.0.0.1:2"),
                                ("https://vllm.example", "https://127.0.0.1:3")):
                self.assertEqual(shown.count(there), 1, there)
                shown = shown.replace(there, here)
            path.write_text(shown, encoding="utf-8")
            gateway = self.start("--config", path, ready=False, environment={"REPLICA_KEY": "key-1", "VLLM_KEY": "key-2"})
        models = json.loads(gateway.get("/v1/models", "key-of-a-client-1")[1])["data"]
        self.assertEqual({model["id"] for model in models}, {"llama-3.1-8b", "gpt-4o-mini", "chat", "qwen3-30b"})
        backends = json.loads(gateway.get("/health", "key-of-a-client-1")[1])["backends"]
        self.assertEqual([(one["model"], one["name"]) for one in backends],
                         [("llama-3.1-8b", "127.0.0.1:1"), ("llama-3.1-8b", "127.0.0.1:2"), ("qwen3-30b", "127.0.0.1:3")])

    def test_llama_servers_slots_are_its_places(self):
        one = self.double(double.slowly(0.02), double.llamacpp_facts(4))
        gateway = self.start(*backend(one, kind="llamacpp"))
        eventually(lambda: any(look.path.startswith("/props") for look in one.looks), "it was looked at", SOON)
        self.assertTrue(gateway.complete("first", 3).good)
        for outcome in together(lambda i: gateway.complete(f"{i}", 3), range(16)):
            self.assertTrue(outcome.good, outcome)
        self.assertLessEqual(one.most_in_flight, 4)
        self.assertGreaterEqual(one.most_in_flight, 2)

    def test_ollama(self):
        one = self.double(double.ollama_answer, double.ollama_facts)
        gateway = self.start(*backend(one, kind="ollama"))
        outcome = gateway.chat("hello", 6, stream=True, temperature=0.5, seed=9, stop=["END"], top_p=0.9)
        self.good(outcome, "hello", 6)
        self.assertEqual(outcome.reasons, {0: "stop"})
        exchange = one.exchanges[-1]
        self.assertEqual(exchange.path, "/api/chat")
        self.assertEqual(exchange.body["messages"], [{"role": "user", "content": "hello"}])
        options = exchange.body["options"]
        self.assertEqual((options["num_predict"], options["seed"], options["stop"]), (6, 9, ["END"]))
        self.assertAlmostEqual(options["temperature"], 0.5, places=5)
        self.assertAlmostEqual(options["top_p"], 0.9, places=5)
        outcome = gateway.complete("once upon", 4)
        self.good(outcome, "once upon", 4)
        self.assertEqual(one.exchanges[-1].path, "/api/generate")
        self.assertEqual((outcome.usage["prompt_tokens"], outcome.usage["completion_tokens"]), (11, 4))

    def test_ollamas_ends_tools_and_errors(self):
        def tools(exchange):
            call = {"function": {"name": "get_weather", "arguments": {"city": "Bozen"}}}
            exchange.head(200, "application/x-ndjson")
            exchange.line(double.ollama_line(exchange, "") | {
                "message": {"role": "assistant", "content": "", "tool_calls": [call]}})
            exchange.line(double.ollama_end(exchange))
            exchange.end()

        def thinks(exchange):
            exchange.head(200, "application/x-ndjson")
            exchange.line(double.ollama_line(exchange, "") | {
                "message": {"role": "assistant", "content": "", "thinking": "Hm."}})
            exchange.line(double.ollama_line(exchange, "Yes."))
            exchange.line(double.ollama_end(exchange))
            exchange.end()

        def breaks(exchange):
            exchange.head(200, "application/x-ndjson")
            exchange.line(double.ollama_line(exchange, "The "))
            exchange.line({"error": "llama runner process has terminated"})
            exchange.end()

        def misses(exchange):
            exchange.reply(404, {"error": "model 'misses' not found"})

        scripts = {"full": lambda exchange: double.ollama_answer(exchange, "length"), "tools": tools, "thinks": thinks,
                   "breaks": breaks, "misses": misses, "hangs": double.hang_before_the_head,
                   "garbage": lambda exchange: exchange.reply(200, b'{"model": "x", "resp', "application/x-ndjson")}
        doubles = {name: self.double(behave, double.ollama_facts, model=name) for name, behave in scripts.items()}
        gateway = self.start(*[word for one in doubles.values() for word in backend(one, kind="ollama")],
                             "--backend-idle-timeout", "1s", "--backend-first-byte-timeout", "1s")
        cases = [(name, stream) for name in scripts for stream in (True, False)]
        outcomes = dict(zip(cases, together(
            lambda case: gateway.chat("hello", 4, model=case[0], stream=case[1]), cases)))
        for (name, stream), outcome in outcomes.items():
            with self.subTest(name=name, stream=stream):
                self.assertTrue(outcome.ended_once, outcome)
                if name == "full":
                    self.good(outcome, "hello", 4)
                    self.assertEqual(outcome.reasons, {0: "length"})
                elif name == "thinks":
                    self.assertTrue(outcome.good, outcome)
                    self.assertTrue(outcome.text[0].endswith("Yes."), outcome)
                elif name == "tools":
                    self.assertTrue(outcome.good, outcome)
                    self.assertEqual(outcome.reasons, {0: "tool_calls"})
                else:
                    self.assertTrue(outcome.failed, outcome)
                    self.assertIn(str(doubles[name].port), outcome.errors[0])
        self.assertIn("llama runner process has terminated", outcomes["breaks", True].errors[0])
        self.assertIn("model 'misses' not found", outcomes["misses", False].errors[0])

    def test_what_a_kind_does_not_know(self):
        """Dropped, or refused with --strict."""
        asked = {"prompt": "hello", "max_tokens": 4, "typical_p": 0.5}
        one = self.double(double.answer)
        self.good(self.start(*backend(one)).ask("/v1/completions", asked), "hello", 4)
        outcome = self.start(*backend(one), "--strict").ask("/v1/completions", asked)
        self.assertEqual(outcome.status, 400, outcome)
        self.assertIn("typical_p", outcome.errors[0])


class GuideTest(GatewayCase):
    """What docs/gateway.md shows runs, and what it says of flags is so; test_the_file_of_the_guide has its file."""

    SERVERS = {"llamacpp": (double.answer, double.llamacpp_facts(4)), "ollama": (double.ollama_answer, double.ollama_facts),
               "openai": (double.answer,)}
    UNITS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}

    def test_its_commands_run(self):
        """Before doubles of the servers that they are for, and with the guide's request."""
        guide = GUIDE.read_text(encoding="utf-8")
        commands = [shlex.split(command.replace("\\\n", "")) for command in
                    re.findall(r"^    ropeway gateway ((?:.*\\\n)*.*http.*)$", guide, re.MULTILINE)]
        curl = re.findall(r"^    (curl (?:.*\\\n)*.*)$", guide, re.MULTILINE)[0]
        shown = set()
        for words in commands:
            with self.subTest(command=words):
                self.assertEqual(words[:2], ["--port", "9000"])
                servers = []
                for i in range(3, len(words), 2):
                    kind = (re.search(r"kind=(\w+)", words[i]) or [None, "openai"])[1]
                    shown.add(kind)
                    servers.append(self.double(*self.SERVERS[kind]))
                    words[i] = re.sub(r"http://[0-9.]+:\d+", servers[-1].url, words[i])
                gateway = self.start(*words[2:])
                reply = subprocess.run(["bash", "-euc", curl.replace(":9000", f":{gateway.port}")], capture_output=True,
                                       text=True, check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
                (choice,) = json.loads(reply.stdout)["choices"]
                self.assertEqual(choice["message"]["content"], text_for("Now, please.", 8))
                self.assertEqual(sum(len(server.exchanges) for server in servers), 1)
        self.assertEqual(shown, set(self.SERVERS))

    def number(self, text):
        """`5 s`, `50ms` or `8` as a number."""
        found = re.fullmatch(r"(\d+) ?([a-z]*)", text)
        return int(found[1]) * self.UNITS[found[2]]

    def test_its_flags_are_there_and_have_these_defaults(self):
        guide = GUIDE.read_text(encoding="utf-8")
        flags = {}
        for command in ("serve", "gateway"):
            shown = subprocess.run([ARGS.ropeway, command, "--help-all"], capture_output=True, text=True, check=True,
                                   timeout=PATIENCE, stdin=subprocess.DEVNULL).stdout
            parts = re.split(r"^ {2,6}(?:-\w+, )*(--[a-z][a-z-]*)", shown, flags=re.MULTILINE)
            flags |= dict(zip(parts[1::2], parts[2::2]))
        named = set(re.findall(r"`(--[a-z][a-z-]*)", guide))
        self.assertGreater(len(named), 15)
        self.assertEqual(named - set(flags), set(), "there are no such flags")
        said = re.findall(r"`(--[a-z][a-z-]*)`\s+\((\d+ ?(?:ms|s|m|h)?)\)", guide)
        self.assertGreaterEqual(len(said), 8)
        for flag, value in said:
            with self.subTest(flag=flag):
                default = re.search(r"\[default:\s+([^\];]+)", flags[flag])[1]
                self.assertAlmostEqual(self.number(value), self.number(default))


class LiesTest(GatewayCase):
    """What a backend says that cannot be true, whole and streamed, of chats and completions."""

    def outcomes(self, gateway, count=4, key="", **more):
        for stream in (False, True):
            streamed = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            body = {"max_tokens": count, **streamed, **more}
            yield gateway.ask("/v1/completions", {"prompt": "lie", **body}, key)
            yield gateway.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "lie"}], **body}, key)

    def test_a_key_pays_what_it_asked_for(self):
        huge = 2 ** 31 - 1
        usage = {"prompt_tokens": huge, "completion_tokens": huge, "prompt_tokens_details": {"cached_tokens": huge}}

        def lying(exchange):
            stream = double.OpenAi(exchange)
            stream.pieces(4)
            stream.finish(usage=usage)

        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.toml"
            keys.write_text('[[keys]]\nname = "one"\nkey = "key-of-a-client-1"\ntokens_per_minute = 600\n', encoding="utf-8")
            keys.chmod(0o600)
            gateway = self.start(*backend(self.double(lying)), "--api-keys", keys)
        for n in (1, 3):
            for outcome in self.outcomes(gateway, key="key-of-a-client-1", n=n):
                self.assertTrue(outcome.good, outcome)
                found = outcome.usage
                self.assertEqual(found["completion_tokens"], 4 * n)
                self.assertLess(found["prompt_tokens"], 5000)
                self.assertEqual(found["total_tokens"], found["prompt_tokens"] + found["completion_tokens"])
                self.assertLessEqual(found["prompt_tokens_details"]["cached_tokens"], found["prompt_tokens"])
                self.assertIs(found["estimated"], True)

    def test_more_than_was_asked_for_is_not_passed_on(self):
        def too_long(exchange):
            stream = double.OpenAi(exchange)
            stream.pieces(exchange.max_tokens + 40)
            stream.finish("stop", double.usage_of(exchange))

        def ollamas(exchange):
            exchange.head(200, "application/x-ndjson")
            for text in double.pieces_for(exchange.prompt, exchange.max_tokens + 40):
                exchange.line(double.ollama_line(exchange, text))
            exchange.line(double.ollama_end(exchange))
            exchange.end()

        one, other = self.double(too_long, model="one"), self.double(ollamas, double.ollama_facts, model="other")
        gateway = self.start(*backend(one), *backend(other, kind="ollama"))
        for model in ("one", "other"):
            for outcome in self.outcomes(gateway, model=model):
                self.assertTrue(outcome.good, outcome)
                self.assertEqual(outcome.text, {0: text_for("lie", 4)})
                self.assertEqual(outcome.reasons, {0: "length"})
                self.assertEqual(outcome.usage["completion_tokens"], 4)

    def test_behind_a_finish_reason_nothing_is_text(self):
        def goes_on(exchange):
            stream = double.OpenAi(exchange)
            stream.piece("A", "stop")
            stream.piece("LATER")
            stream.piece("L2", "length")
            stream.finish(usage=double.usage_of(exchange))

        gateway = self.start(*backend(self.double(goes_on)))
        for outcome in self.outcomes(gateway):
            self.assertTrue(outcome.good, outcome)
            self.assertEqual((outcome.text, outcome.reasons), ({0: "A"}, {0: "stop"}))

    def test_names_that_cannot_be_shown_are_skipped(self):
        names = ["a\n\"b\" 5\r\nX: y", "nul\0", "\u202etxet", "x" * 100000, "good", *(f"m{i}" for i in range(20000))]

        def facts(_, exchange):
            exchange.reply(200, {"object": "list", "data": [{"id": name, "owned_by": "o\n" + name} for name in names]})

        one = self.double(double.answer, facts)
        gateway = self.start("--backend", one.url + ",name=named")
        shown = [model["id"] for model in json.loads(gateway.get("/v1/models")[1])["data"]]
        self.assertEqual(shown[:2], ["good", "m0"])
        self.assertEqual(len(shown), 1024)
        everything = gateway.output() + gateway.get("/metrics")[1] + gateway.get("/health")[1]
        for bad in ("\"b\" 5", "\0", "\u202e", "x" * 600):
            self.assertNotIn(bad, everything)
        self.assertIn("18977 more models", everything)
        self.good(gateway.complete("hello", model="m7"), "hello")


class StartTest(unittest.TestCase):
    def fails(self, named, *flags, file=None):
        """It says one line, with `named` in it, and no more."""
        with tempfile.TemporaryDirectory() as folder:
            words = [ARGS.ropeway, "gateway", "--port", "0", *flags]
            if file is not None:
                path = pathlib.Path(folder) / "gateway.toml"
                path.write_text(file, encoding="utf-8")
                words += ["--config", path]
            environment = {name: value for name, value in os.environ.items() if name != "NO_SUCH_KEY"}
            reply = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=PATIENCE,
                                   stdin=subprocess.DEVNULL, env={**environment, "EMPTY_KEY": ""})
        with self.subTest(named=named, flags=flags):
            self.assertEqual((reply.returncode, reply.stdout, reply.stderr.count("\n")), (1, "", 1), reply.stderr)
            self.assertIn(named, reply.stderr)

    def test_what_is_wrong_is_one_line(self):
        url = "http://127.0.0.1:9"
        self.fails("--backend")
        for more, named in (("kind=telepathy", "telepathy"), ("weight=0", "weight"), ("weight=-1", "weight"),
                            ("weight=much", "weight"), ("max-concurrency=0", "max-concurrency"),
                            ("key-env=NO_SUCH_KEY", "NO_SUCH_KEY"), ("key-env=EMPTY_KEY", "EMPTY_KEY"),
                            ("colour=red", "colour"), ("model=", "model"), ("weight=1,weight=2", "weight"),
                            ("kind", "kind"), ("insecure=true", "insecure")):
            self.fails(named, "--backend", f"{url},{more}")
        for wrong in ("no-url", "http://", "ftp://127.0.0.1", "http://127.0.0.1:70000", "http://[::1", "", "local:"):
            self.fails("--backend", "--backend", wrong)
        self.fails("127.0.0.1:9", "--backend", url, "--backend", url)
        self.fails("same", "--backend", f"{url},name=same", "--backend", "http://127.0.0.1:10,name=same")
        self.fails("nick", "--backend", f"{url},model=a,alias=nick", "--backend", "http://127.0.0.1:10,model=b,alias=nick")
        for flag, value in (("--dispatch", "telepathy"), ("--max-batch-size", "0"), ("--max-parallel-batches", "0"),
                            ("--hold-timeout", "soon"), ("--backend-idle-timeout", "never"), ("--batch-control", "magic")):
            self.fails(flag, "--backend", url, flag, value)

    def test_what_is_wrong_in_a_file_is_one_line(self):
        table = '[[gateway.backend]]\nurl = "http://127.0.0.1:9"\n'
        for more, named in (('kind = "telepathy"', "telepathy"), ("weight = 0", "weight"), ('colour = "red"', "colour"),
                            ('key-env = "NO_SUCH_KEY"', "NO_SUCH_KEY"), (table, "127.0.0.1:9"), ("weight = ", "gateway.toml")):
            self.fails(named, file=table + more + "\n")
        self.fails("--backend", file='[[gateway.backend]]\nurl = "no-url"\n')

    def test_secrets_are_not_shown(self):
        for wrong in ("http://me:pass-of-mine@127.0.0.1:9", "http://127.0.0.1:9,key-env=pass-of-mine!"):
            reply = subprocess.run([ARGS.ropeway, "gateway", "--port", "0", "--backend", wrong], capture_output=True, text=True,
                                   check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL)
            self.assertEqual((reply.returncode, reply.stderr.count("\n")), (1, 1), reply.stderr)
            self.assertNotIn("pass-of-mine", reply.stdout + reply.stderr)


if __name__ == "__main__":
    gateway_server.main()
