#!/usr/bin/env python3
"""Records anew what clients send: a server that notes each request and gives a canned answer, and the clients in front of it.

usage: record.py [CLIENT...]

It needs openai, langchain-openai, litellm and llm from the Python package index, in an environment of their own, instructor in
another (name the client then), openai-agents, pydantic-ai-slim[openai] and smolagents[openai] in one each, and Open WebUI in one
whose program OPEN_WEBUI names; `source` in each file says which version was recorded. The further requests of an agent get a number. Long texts of the clients' own are replaced by ours. The `expect` of a file that is there already is kept.

The files of Cline and Continue are not recorded, since both need an editor: they were written from the source that `source` names.
"""
import asyncio
import http.server
import importlib.metadata
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import typing
import urllib.request

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from scripted_agent import QUESTION as TWO_TOOLS, next_turn  # pylint: disable=wrong-import-position

# What a connection adds by itself.
HOP = {"host", "content-length", "connection", "accept-encoding"}
QUESTION = "Name the capital of France in one word."
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather in a city.", "parameters": WEATHER}}
# An answer that fits both that and city_class().
CITY = {"city": "Paris", "country": {"name": "France", "continent": "Europe"}, "river": None}


def weather(city: typing.Literal["Bern", "Rome"]) -> str:
    """The weather of a city.

    Args:
        city: The name of the city.
    """
    return f"{len(city)} degrees"


def add(first: int, second: int) -> str:
    """Adds two numbers.

    Args:
        first: The first number.
        second: The second number.
    """
    return f"the sum is {first + second}"


def person_class():
    """What scripted_agent.py knows to fill in."""
    import pydantic

    class Person(pydantic.BaseModel):
        """A person."""
        name: str = pydantic.Field(max_length=20)
        age: int
        colour: typing.Literal["red", "green"]

    return Person


def city_class():
    """A class with one inside, alternatives, and a value that may be missing."""
    import pydantic

    class Country(pydantic.BaseModel):
        name: str
        continent: typing.Literal["Africa", "America", "Asia", "Europe"]

    class City(pydantic.BaseModel):
        city: str
        country: Country
        river: typing.Optional[str]

    return City


def answer(body, chat):
    """What an OpenAI-compatible server would say, as the bytes and their type."""
    text, calls = next_turn(body) if body.get("tools") else ("Paris", [])
    calls = [{"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
             for i, (name, arguments) in enumerate(calls)]
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    head = {"id": "cmpl-1", "created": 1, "model": body.get("model", ""), "usage": usage}
    if body.get("stream"):
        head["object"] = "chat.completion.chunk" if chat else "text_completion"
        said = {"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]} if calls else {}
        pieces = ([{"delta": {"role": "assistant", "content": text, **said}}, {"delta": {}, "finish_reason": reason}] if chat
                  else [{"text": text}, {"text": "", "finish_reason": "stop"}])
        events = [{**head, "choices": [{"index": 0, "finish_reason": None, **piece}]} for piece in pieces]
        lines = [json.dumps(event) for event in [*events, {**head, "choices": []}]] + ["[DONE]"]
        return "".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream"
    head["object"] = "chat.completion" if chat else "text_completion"
    if (body.get("response_format") or {}).get("type") in ("json_schema", "json_object"):
        text = json.dumps(CITY)
    said = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    choice = {"message": said} if chat else {"text": text}
    reply = {**head, "choices": [{"index": 0, "finish_reason": reason, **choice}]}
    return json.dumps(reply).encode(), "application/json"


class Recorder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = []

    def note(self, body):
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        self.requests.append({"method": self.command, "path": self.path, "headers": headers, "body": body})

    def send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.note(body)
        self.send(*answer(body, "chat" in self.path))

    def do_GET(self):
        self.note(None)
        models = {"object": "list", "data": [{"id": "default", "object": "model", "created": 1, "owned_by": "x"}]}
        self.send(json.dumps(models).encode(), "application/json")

    def log_message(self, *_):
        pass


def record_openai(url):
    import openai

    client = openai.OpenAI(base_url=url, api_key="any")
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    chat = client.chat.completions.create
    yield "chat", lambda: chat(model="default", messages=messages, max_completion_tokens=8, temperature=0, seed=7)
    yield "stream", lambda: list(chat(model="default", messages=messages, max_tokens=8, stream=True,
                                      stream_options={"include_usage": True}, user="u-1"))
    yield "store", lambda: chat(model="default", messages=messages, max_tokens=8, store=True, metadata={"team": "a"},
                                reasoning_effort="low", verbosity="low", prompt_cache_key="k", safety_identifier="s")
    yield "tools", lambda: chat(model="default", messages=messages, max_tokens=8, tools=[TOOL], tool_choice="auto")
    yield "parse", lambda: client.chat.completions.parse(model="default", messages=messages, max_tokens=64, temperature=0,
                                                         response_format=city_class())
    yield "completion", lambda: client.completions.create(model="default", prompt="The capital of France is", max_tokens=4,
                                                          temperature=0, stop=["\n"])
    yield "models", client.models.list


def record_langchain(url):
    from langchain_core.messages import ToolMessage
    from langchain_openai import ChatOpenAI

    def model(**more):
        return ChatOpenAI(**{"base_url": url, "api_key": "any", "model": "default", "max_tokens": 8, **more})

    messages = [("system", "Be brief."), ("human", QUESTION)]
    yield "chat", lambda: model(temperature=0).invoke(messages)
    yield "stream", lambda: list(model(stream_usage=True).stream(messages))
    yield "tools", lambda: model().bind_tools([TOOL]).invoke(messages)
    schema = {"title": "City", "description": "A city.", **WEATHER}
    yield "schema", lambda: model(max_tokens=32, temperature=0).with_structured_output(schema, method="json_schema").invoke(messages)
    small = model(max_tokens=48, temperature=0)
    yield "function-calling", lambda: small.with_structured_output(person_class(), method="function_calling").invoke(messages)

    def agent():
        history, bound = [("human", TWO_TOOLS)], small.bind_tools([weather, add])
        called = bound.invoke(history)
        results = [{"weather": weather, "add": add}[call["name"]](**call["args"]) for call in called.tool_calls]
        history.append(called)
        history += [ToolMessage(result, tool_call_id=call["id"]) for result, call in zip(results, called.tool_calls)]
        list(bound.stream(history))

    yield "agent", agent


def record_instructor(url):
    import instructor
    import openai

    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="any"), mode=instructor.Mode.JSON)
    yield "json", lambda: client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": QUESTION}], response_model=city_class(), max_tokens=128,
        temperature=0)
    caller = instructor.from_openai(openai.OpenAI(base_url=url, api_key="any"), mode=instructor.Mode.TOOLS)
    body = {"model": "default", "messages": [{"role": "user", "content": "Invent a person."}], "response_model": person_class(),
            "max_tokens": 48, "temperature": 0}
    yield "tools", lambda: caller.chat.completions.create(**body)
    yield "partial", lambda: list(caller.chat.completions.create_partial(**body))


def record_openai_agents(url):
    import agents
    import openai

    agents.set_tracing_disabled(True)

    async def run(stream, **more):
        async with openai.AsyncOpenAI(base_url=url, api_key="any") as client:
            agent = agents.Agent(name="Guide", instructions="Be brief.", model=agents.OpenAIChatCompletionsModel("default", client),
                                 tools=[agents.function_tool(weather), agents.function_tool(add)],
                                 model_settings=agents.ModelSettings(temperature=0, max_tokens=48, **more))
            if not stream:
                await agents.Runner.run(agent, TWO_TOOLS)
                return
            async for _ in agents.Runner.run_streamed(agent, TWO_TOOLS).stream_events():
                pass

    yield "agent", lambda: asyncio.run(run(False))
    yield "stream", lambda: asyncio.run(run(True, tool_choice="required", parallel_tool_calls=False, include_usage=True))


def record_pydantic_ai(url):
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.settings import ToolOrOutput

    def agent(**more):
        model = OpenAIChatModel("default", provider=OpenAIProvider(base_url=url, api_key="any"))
        return pydantic_ai.Agent(model, instructions="Be brief.", model_settings={"temperature": 0, "max_tokens": 48}, **more)

    async def form():
        async with agent(output_type=person_class()).run_stream("Invent a person.") as run:
            await run.get_output()

    yield "agent", lambda: agent(tools=[weather, add]).run_sync(TWO_TOOLS)
    yield "form", lambda: asyncio.run(form())

    def allowed():
        def other() -> str:
            """Another tool."""
            return ""

        settings = {"temperature": 0, "max_tokens": 48, "tool_choice": ToolOrOutput(function_tools=["weather", "add"])}
        agent(tools=[weather, add, other]).run_sync(TWO_TOOLS, model_settings=settings)

    yield "allowed", allowed


def record_smolagents(url):
    import smolagents

    model = smolagents.OpenAIModel("default", api_base=url, api_key="any", temperature=0, max_tokens=48)

    def run(stream):
        smolagents.ToolCallingAgent(tools=[smolagents.tool(weather), smolagents.tool(add)], model=model, stream_outputs=stream,
                                    verbosity_level=smolagents.LogLevel.OFF).run(TWO_TOOLS)

    yield "agent", lambda: run(False)
    yield "stream", lambda: run(True)


def record_litellm(url):
    import litellm

    litellm.suppress_debug_info = True

    def ask(messages, **more):
        return litellm.completion(model="openai/default", api_base=url, api_key="any", messages=messages, max_tokens=8, **more)

    plain = [{"role": "user", "content": QUESTION}]
    cached = [{"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
              *plain]
    yield "chat", lambda: ask(plain, temperature=0, top_k=20, repetition_penalty=1.1)
    yield "stream", lambda: list(ask(cached, stream=True, stream_options={"include_usage": True}))
    yield "extras", lambda: ask(plain, extra_body={"chat_id": "c-1", "session_id": "s-1", "usage": {"include": True},
                                                  "provider": {"order": ["x"]}, "include_reasoning": True,
                                                  "transforms": ["middle-out"]})
    yield "tools", lambda: ask(plain, tools=[TOOL], tool_choice="auto")
    yield "completion", lambda: litellm.text_completion(model="text-completion-openai/default", api_base=url, api_key="any",
                                                        prompt="The capital of France is", max_tokens=4)


def record_llm(url):
    folder = tempfile.TemporaryDirectory()
    (pathlib.Path(folder.name) / "extra-openai-models.yaml").write_text(
        f"- model_id: ropeway\n  model_name: default\n  api_base: {url}\n"
        f"- model_id: ropeway-text\n  model_name: default\n  api_base: {url}\n  completion: true\n", encoding="utf-8")
    program = pathlib.Path(sys.executable).parent / "llm"

    def llm(*words):
        subprocess.run([program, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "LLM_USER_PATH": folder.name, "OPENAI_API_KEY": "any"})

    yield "stream", lambda: llm("-m", "ropeway", "-s", "Be brief.", "-o", "max_tokens", "8", QUESTION)
    yield "chat", lambda: llm("-m", "ropeway", "--no-stream", "-o", "max_tokens", "8", "-o", "temperature", "0", QUESTION)
    yield "completion", lambda: llm("-m", "ropeway-text", "-o", "max_tokens", "4", "The capital of France is")


def record_open_webui(url):
    """Asks over Open WebUI's own API what its page asks."""
    folder = tempfile.TemporaryDirectory()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = os.environ["OPEN_WEBUI"]
    process = subprocess.Popen(
        [program, "serve", "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "WEBUI_AUTH": "False", "DATA_DIR": folder.name, "OPENAI_API_BASE_URL": url, "OPENAI_API_KEY": "any",
             "ENABLE_OLLAMA_API": "False", "RAG_EMBEDDING_ENGINE": "openai", "OFFLINE_MODE": "true", "WEBUI_SECRET_KEY": "any"})
    token = ""

    def post(path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {
            "Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def wait(holds):
        deadline = time.monotonic() + 120
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def is_up():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
        except OSError:
            return False

    def ask(**params):
        user = {"id": "u1", "parentId": None, "childrenIds": ["a1"], "role": "user", "content": QUESTION, "timestamp": 1}
        blank = {"id": "a1", "parentId": "u1", "childrenIds": [], "role": "assistant", "content": "", "timestamp": 1}
        chat = post("/api/v1/chats/new", {"chat": {"title": "New Chat", "models": ["default"], "messages": [], "history": {
            "messages": {"u1": user, "a1": blank}, "currentId": "a1"}}})["id"]
        post("/api/chat/completions", {
            "model": "default", "stream": True, "stream_options": {"include_usage": True}, "session_id": "s1", "chat_id": chat,
            "id": "a1", "parent_id": "u1", "features": {"web_search": False}, "params": params,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]})
        wait(lambda: Recorder.requests)

    try:
        wait(is_up)
        token = post("/api/v1/auths/signin", {"email": "", "password": ""})["token"]
        yield "models", lambda: urllib.request.urlopen(urllib.request.Request(
            f"http://127.0.0.1:{port}/api/models?refresh=true", headers={"Authorization": f"Bearer {token}"})).read()
        yield "tools", lambda: ask(max_tokens=16)
        # With "Function Calling" set to "Legacy", and what the advanced parameters of a chat add.
        yield "chat", lambda: ask(function_calling="legacy", temperature=0.7, top_k=40, max_tokens=16, num_ctx=4096,
                                  repeat_penalty=1.1, mirostat=0, keep_alive="5m")
        yield "title", lambda: post("/api/v1/tasks/title/completions", {
            "model": "default", "chat_id": "c1", "messages": [{"role": "user", "content": QUESTION}]})
    finally:
        process.terminate()
        process.wait()


def version(client):
    if client == "open-webui":
        python = pathlib.Path(os.environ["OPEN_WEBUI"]).parent / "python"
        code = "import importlib.metadata as m; print(m.version('open-webui'))"
        return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    return importlib.metadata.version(client)


def shorten(body):
    """Without what a client's authors wrote at length."""
    for message in (body or {}).get("messages", []):
        if isinstance(message["content"], list):
            for part in message["content"]:
                part["text"] = part["text"] if len(part["text"]) <= 500 else "Be brief."
        elif len(str(message["content"])) > 500:
            message["content"] = ("Answer with a JSON object that has the keys city, country and river." if "response_format" in body
                                  else "Write a short title for this chat: " + QUESTION)
    if len(json.dumps((body or {}).get("tools", []))) > 4000:
        name = body["tools"][0]["function"]["name"]
        body["tools"] = [{"type": "function", "function": {**TOOL["function"], "name": name}}]
    return body


# By the beginning of their files' names: the package, and what records it.
CLIENTS = {"openai": ("openai", record_openai), "langchain": ("langchain-openai", record_langchain),
           "instructor": ("instructor", record_instructor), "openai-agents": ("openai-agents", record_openai_agents),
           "pydantic-ai": ("pydantic-ai-slim", record_pydantic_ai), "smolagents": ("smolagents", record_smolagents),
           "litellm": ("litellm", record_litellm), "llm": ("llm", record_llm), "open-webui": ("open-webui", record_open_webui)}


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for client in sys.argv[1:] or CLIENTS:
        package, record = CLIENTS[client]
        for what, ask in record(url):
            Recorder.requests.clear()
            ask()
            for number, request in enumerate(Recorder.requests, 1):
                shorten(request["body"])
                path = HERE / f"{client}-{what}{'' if number == 1 else f'-{number}'}.json"
                old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
                golden = {"source": f"{package} {version(package)}, recorded by record.py", **request,
                          "expect": old.get("expect", {"status": 200})}
                path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                print(path.name)


if __name__ == "__main__":
    main()
