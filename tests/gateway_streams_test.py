#!/usr/bin/env python3
"""`ropeway gateway` before servers that write OpenAI's format in ways of their own: what ordinary clients read, its clients get,
chats and completions, streamed and whole; and what its backends say of their models.

usage: gateway_streams_test.py --ropeway PROGRAM [unittest flags]
"""
import json
import time

import backend_double as double
import gateway_server
from backend_double import Double
from gateway_server import SOON, GatewayCase, backend, eventually, together

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def said(chat, content, **more):
    """An event's choice that says this."""
    return {"index": 0, **({"delta": {"content": content}} if chat else {"text": content}), "finish_reason": None, **more}


def chunk(choice, **more):
    return json.dumps({"id": "c", "object": "chunk", "choices": [choice], **more})


def events(*payloads, mark="\n\n"):
    return "".join(f"data: {payload}{mark}" for payload in payloads)


def streams(chat):
    """By name: the body of an answer that says Hello."""
    hel, lo, end = (chunk(said(chat, text)) for text in ("Hel", "lo", ""))
    end = chunk(said(chat, "", finish_reason="stop"))
    usage = json.dumps({"id": "c", "choices": [], "usage": USAGE})
    rest = events(hel, lo, end, usage, "[DONE]")
    whole = {"message": {"role": "assistant", "content": "Hello"}} if chat else {"text": "Hello"}
    whole = json.dumps({"id": "c", "choices": [{"index": 0, **whole, "finish_reason": "stop"}], "usage": USAGE}, indent=1)
    parts = [chunk(said(chat, [{"type": "text", "text": text}])) for text in ("Hel", "lo")]
    counting = [chunk(said(chat, text, index=i), id=f"c{i}") for i, text in enumerate("Hello")]
    return {
        "plain": rest,
        "a byte order mark": "\ufeff" + rest,
        "parts": events(*parts, end, usage, "[DONE]"),
        "names that change": events(*counting, end, usage, "[DONE]"),
        "no data": "data:\n\n" + events(hel, "", lo, end, usage, "[DONE]"),
        "pings": "event: ping\ndata: ping\n\n" + events(hel, "ping") + "event: ping\ndata: {}\n\n" + events(lo, end, usage, "[DONE]"),
        "keep-alive events": events(*['{"choices":[]}', chunk(said(chat, ""))] * 200) + rest,
        "a document": whole,
        "a document in an event": events(whole.replace("\n", " ")),
        "a key twice": events('{"choices":[],"choices":null,"id":1,"id":2}') + rest,
        "no end of the last line": events(hel, lo, end, usage) + "data: [DONE]",
        "types": "event: x\n" + events(hel) + "event: y\n" + events(lo, end, usage) + "event: done\n" + events("[DONE]"),
    }


class StreamsTest(GatewayCase):
    def test_what_ordinary_clients_read(self):
        def behave(exchange):
            body = streams("messages" in exchange.body)[exchange.prompt]
            exchange.reply(200, body.encode(), "application/json" if body.startswith("{") else "text/event-stream")

        one = self.double(behave)
        gateway = self.start(*backend(one))
        cases = [(name, ask, stream) for name in streams(True) for ask in (gateway.chat, gateway.complete)
                 for stream in (True, False)]
        for case, outcome in zip(cases, together(
                lambda case: case[1](case[0], stream=case[2], stream_options={"include_usage": True} if case[2] else None), cases)):
            with self.subTest(case=case):
                self.assertTrue(outcome.good, outcome)
                self.assertEqual((outcome.text, outcome.reasons), ({0: "Hello"}, {0: "stop"}))
                self.assertEqual((outcome.usage["prompt_tokens"], outcome.usage["completion_tokens"]), (3, 2))

    def test_halves_of_a_character(self):
        one = self.double(lambda exchange: exchange.reply(200, events(*(
            f'{{"choices":[{{"text":"{text}"}}]}}' for text in ("a\\ud83d", "", "\\ude00b\\ud83d")), "[DONE]").encode(),
            "text/event-stream"))
        gateway = self.start(*backend(one))
        for stream in (True, False):
            outcome = gateway.complete("x", stream=stream)
            self.assertEqual(outcome.text, {0: "a\U0001f600b\ufffd"}, outcome)

    def test_a_field_of_an_unexpected_type_is_no_empty_answer(self):
        one = self.double(lambda exchange: exchange.reply(200, events(
            json.dumps({"choices": [{"delta": {"content": 7}, "finish_reason": "stop"}]}), "[DONE]").encode(), "text/event-stream"))
        outcome = self.start(*backend(one), "--max-retries", "0").chat("x")
        self.assertEqual(outcome.status, 503)
        self.assertIn("sent the field 'content' as a number", outcome.errors[0])

    def test_a_rejection_keeps_its_param_and_its_code(self):
        error = {"message": "too long", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
        whole = self.double(lambda exchange: exchange.reply(400, {"error": error}), model="whole")
        stream = self.double(lambda exchange: exchange.reply(200, events(json.dumps({"error": error})).encode(),
                                                             "text/event-stream"), model="stream")
        gateway = self.start(*backend(whole), *backend(stream))
        for name in ("whole", "stream"):
            outcome = gateway.chat("x", model=name)
            self.assertEqual(outcome.status, 400, outcome)
            told = outcome.raw[0]["error"]
            self.assertEqual((told["param"], told["code"]), ("messages", "context_length_exceeded"))


def lists(status, value):
    """The facts of a server whose list of models is answered so."""
    def facts(_, exchange):
        exchange.reply(status, value)
    return facts


class ModelsTest(GatewayCase):
    def test_any_answer_is_a_sign_of_life_where_the_model_is_named(self):
        answers = {"bare": (200, [{"id": "m"}]), "empty": (200, b""), "page": (200, b"<html>"), "missing": (404, {"detail": "no"}),
                   "method": (405, b""), "forbidden": (403, {"error": "no"}), "none": (200, {"data": []}),
                   "ollama": (200, {"models": [{"name": "x"}]})}
        doubles = {name: self.double(double.answer, lists(*answer), model=name) for name, answer in answers.items()}
        gateway = self.start(*[word for one in doubles.values() for word in backend(one)])
        for name in doubles:
            with self.subTest(name=name):
                self.good(gateway.complete("hello", model=name), "hello")
        self.assertEqual({one["state"] for one in gateway.health()["backends"]}, {"up"})

    def test_a_path_is_taken_as_it_is(self):
        one = self.double(double.answer, lists(404, b""))
        self.good(self.start(*backend(one.url + "/v3")).chat("hello"), "hello")
        self.assertEqual(one.exchanges[0].path, "/v3/chat/completions")
        self.assertEqual({look.path for look in one.looks}, {"/v3/models"})

    def test_a_ropeways_only_model_is_meant(self):
        def facts(*names):
            def answer(_, exchange):
                exchange.reply(200, {"status": "ok", "data": [{"id": name} for name in names]})
            return answer

        one, two = self.double(double.answer, facts("inner"), model="one"), self.double(double.answer, facts("x", "y"), model="two")
        gateway = self.start(*backend(one, kind="ropeway"), *backend(two, kind="ropeway"))
        self.good(gateway.complete("hello", model="one"), "hello")
        self.assertEqual(one.asked()[0]["model"], "inner")
        outcome = gateway.complete("hello", model="two")
        self.assertEqual((outcome.status, two.exchanges), (503, []))
        self.assertEqual([one["state"] for one in gateway.health()["backends"]], ["up", "not_ready"])
        for text in (outcome.errors[0], gateway.output()):
            self.assertIn("it has no model 'two'; it has 'x', 'y': name one with upstream=NAME", text)

    def test_before_a_backend_has_said_its_names(self):
        """A named model is no 404: it may be there."""
        one = Double(double.answer, model="late")
        port = one.port
        one.close()
        now = self.start(*backend(one.url, model="here"), "--backend", f"{one.url},name=other", ready=False)
        held = self.start("--backend", one.url, "--hold-timeout", "30s", "--probe-interval", "100ms", ready=False)
        outcome = now.complete("hello", model="late")
        self.assertEqual(outcome.status, 503, outcome)
        self.assertGreaterEqual(int(outcome.fields["retry-after"]), 1)
        late = []

        def begin(_):
            time.sleep(0.3)
            late.append(Double(double.answer, model="late", port=port))
        answers = together(lambda work: work(None), [begin, lambda _: held.complete("hello", model="late")])
        self.addCleanup(late[0].close)
        self.good(answers[1], "hello")
        eventually(lambda: held.complete("hello", model="nobody").status == 404, "its names are known", SOON)


if __name__ == "__main__":
    gateway_server.main()
