#!/usr/bin/env python3
"""The rights and limits of API keys through OpenAI's official Python client: a full queue,
API keys with their limits, and which requests share cached prefixes.

usage: openai_tenants_test.py --ropeway PROGRAM --model FILE.gguf --tiny TINY.gguf [unittest flags]
"""
import concurrent.futures
import json
import tempfile
import time

import openai

from openai_server import ARGS, ENDLESS, GREEDY, MODEL, QUESTIONS, Server, TimedCase, ask, main
from ropeway_server import eventually


class FullServerTest(TimedCase):
    def test_a_full_queue_is_a_rate_limit(self):
        # Else the endless one's length, which is known, would reject the one that is to wait.
        server = Server("--max-num-seqs", "1", "--max-queued-requests", "1", "--max-wait", "1h")
        self.addCleanup(server.stop)
        client = server.client()
        complete = lambda: client.completions.create(model=MODEL, prompt="x", max_tokens=48)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            stream = client.completions.create(prompt="x", stream=True, **ENDLESS)
            server.wait_for("ropeway_num_requests_running", lambda n: n == 1)
            waiting = pool.submit(complete)
            server.wait_for("ropeway_num_requests_waiting", lambda n: n == 1)
            for _ in range(6):
                with self.assertRaises(openai.RateLimitError) as caught:
                    complete()
                self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)
            stream.close()
            self.assertEqual(waiting.result().object, "text_completion")
        # The client's own retries let all of them succeed.
        patient = server.client(max_retries=10)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            replies = list(pool.map(lambda _: patient.completions.create(model=MODEL, prompt="x", max_tokens=4),
                                    range(3)))
        self.assertEqual(len(replies), 3)


class KeyTest(TimedCase):
    def test_api_keys(self):
        server = Server("--api-key", "sk-right", "--log-level", "debug")
        self.addCleanup(server.stop)
        for key in ("sk-wrong", "sk-righ", "sk-right2", "x" * 5000):
            with self.subTest(key=key[:10]), self.assertRaises(openai.AuthenticationError) as caught:
                server.client(api_key=key).completions.create(model=MODEL, prompt="x", max_tokens=1)
            self.assertEqual(caught.exception.code, "invalid_api_key")
        with self.assertRaises(openai.AuthenticationError):
            server.client(api_key="sk-wrong").models.list()
        reply = server.client(api_key="sk-right").completions.create(model=MODEL, prompt="a secret prompt",
                                                                     max_tokens=1)
        self.assertEqual(reply.usage.completion_tokens, 1)
        for path in ("/livez", "/readyz"):
            self.assertEqual(server.plain("GET", path)[0], 200)
        eventually(lambda: "route=/v1/completions status=200" in server.output(), "the answer is logged")
        for secret in ("sk-right", "sk-wrong", "secret prompt"):
            self.assertNotIn(secret, server.output())

    def test_what_a_key_may_use(self):
        """Classes by OpenAI's names, a ceiling, requests under way, and tokens per minute."""
        file = tempfile.NamedTemporaryFile("w", prefix="ropeway-keys-", suffix=".toml")
        self.addCleanup(file.close)
        for name, more in (("low", 'priority_ceiling = "low"'), ("one", "max_concurrent_requests = 1"),
                           ("few", "tokens_per_minute = 30")):
            file.write(f'[[keys]]\nname = "{name}"\nkey = "secret-key-{name}"\n{more}\n')
        file.flush()
        server = Server("--api-keys", file.name)
        self.addCleanup(server.stop)

        def client(name):
            return server.client(api_key=f"secret-key-{name}")

        chat = {"model": MODEL, "messages": ask("Hello"), "max_tokens": 1}
        self.assertEqual(client("low").chat.completions.create(**chat, service_tier="auto").service_tier, "flex")
        self.assertEqual(client("one").chat.completions.create(**chat, service_tier="priority").service_tier,
                         "priority")
        self.assertIsNone(client("low").chat.completions.create(**chat).service_tier)
        with self.assertRaises(openai.PermissionDeniedError) as forbidden:
            client("low").chat.completions.create(**chat, service_tier="default")
        self.assertEqual(forbidden.exception.param, "service_tier")

        text = {"model": MODEL, "prompt": [1000] * 20}
        stream = client("one").completions.create(**text, max_tokens=4000, stream=True,
                                                  extra_body={"ignore_eos": True})
        next(iter(stream))
        server.key = "secret-key-one"
        queue = json.loads(server.plain("GET", "/v1/queue")[1])
        self.assertEqual([(r["priority"], r["state"]) for r in queue["requests"]], [("medium", "running")])
        with self.assertRaises(openai.RateLimitError) as busy:
            client("one").completions.create(**text, max_tokens=1)
        self.assertEqual((busy.exception.code, busy.exception.type), ("rate_limit_exceeded", "requests"))
        # It tells when the running one would have ended.
        self.assertGreaterEqual(int(busy.exception.response.headers["retry-after"]), 1)
        stream.close()
        while json.loads(server.plain("GET", "/v1/queue")[1])["requests"]:
            time.sleep(0.01)
        client("one").with_options(max_retries=20).completions.create(**text, max_tokens=1)

        reply = client("few").completions.with_raw_response.create(**text, max_tokens=20,
                                                                   extra_body={"ignore_eos": True})
        self.assertEqual(reply.headers["x-ratelimit-limit-tokens"], "30")
        self.assertEqual(reply.headers["x-ratelimit-remaining-tokens"], "0")
        self.assertEqual(reply.headers["x-ropeway-queue-position"], "0")
        with self.assertRaises(openai.RateLimitError) as spent:
            client("few").completions.create(**text, max_tokens=1)
        self.assertEqual(spent.exception.type, "tokens")
        # It ended where the key's tokens did, short of its max_tokens.
        done = reply.parse()
        self.assertEqual((done.choices[0].finish_reason, done.usage.total_tokens < 40), ("length", True))
        # 21 are missing, and what the last step had beyond the bucket; half a token fills up in a second.
        self.assertIn(int(spent.exception.response.headers["retry-after"]), range(1, 47))


class PrefixCacheTest(TimedCase):
    """Which requests share cached prefixes, by their usage; the texts never change."""

    KEYS = (("a", None), ("b", None), ("c", "team"), ("d", "team"))
    PROMPT = list(range(3, 203))

    def serve(self, *flags, model=None):
        file = tempfile.NamedTemporaryFile("w", prefix="ropeway-keys-", suffix=".toml")
        self.addCleanup(file.close)
        for name, scope in self.KEYS:
            file.write(f'[[keys]]\nname = "{name}"\nkey = "secret-key-{name}"\n')
            file.write(f'cache_scope = "{scope}"\n' if scope else "")
        file.flush()
        self.server = Server("--api-keys", file.name, "--admin-key", "secret-admin", *flags, model=model or ARGS.tiny)
        self.server.key, self.server.admin_key = "secret-key-a", "secret-admin"
        self.addCleanup(self.stop)

    def stop(self):
        if self.server.process.poll() is None:
            self.server.stop()

    def cached(self, key, prompt=None, **body):
        """The cached tokens of one request; checks that its text is that of all others."""
        client = self.server.client(api_key=f"secret-key-{key}")
        reply = client.completions.create(**GREEDY, prompt=prompt or self.PROMPT, max_tokens=4, extra_body=body)
        if prompt is None:
            self.texts.add(reply.choices[0].text)
        return reply.usage.prompt_tokens_details.cached_tokens

    def test_which_requests_share(self):
        self.serve()
        self.texts = set()
        self.assertEqual(self.cached("a"), 0)
        # All full blocks of 16 except the one with the last token, which is computed.
        self.assertEqual(self.cached("a"), 192)
        self.assertEqual(self.cached("a", self.PROMPT[:192]), 176)
        self.assertEqual(self.cached("a", self.PROMPT[:100] + [5] * 100), 96)
        self.assertEqual(self.cached("a", [5] + self.PROMPT), 0)
        # Another tenant, and a salt, share nothing with it; nor does one salt with another.
        self.assertEqual(self.cached("b"), 0)
        for salt in ("x", "y"):
            self.assertEqual(self.cached("a", cache_salt=salt), 0)
            self.assertEqual(self.cached("a", cache_salt=salt), 192)
            self.assertEqual(self.cached("b", cache_salt=salt), 0)
        # Keys of one scope share with each other, salt by salt.
        self.assertEqual(self.cached("c"), 0)
        self.assertEqual(self.cached("d"), 192)
        self.assertEqual(self.cached("c", cache_salt="x"), 0)
        self.assertEqual(self.cached("d", cache_salt="x"), 192)
        # Fields that do not affect sharing.
        self.assertEqual(self.cached("a", prompt_cache_key="k", prompt_cache_retention="24h"), 192)
        # Scored prompts are computed.
        self.assertEqual(self.cached("a", prompt_logprobs=0), 0)
        self.assertEqual(len(self.texts), 1)

    def test_off(self):
        self.serve("--prefix-caching", "off")
        self.texts = set()
        self.assertEqual([self.cached("a"), self.cached("a"), self.cached("c"), self.cached("d")], [0] * 4)
        self.assertEqual(len(self.texts), 1)
        self.assertEqual(self.server.metric("ropeway_prefix_cache_hits_total"), 0)

    def test_the_next_server_finds_what_is_on_disk(self):
        folder = tempfile.TemporaryDirectory(prefix="ropeway-kv-")
        self.addCleanup(folder.cleanup)
        self.texts = set()
        self.serve("--kv-disk-path", folder.name, model=ARGS.model)
        self.assertEqual([self.cached("a"), self.cached("c", cache_salt="x")], [0, 0])
        self.stop()
        self.serve("--kv-disk-path", folder.name, model=ARGS.model)
        # Read only by requests that share: another tenant and another salt find nothing.
        self.assertEqual([self.cached("b"), self.cached("a", cache_salt="x"), self.cached("d")], [0] * 3)
        self.assertEqual(self.server.metric("ropeway_kv_disk_fetched_blocks_total"), 0)
        self.assertEqual([self.cached("a"), self.cached("d", cache_salt="x")], [192, 192])
        self.assertEqual(self.server.metric("ropeway_kv_disk_fetched_blocks_total"), 24)
        self.assertEqual(len(self.texts), 1)

    def test_a_chat_stream_says_it_too(self):
        self.serve()
        client = self.server.client(api_key="secret-key-a")
        question = ask("Tell me of " + ", ".join(QUESTIONS))
        seen = []
        for _ in range(2):
            usage = None
            for chunk in client.chat.completions.create(
                    **GREEDY, messages=question, max_tokens=4, stream=True,
                    stream_options={"include_usage": True}):
                usage = chunk.usage or usage
            seen.append((usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens))
        self.assertEqual(seen[0][0], 0)
        self.assertEqual(seen[1][0], (seen[1][1] - 1) // 16 * 16)


if __name__ == "__main__":
    main()
