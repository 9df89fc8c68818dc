#!/usr/bin/env python3
"""Records anew what clients of Anthropic's API send: a server that notes each request and gives a canned answer, and the clients in
front of it. The `expect` of a file that is there already is kept.

usage: record.py

It needs anthropic, litellm and langchain-anthropic from the Python package index, in an environment of their own; `source` in each
file says which version was recorded. claude-code.json is not recorded: it was written from what that program is known to send.
"""
import http.server
import importlib.metadata
import json
import pathlib
import threading

HERE = pathlib.Path(__file__).parent
# What a connection adds by itself.
HOP = {"host", "content-length", "connection", "accept-encoding"}
QUESTION = "Name the capital of France in one word."
CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Bern"]}}, "required": ["city"],
        "additionalProperties": False}
TOOL = {"name": "weather", "description": "The weather in a city.", "input_schema": CITY}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "default", "stop_reason": "end_turn", "stop_sequence": None,
           "content": [{"type": "text", "text": json.dumps({"city": "Paris"})}], "usage": {"input_tokens": 9, "output_tokens": 2}}
EVENTS = [{"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
          {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
          {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Paris"}},
          {"type": "content_block_stop", "index": 0},
          {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
          {"type": "message_stop"}]


class Notes(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):  # pylint: disable=invalid-name
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append({"method": "POST", "path": self.path,
                          "headers": {name.lower(): value for name, value in self.headers.items() if name.lower() not in HOP},
                          "body": body})
        answer = {"input_tokens": 9} if "count_tokens" in self.path else MESSAGE
        data, kind = json.dumps(answer).encode(), "application/json"
        if body.get("stream"):
            data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()
            kind = "text/event-stream"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def anthropic_calls(url):
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)
    short = {"model": "default", "max_tokens": 8, "messages": [{"role": "user", "content": QUESTION}]}

    def stream():
        with client.messages.stream(**short, system="Be brief.") as events:
            events.get_final_message()

    result = [{"role": "user", "content": "Paris?"},
              {"role": "assistant", "content": [
                  {"type": "thinking", "thinking": "I must ask.", "signature": "sig"},
                  {"type": "text", "text": "Let me look."},
                  {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}]},
              {"role": "user", "content": [
                  {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "11 degrees"}]},
                  {"type": "text", "text": "Well?"}]}]
    yield "anthropic-message", lambda: client.messages.create(
        **short, system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], stop_sequences=["\n\n"],
        metadata={"user_id": "u"}, extra_body={"temperature": 0, "top_k": 20, "top_p": 0.9})
    yield "anthropic-stream", stream
    yield "anthropic-tools", lambda: client.messages.create(
        **{**short, "max_tokens": 60}, tools=[TOOL], tool_choice={"type": "tool", "name": "weather"})
    yield "anthropic-result", lambda: client.messages.create(
        **{**short, "messages": result}, tools=[TOOL], thinking={"type": "enabled", "budget_tokens": 1024})
    yield "anthropic-form", lambda: client.messages.create(
        **{**short, "max_tokens": 40}, output_config={"format": {"type": "json_schema", "schema": CITY}})
    yield "anthropic-beta", lambda: client.beta.messages.create(
        **short, betas=["interleaved-thinking-2025-05-14"],
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
    yield "anthropic-count", lambda: client.messages.count_tokens(
        model="default", messages=short["messages"], system="Be brief.", tools=[TOOL])


def litellm_calls(url):
    import litellm

    body = {"model": "anthropic/default", "api_base": url, "api_key": "any", "max_tokens": 8, "temperature": 0,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]}
    yield "litellm-message", lambda: litellm.completion(**body)
    yield "litellm-stream", lambda: list(litellm.completion(**body, stream=True))
    yield "litellm-tools", lambda: litellm.completion(
        **{**body, "max_tokens": 60}, tool_choice="required", tools=[{"type": "function", "function": {
            "name": "weather", "description": "The weather in a city.", "parameters": CITY}}])


def langchain_calls(url):
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(model="default", base_url=url, api_key="any", max_tokens=40, temperature=0, max_retries=0)
    yield "langchain-message", lambda: model.invoke(QUESTION)
    yield "langchain-tools", lambda: list(model.bind_tools([TOOL], tool_choice="any").stream(QUESTION))


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for package, calls in (("anthropic", anthropic_calls), ("litellm", litellm_calls), ("langchain-anthropic", langchain_calls)):
        for name, call in calls(url):
            Notes.seen.clear()
            call()
            file = HERE / f"{name}.json"
            old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            recorded = {"source": f"{package} {importlib.metadata.version(package)}, recorded by record.py", **Notes.seen[0],
                        "expect": old.get("expect", {"status": 200})}
            file.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    server.shutdown()


if __name__ == "__main__":
    main()
