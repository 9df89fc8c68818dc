"""A model by a script, for a backend (backend_double.py): it calls the tools that it is shown as an agent's model should, and
answers with what they said. So a program that uses tools can be tried whatever a model knows.

Its tools are `weather` (a city's, "11 degrees") and `add` ("the sum is 42"), and it calls `forbidden` wherever it sees it; of any
other, alone, it sends what FORMS has.
"""
import json
import re

from backend_double import NUMBERS, OpenAi

QUESTION = "How is the weather in Bern, and what is 19 plus 23?"
ONE_BY_ONE = QUESTION + " Use one tool after the other."
# Of the first call it then sends half of the arguments.
STUMBLE = ONE_BY_ONE + " Be quick."
CALLS = {"weather": {"city": "Bern"}, "add": {"first": 19, "second": 23}}
RESULTS = {"weather": r"\d+ degrees", "add": r"the sum is \d+"}
# The arguments of a tool whose parameters have these names.
FORMS = [{"name": "Anna", "age": 31, "colour": "red"}]


def next_turn(body):
    """What it says after these messages: text, and calls as pairs of a tool's name and its arguments."""
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
    # Of what the program says of itself, its examples are no results.
    said = json.dumps([message for message in body["messages"] if message["role"] != "system"])
    choice = body.get("tool_choice")
    named = choice["function"]["name"] if isinstance(choice, dict) and "function" in choice else None
    if named or (tools and not set(CALLS) & set(tools)):
        name = named or next(iter(tools))
        wanted = set(tools[name]["parameters"]["properties"])
        return "", [(name, form) for form in FORMS if set(form) == wanted]
    if "forbidden" in tools:
        return "", [("forbidden", {})]
    results = {name: re.findall(pattern, said) for name, pattern in RESULTS.items()}
    missing = [(name, arguments) for name, arguments in CALLS.items() if name in tools and not results[name]]
    if missing:
        # Whose answers have a form says nothing beside calls.
        said_first = "" if "response_format" in body else "Let me look. "
        return said_first, missing[:1] if "one tool after the other" in said else missing
    answer = " and ".join(found[-1] for found in results.values() if found) or "Paris"
    if "response_format" in body:
        answer = json.dumps({"answer": answer})
    # Some programs end by a call as well.
    return ("", [("final_answer", {"answer": answer})]) if "final_answer" in tools else (answer, [])


def stumbles(body):
    said = json.dumps(body["messages"])
    return "Be quick" in said and "call_" not in said


def behave(exchange):
    """Its next turn as a stream, piece by piece."""
    text, calls = next_turn(exchange.body)
    stream = OpenAi(exchange)

    def send(delta, reason=None):
        exchange.event(stream.object([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]))

    send({"role": "assistant", "content": ""})
    for word in re.findall(r"\S+\s*", text):
        send({"content": word})
    for index, (name, arguments) in enumerate(calls):
        send({"tool_calls": [{"index": index, "id": f"call_{next(NUMBERS)}", "type": "function",
                              "function": {"name": name, "arguments": ""}}]})
        text = json.dumps(arguments)
        if stumbles(exchange.body):
            text = text[:len(text) // 2]
        for piece in re.findall(r".{1,5}", text):
            send({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    stream.finish("tool_calls" if calls else "stop", usage={"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14})
