#!/usr/bin/env python3
"""What other programs send, as they send it: recorded requests of clients (data/clients/, record.py) and the request shapes of
llama-server's own tests (data/peer_shapes.json), against one `ropeway serve`.

usage: clients_test.py --ropeway PROGRAM --model FILE.gguf [unittest flags]
"""
import concurrent.futures
import contextlib
import functools
import io
import json
import pathlib
import re
import unittest

import jsonschema
from openai_server import ARGS, Server, main

DATA = pathlib.Path(__file__).parent / "data"
KEY = "sk-the-key-of-this-test"
FLAGS = ("--api-key", KEY, "--any-model", "on", "--alias", "sea", "--alias", "sea-two")
DEFAULTS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}


def pick(value, path):
    """`choices.0.text` of an answer; KeyError or IndexError where it is not there."""
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def schema_of(body):
    """What the answer must be valid by; None: it may be any text."""
    form = body.get("response_format") or {}
    if form.get("type") == "json_object":
        return form.get("schema", {"type": "object"})
    return form["json_schema"]["schema"] if form.get("type") == "json_schema" else None


def called_schemas(body):
    """The schemas of its tools by their names, and whether calls must be valid by them."""
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []}
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict) and choice["type"] == "allowed_tools":
        tools = {name: tools[name] for name in (tool["function"]["name"] for tool in choice["allowed_tools"]["tools"])}
        choice = choice["allowed_tools"]["mode"]
    elif isinstance(choice, dict):
        tools = {choice["function"]["name"]: tools[choice["function"]["name"]]}
    must = choice not in ("auto", "none")
    return {name: tool["parameters"] if must or tool.get("strict") else {"type": "object"} for name, tool in tools.items()}, must


def add_calls(pieces, calls):
    """Adds a delta's pieces of calls. The first of each says what it is, and only arguments follow, in order."""
    for piece in pieces:
        begins = piece["index"] == len(calls)
        assert begins or piece["index"] == len(calls) - 1, piece
        assert set(piece) == ({"index", "id", "type", "function"} if begins else {"index", "function"}), piece
        assert set(piece["function"]) == ({"name", "arguments"} if begins else {"arguments"}), piece
        if begins:
            calls.append({"id": piece["id"], "type": piece["type"], "function": dict(piece["function"])})
        else:
            calls[-1]["function"]["arguments"] += piece["function"]["arguments"]


def gather(text):
    """A stream's events as the one answer that they make. What no client could read fails here."""
    lines = [line for line in text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines), text
    assert lines[-1] == "data: [DONE]", text
    events = [json.loads(line[len("data: "):]) for line in lines[:-1]]
    whole = {"choices": {}, "usage": None, "ropeway": None, "events": len(events)}
    for event in events:
        assert {"id", "object", "created", "model", "choices"} <= set(event), event
        assert event["id"] == events[0]["id"], event
        whole["object"] = event["object"]
        for block in ("usage", "ropeway"):
            whole[block] = event.get(block) or whole[block]
        for choice in event["choices"]:
            into = whole["choices"].setdefault(choice["index"], {"text": "", "calls": [], "finish_reason": None})
            delta = choice.get("delta")
            if delta is not None:
                assert ("role" in delta) == ("message" not in into), f"the first delta alone has the role: {event}"
                into["message"] = {**into.get("message", {}), **{k: v for k, v in delta.items() if k == "role"}}
            add_calls((delta or {}).get("tool_calls", []), into["calls"])
            into["text"] += (choice["text"] if delta is None else delta.get("content")) or ""
            assert into["finish_reason"] is None, f"it goes on behind its end: {event}"
            into["finish_reason"] = choice["finish_reason"]
    whole["choices"] = [whole["choices"][index] for index in sorted(whole["choices"])]
    for choice in whole["choices"]:
        calls = choice.pop("calls")
        if "message" in choice:
            choice["message"]["content"] = choice.pop("text") or (None if calls else "")
            if calls:
                choice["message"]["tool_calls"] = calls
    return whole


@functools.cache
def shared_server():
    server = Server(*FLAGS)
    unittest.addModuleCleanup(server.stop)
    return server


class OneServer(unittest.TestCase):
    def setUp(self):
        self.server = shared_server()

    def send(self, method, path, headers, body):
        """Status, answer and headers; what a client would not understand fails."""
        connection = self.server.connect(60)
        try:
            # Exactly these headers: http.client adds the host and the length.
            data = None if body is None else json.dumps(body).encode()
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        kind = reply.headers.get_content_type()
        native = path == "/completion"  # llama.cpp's own.
        if kind == "text/event-stream" and native:
            answer = {"events": [json.loads(line[len("data: "):]) for line in text.split("\n\n") if line.startswith("data: ")]}
        elif kind == "text/event-stream":
            answer = gather(text)
        elif path == "/":
            self.assertEqual(kind, "text/html")
            answer = {}
        else:
            self.assertEqual(kind, "application/json" if text else kind)
            answer = json.loads(text) if text else {}
        if reply.status >= 400:
            self.assertEqual(set(answer["error"]), {"code", "message", "type"} | (set() if native else {"param"}))
            self.assertTrue(answer["error"]["message"], answer)
        return reply.status, answer, reply.headers

    def check_calls(self, choice, body):
        """How it ended, and the calls of a choice: those that tool_choice wants, each whole and valid where it has to be."""
        schemas, must = called_schemas(body)
        message = choice.get("message", {"content": choice.get("text")})
        calls = message.get("tool_calls", [])
        self.assertIsInstance(message["content"], (str, type(None)) if calls else str)
        self.assertIn(choice["finish_reason"], ("tool_calls" if calls else "stop", "length"))
        if must:
            self.assertTrue(calls)
            if len(schemas) == 1 and isinstance(body["tool_choice"], dict):
                self.assertEqual(len(calls), 1)
        cut = choice["finish_reason"] == "length"
        for call in calls:
            self.assertTrue(call["id"])
            self.assertEqual(call["type"], "function")
            self.assertIn(call["function"]["name"], schemas)
            if not (cut and call is calls[-1]):
                jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])
        self.assertEqual(len({call["id"] for call in calls}), len(calls))

    def check(self, request, expect):
        """Sends it, and checks what is expected of every answer and what `expect` adds."""
        body = request["body"]
        status, answer, headers = self.send(request["method"], request["path"], request["headers"], body)
        self.assertEqual(status, expect["status"], answer)
        if status == 200 and "completions" in request["path"]:
            chat = "chat" in request["path"]
            stream = body.get("stream", False)
            self.assertEqual("events" in answer, stream)
            self.assertEqual(answer["object"], {(0, 0): "text_completion", (0, 1): "text_completion", (1, 0): "chat.completion",
                                                (1, 1): "chat.completion.chunk"}[chat, stream])
            for choice in answer["choices"]:
                text = choice["message"]["content"] if chat else choice["text"]
                self.check_calls(choice, body)
                schema = schema_of(body)
                if schema is not None and choice["finish_reason"] == "stop":
                    jsonschema.validate(json.loads(text), schema)
                if chat:
                    self.assertEqual(choice["message"]["role"], "assistant")
            asked = not stream or (body.get("stream_options") or {}).get("include_usage", False)
            self.assertEqual(bool(answer["usage"]), asked)
            if asked:
                usage = answer["usage"]
                self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        ignored = headers.get("x-ropeway-ignored")
        self.assertEqual(sorted(ignored.split(", ")) if ignored else [], sorted(expect.get("ignored", [])))
        for path in expect.get("has", []):
            pick(answer, path)
        for path, value in expect.get("equals", {}).items():
            self.assertEqual(pick(answer, path), value, path)
        for name, value in expect.get("headers", {}).items():
            self.assertEqual(headers.get(name), value, name)
        return answer


class RecordedTest(OneServer):
    def test_each_client_gets_what_it_reads(self):
        files = sorted((DATA / "clients").glob("*.json"))
        self.assertGreater(len(files), 25)
        goldens = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        for golden in goldens:
            # What a small model would take too long for.
            golden["body"] = {**golden["body"], **golden["replay"]} if "replay" in golden else golden["body"]
            golden["headers"] = {name: f"Bearer {KEY}" if name.lower() == "authorization" else value
                                 for name, value in golden["headers"].items()}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            checks = [pool.submit(self.check, golden, golden["expect"]) for golden in goldens]
        for file, check in zip(files, checks):
            with self.subTest(file.name):
                check.result()


class PageTest(OneServer):
    """The Python of a page, as it is."""

    def run_page(self, name, blocks):
        """What its blocks print."""
        page = (DATA.parent.parent / "docs" / name).read_text(encoding="utf-8")
        found = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(found), blocks)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            variables = {}
            for code in found:
                code = code.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}").replace('"any"', repr(KEY))
                exec(compile(code, name, "exec"), variables)  # pylint: disable=exec-used
        return printed.getvalue()

    def test_the_page_of_the_openai_client(self):
        printed = self.run_page("clients/openai.md", 2)
        self.assertIn("sea", printed)
        self.assertRegex(printed, r"capital='\w")

    def test_the_page_of_structured_output(self):
        self.assertRegex(self.run_page("structured_output.md", 1), r"^name='.+' city='Bern' topic='(invoice|delivery|other)'\n$")


class PeerTest(OneServer):
    """A row is one request shape; `cases` says how many of the peer's test cases it stands for. `as`: it is served under other
    names, those of the row. `not_served`: the issue that will serve it, or why none will; until then it is a clean 4xx."""

    def test_each_shape(self):
        table = json.loads((DATA / "peer_shapes.json").read_text(encoding="utf-8"))
        rows = table["rows"]
        for name, cases in table["files"].items():
            self.assertEqual(sum(row["cases"] for row in rows if row["file"] == name), cases, name)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            checks = [pool.submit(self.check_row, row) for row in rows]
        for row, check in zip(rows, checks):
            with self.subTest(row["file"] + ": " + row["what"]):
                check.result()
        counts = {"served": 0, "as": 0, "not_served": 0}
        for row in rows:
            counts[next((kind for kind in ("not_served", "as") if kind in row), "served")] += row["cases"]
        print(f"  of {sum(counts.values())} cases of a peer {counts['served']} are served as they are, {counts['as']} under "
              f"other names, {counts['not_served']} not")

    def check_row(self, row):
        if "request" not in row:
            self.assertTrue(row["not_served"])  # No request asks for it.
            return
        method, path, *bodies = row["request"]
        headers = {name: value for name, value in {**DEFAULTS, **row.get("headers", {})}.items() if value is not None}
        if "not_served" in row:
            # A clean 4xx, or a header that says what was ignored, or none where a browser would look for one.
            expect = row["expect"]
            self.assertTrue(expect["status"] in range(400, 500) or {"ignored", "headers"} & set(expect), "no clean answer")
        if "long" in row:  # A field many times over: a list, or a string.
            field, times = row["long"]
            bodies = [{**body, field: body[field] * times} for body in bodies]
        answers = [self.check({"method": method, "path": path, "headers": headers, "body": body}, row["expect"])
                   for body in bodies or [None] for _ in range(row.get("times", 1))]
        if row.get("alike"):
            contents = [[pick(choice, row["alike"]) for choice in answer["choices"]] for answer in answers]
            self.assertEqual(contents[1:], contents[:-1])
        if row.get("unlike"):
            contents = [pick(answer, row["unlike"]) for answer in answers]
            self.assertEqual(len(set(contents)), len(contents))


if __name__ == "__main__":
    main()
