"""The names and types of what llama.cpp's own API answers, for the tests that hold Ropeway's answers, and those of a real
llama-server, against data/llamacpp_shapes.json."""
import http.client
import json
import pathlib

RECORDED = pathlib.Path(__file__).parent / "data" / "llamacpp_shapes.json"
PROMPT = "The sea is wide and"
CHAT = [{"role": "user", "content": "Tell me all about the sea."}]
BOUNDED = {"prompt": PROMPT, "n_predict": 4, "temperature": 0, "seed": 1}

REQUESTS = {
    "completion": ("POST", "/completion", BOUNDED),
    "all fields": ("POST", "/completion", {**BOUNDED, "n_probs": 2, "return_tokens": True, "stop": ["zzz"],
                                           "logit_bias": [[5, 1.0]]}),
    "several": ("POST", "/completion", {**BOUNDED, "prompt": [PROMPT, [1, 2, 3]]}),
    "some fields": ("POST", "/completion", {**BOUNDED, "response_fields": ["content", "generation_settings/n_predict", "none"]}),
    "stream": ("POST", "/completion", {**BOUNDED, "stream": True, "n_probs": 2}),
    "a wrong type": ("POST", "/completion", {"prompt": True}),
    "properties": ("GET", "/props", None),
    "template": ("POST", "/apply-template", {"messages": CHAT}),
    "tokens": ("POST", "/tokenize", {"content": PROMPT, "add_special": True}),
    "pieces": ("POST", "/tokenize", {"content": PROMPT, "with_pieces": True}),
    "text": ("POST", "/detokenize", {"tokens": [504, 1070, 282]}),
}
# Beside what llama.cpp's clients read, /tokenize and /detokenize answer what vLLM's do.
ALSO = {"tokens": {"count", "max_model_len"}, "pieces": {"count", "max_model_len"}, "text": {"prompt"}}


def shape(value):
    """Each value's type in its place; of a list that of its first entry."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}[type(value)]


def settled(shaped):
    """Without what a model or a build decides: what a list that may be empty holds, and the settings of another program's page."""
    if isinstance(shaped, dict):
        free = ("chat_template_caps", "ui_settings")
        return {name: {} if name in free else settled(one) for name, one in shaped.items() if name != "chat_template_tool_use"}
    if isinstance(shaped, list):
        return [] if shaped and isinstance(shaped[0], str) else [settled(one) for one in shaped]
    return shaped


def ask(port, name, headers=None):
    """The status and the shape of the answer; of a stream, those of its first and its last event."""
    method, path, body = REQUESTS[name]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", **(headers or {})})
        reply = connection.getresponse()
        text = reply.read().decode()
    finally:
        connection.close()
    if reply.headers.get_content_type() == "text/event-stream":
        events = [json.loads(line[len("data: "):]) for line in text.split("\n\n") if line.startswith("data: ")]
        return reply.status, [settled(shape(events[0])), settled(shape(events[-1]))]
    answer = json.loads(text)
    if isinstance(answer, list):
        return reply.status, [settled(shape(one)) for one in answer]
    return reply.status, settled(shape(answer))
