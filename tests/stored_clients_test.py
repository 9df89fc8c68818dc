#!/usr/bin/env python3
"""Stored answers as real programs use them: openai's responses and conversations, openai-agents with its sessions, and
langchain-openai with use_responses_api, each from PyPI in a venv of its own, before one `ropeway serve --state-path`.

usage: stored_clients_test.py --ropeway PROGRAM --model FILE.gguf     (./test --suite clients)
"""
import argparse
import asyncio
import os
import sys
import tempfile
import time
import unittest

OPENAI = ("openai==3.57.0", "langchain-openai==1.7.4")
AGENTS = ("openai==3.57.0", "openai-agents==0.24.0")
PACKAGES = {"OpenAiTest": OPENAI, "LangChainTest": OPENAI, "OpenAiAgentsTest": AGENTS}
URL = os.environ.get("ROPEWAY_TEST_URL", "")  # Set where a test runs in its venv.
MODEL, QUESTION = "default", "What is a ropeway?"
SHORT = {"temperature": 0, "max_tokens": 400, "extra_body": {"stop": ["."]}}  # The agents take no incomplete answer.

if URL:
    import openai


class ClientCase(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=URL, api_key="any", max_retries=0, timeout=300)

    def ask(self, words=QUESTION, **more):
        return self.client.responses.create(**{"model": MODEL, "input": words, "temperature": 0, "max_output_tokens": 24, **more})

    def wait(self, reply):
        while reply.status in ("queued", "in_progress"):
            time.sleep(0.02)
            reply = self.client.responses.retrieve(reply.id)
        return reply


class OpenAiTest(ClientCase):
    def test_a_response_is_kept(self):
        reply = self.ask(metadata={"a": "b"})
        again = self.client.responses.retrieve(reply.id)
        self.assertEqual((again.output_text, again.metadata, again.status), (reply.output_text, {"a": "b"}, "incomplete"))
        [item] = self.client.responses.input_items.list(reply.id)
        self.assertEqual((item.role, item.content[0].text), ("user", QUESTION))
        self.client.responses.delete(reply.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(reply.id)

    def test_in_the_background(self):
        reply = self.ask(background=True)
        self.assertIn(reply.status, ("queued", "in_progress"))
        self.assertEqual(self.wait(reply).output_text, self.ask().output_text)

    def test_a_cancellation(self):
        reply = self.ask(background=True, max_output_tokens=4000, extra_body={"ignore_eos": True})
        self.assertEqual(self.client.responses.cancel(reply.id).status, "cancelled")
        self.assertEqual(self.client.responses.retrieve(reply.id).status, "cancelled")

    def test_a_stream_goes_on_behind_an_event(self):
        stream = self.ask(background=True, stream=True)
        before = []
        for event in stream:
            before.append(event)
            if event.sequence_number == 9:
                break
        stream.close()
        identifier = before[0].response.id
        after = list(self.client.responses.retrieve(identifier, stream=True, starting_after=9))
        self.assertEqual([event.sequence_number for event in before + after], list(range(len(before + after))))
        said = "".join(event.delta for event in before + after if event.type == "response.output_text.delta")
        self.assertEqual(said, after[-1].response.output_text)
        self.assertEqual(said, self.client.responses.retrieve(identifier).output_text)

    def test_turns_by_the_response_before(self):
        first = self.ask()
        second = self.ask("Shorter, please.", previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        chat = self.ask([{"role": "user", "content": QUESTION}, {"role": "assistant", "content": first.output_text},
                         {"role": "user", "content": "Shorter, please."}])
        self.assertEqual((second.output_text, second.usage.input_tokens), (chat.output_text, chat.usage.input_tokens))
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, 0)

    def test_a_conversation(self):
        talk = self.client.conversations.create(metadata={"topic": "ropes"}, items=[
            {"type": "message", "role": "system", "content": "You are brief."}])
        first = self.ask(conversation=talk.id)
        second = self.wait(self.ask("Another.", conversation=talk.id, background=True))
        items = list(self.client.conversations.items.list(talk.id, order="asc", limit=2))
        self.assertEqual([item.role for item in items], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual([item.content[0].text for item in items[2::2]], [first.output_text, second.output_text])
        self.assertEqual(self.client.conversations.items.retrieve(items[1].id, conversation_id=talk.id).content[0].text, QUESTION)
        self.client.conversations.items.create(talk.id, items=[{"type": "message", "role": "user", "content": "Wait."}])
        self.client.conversations.items.delete(items[0].id, conversation_id=talk.id)
        self.assertEqual(len(list(self.client.conversations.items.list(talk.id))), 5)
        self.assertEqual(self.client.conversations.update(talk.id, metadata={"topic": "wheels"}).metadata, {"topic": "wheels"})
        self.assertTrue(self.client.conversations.delete(talk.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            self.client.conversations.retrieve(talk.id)

    def test_a_chat_in_the_background(self):
        body = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 24}
        whole = self.client.chat.completions.create(**body)
        reply = self.client.chat.completions.create(**body, extra_body={"background": True})
        self.assertEqual(reply.choices, [])
        while not reply.choices:
            time.sleep(0.02)
            reply = self.client.chat.completions.retrieve(reply.id)
        self.assertEqual(reply.choices[0].message.content, whole.choices[0].message.content)
        self.assertTrue(self.client.chat.completions.delete(reply.id).deleted)


class LangChainTest(ClientCase):
    def model(self, **more):
        from langchain_openai import ChatOpenAI
        return ChatOpenAI(base_url=URL, api_key="any", model=MODEL, max_retries=0, timeout=300, temperature=0, max_tokens=24,
                          use_responses_api=True, **more)

    def test_by_the_response_before(self):
        model = self.model()
        first = model.invoke(QUESTION)
        identifier = first.response_metadata["id"]
        self.assertTrue(identifier.startswith("resp_"))
        second = model.invoke("Shorter, please.", previous_response_id=identifier)
        wanted = self.ask("Shorter, please.", previous_response_id=identifier)
        self.assertEqual(second.text, wanted.output_text)

    def test_it_remembers_by_itself(self):
        model = self.model(use_previous_response_id=True)
        first = model.invoke(QUESTION)
        second = model.invoke([("user", QUESTION), first, ("user", "Shorter, please.")])
        self.assertEqual(self.client.responses.retrieve(second.response_metadata["id"]).previous_response_id,
                         first.response_metadata["id"])

    def test_a_stream(self):
        said = "".join(piece.text for piece in self.model().stream(QUESTION))
        self.assertEqual(said, self.ask().output_text)


class OpenAiAgentsTest(ClientCase):
    def run_agent(self, session, *questions, **more):
        from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner

        async def talk():
            client = openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0, timeout=300)
            agent = Agent("helper", instructions="You are brief.", model=OpenAIResponsesModel(MODEL, client),
                          model_settings=ModelSettings(**SHORT))
            made = session(client)
            results = [await Runner.run(agent, words, session=made, run_config=RunConfig(tracing_disabled=True), **more)
                       for words in questions]
            return results, await made.get_items()

        return asyncio.run(talk())

    def check(self, results, items):
        self.assertEqual([item["role"] for item in items], ["user", "assistant"] * 2)
        self.assertEqual([item["content"][0]["text"] for item in items[1::2]], [result.final_output for result in results])

    def test_a_conversation_is_its_session(self):
        from agents import OpenAIConversationsSession
        self.check(*self.run_agent(lambda client: OpenAIConversationsSession(openai_client=client), QUESTION, "Another."))

    def test_a_session_of_its_own(self):
        from agents import SQLiteSession
        self.check(*self.run_agent(lambda _: SQLiteSession("one"), QUESTION, "Another."))

    def test_by_the_response_before(self):
        from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner

        async def talk():
            client = openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0, timeout=300)
            agent = Agent("helper", model=OpenAIResponsesModel(MODEL, client),
                          model_settings=ModelSettings(**SHORT))
            settings = RunConfig(tracing_disabled=True)
            first = await Runner.run(agent, QUESTION, run_config=settings)
            second = await Runner.run(agent, "Another.", previous_response_id=first.last_response_id, run_config=settings)
            return first, second

        first, second = asyncio.run(talk())
        self.assertEqual(self.client.responses.retrieve(second.last_response_id).previous_response_id, first.last_response_id)


def main():
    from client_venvs import run_in_venvs
    from ropeway_server import RopewayServer

    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ropeway-stored-clients-") as folder:
        server = RopewayServer(arguments.ropeway, arguments.model, "--state-path", folder)
        try:
            passed = run_in_venvs(__file__, PACKAGES, {"ROPEWAY_TEST_URL": f"http://127.0.0.1:{server.port}/v1"})
        finally:
            server.process.terminate()
            server.process.wait()
            server.log.close()
    return 0 if passed else 1


if __name__ == "__main__":
    if URL:
        unittest.main()
    sys.exit(main())
