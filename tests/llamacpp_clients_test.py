#!/usr/bin/env python3
"""Clients of llama.cpp's server, each from PyPI in a venv of its own: llama-index's llamafile, which asks for /completion, and litellm's
llamafile and openai providers. Before one `ropeway serve`, and before a `ropeway gateway` in front of it.

usage: llamacpp_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import os
import sys
import unittest

PACKAGES = {"LlamafileTest": ("llama-index-llms-llamafile==0.6.0",), "LiteLlmTest": ("litellm==1.110.2",)}
URLS = os.environ.get("ROPEWAY_TEST_URLS", "").split()  # Set where a test runs in its venv.
PROMPT = "The capital of France is"
CHAT = [{"role": "user", "content": "What is a ropeway?"}]


class LlamafileTest(unittest.TestCase):
    def test_completions_and_streams(self):
        from llama_index.core.llms import ChatMessage
        from llama_index.llms.llamafile import Llamafile
        texts = []
        for url in URLS:
            client = Llamafile(base_url=url, temperature=0.5, seed=7, request_timeout=120, additional_kwargs={"n_predict": 8})
            whole = client.complete(PROMPT)
            self.assertEqual((whole.raw["stop_type"], whole.raw["timings"]["predicted_n"]), ("limit", 8))
            parts = list(client.stream_complete(PROMPT))
            self.assertGreater(len(parts), 2)
            self.assertEqual(parts[-1].text, whole.text)
            texts.append(whole.text)
            reply = client.chat([ChatMessage(role="user", content="What is a ropeway?")], max_tokens=8)
            self.assertTrue(reply.message.content)
        self.assertEqual(len(set(texts)), 1)


class LiteLlmTest(unittest.TestCase):
    def test_its_providers(self):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # It would ask the network.
        import litellm
        litellm.telemetry = False
        texts = []
        for url in URLS:
            for provider in ("llamafile", "openai"):
                options = {"model": f"{provider}/default", "api_base": url + "/v1", "api_key": "any", "temperature": 0,
                           "max_tokens": 8, "seed": 7}
                whole = litellm.completion(messages=CHAT, **options)
                stream = litellm.completion(messages=CHAT, stream=True, **options)
                parts = [chunk.choices[0].delta.content or "" for chunk in stream]
                self.assertEqual("".join(parts), whole.choices[0].message.content)
                texts.append(whole.choices[0].message.content)
            scored = litellm.text_completion(model="text-completion-openai/default", prompt=PROMPT, api_base=url + "/v1",
                                             api_key="any", max_tokens=4, temperature=0, logprobs=1)
            self.assertTrue(scored.choices[0].text)
        self.assertEqual(len(set(texts)), 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    flags, _ = parser.parse_known_args()
    from client_venvs import run_in_venvs
    from gateway_server import Gateway, backend
    from ropeway_server import RopewayServer
    server = RopewayServer(flags.ropeway, flags.model)
    try:
        gateway = Gateway(flags.ropeway, *backend(f"http://127.0.0.1:{server.port}", kind="ropeway", model="ours",
                                               upstream="default"))
        try:
            urls = " ".join(f"http://127.0.0.1:{port}" for port in (server.port, gateway.port))
            return 0 if run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URLS": urls}) else 1
        finally:
            gateway.stop()
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    if URLS:
        unittest.main()
    sys.exit(main())
