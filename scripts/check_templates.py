#!/usr/bin/env python3
"""Checks our chat templates against jinja2, set up as Hugging Face's apply_chat_template does.

Renders conversations (with and without a system message, of several turns, with other roles, with
Unicode, with tools, calls and their results, with reasoning, with template arguments, with a final
message to continue) with every template of a folder and every one that a vocabulary-only GGUF file
carries. Where templates want different forms (arguments of calls as an object or as text, contents
as text or as parts), jinja2 is given the one that the program chose for the template, which is
listed. A template counts as the same when each conversation gives the same text, or fails where
jinja2 fails, with the template's own message where it raises one. A template that is rejected as a
whole, with the line, is counted and listed. Ends with exit status 1 at any other difference, and
where less than --least percent are the same.

    check_templates.py --program render_template --templates FOLDER [--gguf FILE ...] [--least 90]
"""

import argparse
import datetime
import json
import pathlib
import re
import struct
import subprocess
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 3, 9, 14, 5, 7, tzinfo=datetime.timezone.utc)


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what the assistant wrote: here it only renders."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class RaisedByTemplate(jinja2.exceptions.TemplateError):
    """What raise_exception raises."""


def raise_exception(message):
    raise RaisedByTemplate(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def message(role, content, **more):
    return {"role": role, "content": content, **more}


SYSTEM = message("system", "You are a helpful assistant.")
USER = message("user", "Hello! What is 2 + 2?")
ANSWER = message("assistant", "It is 4.")
MORE = message("user", "And 3 + 3?\nThink twice.")

CONVERSATIONS = {
    "user": [USER],
    "system and user": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, MORE],
    "turns without system": [USER, ANSWER, MORE],
    "long": [SYSTEM] + [USER, ANSWER] * 6 + [MORE],
    "ends with the assistant": [SYSTEM, USER, ANSWER],
    "unicode": [
        message("system", "Antworte auf Deutsch: «äöüß» 日本語 \u2028 end"),
        message("user", "😀👩‍👩‍👧 naïve\ttab \"quoted\" 'single' \\ back <b>&amp;</b>\r\nend "),
        message("assistant", "  ИСКЛЮЧЕНИЕ ﬁ İ ẞ  \n\n"),
        message("user", "\u3000\u00a0wide spaces\u00a0"),
    ],
    "empty contents": [message("system", ""), message("user", ""), message("assistant", ""),
                       message("user", " \n ")],
    "thinking": [
        USER,
        message("assistant", "<think>\nTwo and two.\n</think>\n\nFour."),
        message("user", "Sure? /no_think"),
        message("assistant", "<think></think>Yes. </think> [THINK]x[/THINK]"),
        message("user", "Thanks. {{ x }} {% y %}"),
    ],
    "developer": [message("developer", "Be brief."), USER],
    "developer later": [SYSTEM, USER, ANSWER, message("developer", "Be brief."), MORE],
    "system later": [USER, ANSWER, message("system", "Be brief."), MORE],
    "two users": [USER, MORE],
    "two systems": [SYSTEM, message("system", "Be brief."), USER],
    "assistant first": [ANSWER, USER],
    "names": [message("system", "Rules.", name="boss"), message("user", "Hi", name="ann"),
              message("assistant", "Hello", name="bot"), message("user", "Bye", name="bob")],
    "tool": [USER, ANSWER, message("tool", "{\"sum\": 4}", tool_call_id="call12345"), MORE],
    "named tool": [SYSTEM, USER, ANSWER,
                   message("tool", "4", name="add", tool_call_id="a1b2c3d4e")],
    "tool without id": [USER, message("tool", "4", name="add")],
    "function": [USER, ANSWER, message("function", "4", name="add"), MORE],
    "unknown role": [USER, message("ipython", "4"), message("nobody", "x")],
    "no message": [],
}
TOKENS = [("<s>", "</s>"), ("", ""), ("<|begin_of_text|>", "<|im_end|>")]

ADD = {"name": "add_numbers", "description": "Adds two \"numbers\".", "parameters": {
    "type": "object",
    "properties": {
        "b": {"type": "number", "description": "The second <number>."},
        "a": {"type": "number", "description": "The first: é, 日本.", "minimum": 0.5},
        "unit": {"type": "string", "enum": ["m", "km"], "default": "m"},
    },
    "required": ["a", "b"],
}}
NOTE = {"name": "take-note", "description": "Writes\na note.", "parameters": {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"line": {"type": "integer"}}},
        "text": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}}


def call(number, tool, **arguments):
    return {"id": f"call{number:05}", "name": tool["name"], "arguments": arguments}


def result(number, tool, content):
    return message("tool", content, name=tool["name"], tool_call_id=f"call{number:05}")


TWO = message("assistant", "", tool_calls=[
    call(1, ADD, b=2, a=2.0), call(2, NOTE, text="é\n\"x\" <b>", tags=["a", "b"], at={"line": 7})])
WITH_TOOLS = {
    "tools": [USER],
    "tools, system": [SYSTEM, USER],
    "tools, turns": [SYSTEM, USER, ANSWER, MORE],
    "call": [USER, message("assistant", "", tool_calls=[call(1, ADD, a=2, b=2)]),
             result(1, ADD, "4")],
    "call with content": [
        SYSTEM, USER, message("assistant", "Let me add.", tool_calls=[call(1, ADD, a=2, b=2)]),
        result(1, ADD, "4"), ANSWER, MORE],
    "two calls": [SYSTEM, USER, TWO, result(1, ADD, '{"sum": 4}'), result(2, NOTE, "done"), ANSWER,
                  MORE],
    "calls without results": [USER, TWO],
    "call without arguments": [USER, message("assistant", "", tool_calls=[call(1, NOTE)]),
                               result(1, NOTE, "")],
    "odd arguments": [USER, message("assistant", "", tool_calls=[
        call(1, NOTE, none=None, yes=True, big=1e100, deep=[[{"x": []}]], empty="")]),
        result(1, NOTE, "ok")],
    "reasoning": [SYSTEM, USER, message("assistant", "It is 4.", reasoning_content="Two and\ntwo."),
                  MORE],
    "reasoning before a call": [
        USER, message("assistant", "", reasoning_content="I add.",
                      tool_calls=[call(1, ADD, a=2, b=2)]),
        result(1, ADD, "4"), message("assistant", "4.", reasoning_content=" Done. ")],
    "parts": [message("system", ["You are", "helpful."]), message("user", ["One?", "Two?", "é"]),
              message("assistant", ["Yes.", "No."]), message("user", ["Why?"])],
    "parts of a result": [USER, message("assistant", "", tool_calls=[call(1, ADD, a=2, b=2)]),
                          result(1, ADD, ["4", "5"])],
}
KWARGS = [{}, {"enable_thinking": True}, {"enable_thinking": False, "thinking": True},
          {"reasoning_effort": "high", "extra": {"a": [1, None, "x"]}}]
CONTINUED = {
    "continued": [USER, message("assistant", "It is not 5, it")],
    "continued, spaces": [SYSTEM, USER, ANSWER, MORE, message("assistant", " \n The sum of is \n")],
    "continued thought": [USER, message("assistant", "Sum:", reasoning_content="I add.")],
    "continued parts": [USER, message("assistant", ["It is 4.", "Or maybe not, I "])],
    "continued user": [SYSTEM, message("user", "What is the")],
    "nothing to continue": [USER, message("assistant", " ")],
}


def jobs(source):
    """(name, job): the job as the program takes it, but for texts that are JSON."""
    def job(messages, prompt=True, tokens=TOKENS[0], **more):
        return {
            "template": source,
            "messages": messages,
            "add_generation_prompt": prompt,
            "bos_token": tokens[0],
            "eos_token": tokens[1],
            "now": int(NOW.timestamp()),
            **more,
        }

    for name, messages in CONVERSATIONS.items():
        for prompt in (True, False):
            for tokens in TOKENS if name in ("user", "turns", "names") else TOKENS[:1]:
                yield name, job(messages, prompt, tokens)
    for name, messages in WITH_TOOLS.items():
        for prompt in (True, False):
            yield name, job(messages, prompt, tools=[ADD, NOTE])
        yield name + ", without tools", job(messages)
    for kwargs in KWARGS:
        for name in ("tools, turns", "two calls", "reasoning", "reasoning before a call"):
            yield f"{name}, {kwargs}", job(WITH_TOOLS[name], tools=[ADD], template_arguments=kwargs)
        yield f"turns, {kwargs}", job(CONVERSATIONS["turns"], template_arguments=kwargs)
    yield "a bare tool", job([USER], tools=[{"name": "ping", "description": "", "parameters": {}}])
    for name, messages in CONTINUED.items():
        yield name, job(messages, False, continue_final_message=True)


def text_of(value):
    return json.dumps(value, ensure_ascii=False) if value else ""


def line_of(job):
    """The job for the program."""
    messages = [
        {**said, "tool_calls": [{**made, "arguments": json.dumps(made["arguments"])}
                                for made in said.get("tool_calls", [])]}
        for said in job["messages"]]
    tools = [{**tool, "parameters": text_of(tool["parameters"])} for tool in job.get("tools", [])]
    return json.dumps({**job, "messages": messages, "tools": tools,
                       "template_arguments": text_of(job.get("template_arguments"))})


def shaped_message(said, traits):
    """The message for jinja2, in the form that the program chose."""
    shaped = {key: said[key] for key in ("role", "content", "name", "tool_call_id")
              if key == "content" or said.get(key)}
    role = {"developer": "system"}.get(said["role"], said["role"])
    form = traits["forms"].get(role, traits["forms"]["user"])
    parts = said["content"] if isinstance(said["content"], list) else []
    if form == "text":
        shaped["content"] = "\n".join(parts) if parts else said["content"]
    elif parts or form == "parts":
        shaped["content"] = [{"type": "text", "text": part} for part in parts or [said["content"]]]
    calls = said.get("tool_calls")
    if calls and not said["content"]:
        none = None if traits["none_content"] else []
        shaped["content"] = none if none is None or form == "parts" else ""
    if said.get("reasoning_content"):
        shaped[traits["reasoning_key"]] = said["reasoning_content"]
    if calls:
        objects = traits["object_arguments"]
        shaped["tool_calls"] = [
            {"id": made["id"], "type": "function", "function": {
                "name": made["name"],
                "arguments": made["arguments"] if objects else json.dumps(made["arguments"])}}
            for made in calls]
    return shaped


def shaped_tool(tool, traits):
    if traits["whole_tools"]:
        tool = {**tool, "parameters": tool["parameters"] or {"type": "object", "properties": {}}}
    else:
        tool = {key: value for key, value in tool.items() if value}
    return {"type": "function", "function": tool}


def continued(text, messages):
    """The text behind which the last message goes on, as transformers cuts it."""
    final = messages[-1]["content"]
    final = final[-1]["text"] if isinstance(final, list) else final
    if not final.strip():
        raise ValueError("nothing to continue")
    at = text.rindex(final.strip())
    kept = final.lstrip() if text[at:].startswith(final.lstrip()) else final.strip()
    return text[:at] + kept


def expected(template, job, traits):
    """("text", it), ("raised", message) or ("failed", message)."""
    try:
        messages = [shaped_message(said, traits) for said in job["messages"]]
        tools = [shaped_tool(tool, traits) for tool in job.get("tools", [])]
        text = template.render(
            messages=messages, tools=tools or None, documents=None,
            add_generation_prompt=job["add_generation_prompt"], bos_token=job["bos_token"],
            eos_token=job["eos_token"], **job.get("template_arguments", {}),
        )
        return "text", continued(text, messages) if job.get("continue_final_message") else text
    except RaisedByTemplate as error:
        return "raised", str(error)
    except Exception as error:  # pylint: disable=broad-except  # Whatever Python raises in it.
        return "failed", f"{type(error).__name__}: {error}"


def differs(kind, wanted, answer):
    if kind == "text":
        return answer.get("text") != wanted
    if kind == "raised":
        return answer.get("error") != wanted
    # Filters such as map give us lists: JSON of one is no error.
    if "Object of type generator is not JSON serializable" in wanted:
        return False
    return "error" not in answer


class Run:
    """All the templates' jobs in one process, so that a crash is seen, and where."""

    def __init__(self, program, sources):
        lines, self.starts = [], {}
        for name, source in sources.items():
            self.starts[name] = len(lines)
            lines += [line_of(job) for _, job in jobs(source)]
        process = subprocess.run(
            [program], input="".join(line + "\n" for line in lines).encode(),
            stdout=subprocess.PIPE, check=False,
        )
        self.answers = [json.loads(line) for line in process.stdout.splitlines()]
        self.crashed = process.returncode != 0 or len(self.answers) != len(lines)
        if self.crashed:
            at = len(self.answers)
            near = [name for name, start in self.starts.items() if start <= at]
            print(f"{program} ended with status {process.returncode} in {near[-1] if near else '?'}")

    def of(self, name):
        return self.answers[self.starts[name]:]


def check(env, name, source, answers):
    """"same", "rejected" or "different"; prints differences."""
    rejection = answers[0].get("error", "") if answers and not answers[0]["parsed"] else ""
    if rejection:
        print(f"  rejected: {name}: {rejection[:300]}")
        return "rejected" if re.search(r"line \d+: ", rejection) else "different"
    try:
        template = env.from_string(source)
    except jinja2.exceptions.TemplateError as error:
        print(f"  different: {name}: jinja2 rejects it ({error}), we accept it")
        return "different"
    wrong = 0
    for (chat, job), answer in zip(jobs(source), answers):
        kind, wanted = expected(template, job, answer["traits"])
        if not differs(kind, wanted, answer):
            continue
        wrong += 1
        if wrong <= 3:
            print(f"  different: {name}, {chat!r}, prompt {job['add_generation_prompt']}:\n"
                  f"    jinja2:  {kind} {wanted!r}\n    ropeway: {answer!r}")
    return "different" if wrong else "same"


def print_forms(sources, run):
    """The templates for which the program chose other forms than text and objects."""
    for name in sources:
        traits = run.of(name)[0].get("traits", {})
        forms = [f"{key}: {value}" for key, value in traits.get("forms", {}).items()
                 if value == "parts"]
        forms += ["arguments: text"] if not traits.get("object_arguments", True) else []
        forms += ["content of calls: none"] if traits.get("none_content") else []
        forms += ["whole tools"] if traits.get("whole_tools") else []
        if traits.get("reasoning_key", "reasoning_content") != "reasoning_content":
            forms.append(f"reasoning: {traits['reasoning_key']}")
        if forms:
            print(f"  forms: {name}: {', '.join(forms)}")


def sources_of(folder, files):
    sources = {}
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        sources[path.name] = path.read_bytes().decode()
    for path in files:
        # The key, the type "string", the length and the text; reading the whole file takes seconds.
        data = pathlib.Path(path).read_bytes()
        for match in re.finditer(rb"(tokenizer\.chat_template(?:\.\w+)?)\x08\0\0\0", data):
            (size,) = struct.unpack_from("<Q", data, match.end())
            text = data[match.end() + 8:match.end() + 8 + size].decode()
            sources[f"{pathlib.Path(path).name}: {match[1].decode()}"] = text
    return sources


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", required=True, help="render_template")
    parser.add_argument("--templates", required=True, help="a folder of *.jinja")
    parser.add_argument("--gguf", action="append", default=[], help="a GGUF file; repeatable")
    parser.add_argument("--least", type=float, default=90, help="percent that must be the same")
    arguments = parser.parse_args()

    sources = sources_of(arguments.templates, arguments.gguf)
    if not sources:
        sys.exit(f"{arguments.templates} has no templates")
    run = Run(arguments.program, sources)
    if run.crashed:
        sys.exit(1)
    env = environment()
    verdicts = [check(env, name, source, run.of(name)) for name, source in sources.items()]
    print_forms(sources, run)
    count = {verdict: verdicts.count(verdict) for verdict in ("same", "rejected", "different")}
    percent = 100 * count["same"] / len(verdicts)
    print(f"{len(verdicts)} templates, {len(list(jobs('')))} renderings each: {count['same']} the "
          f"same ({percent:.1f} %), {count['rejected']} rejected, {count['different']} different")
    sys.exit(1 if count["different"] or percent < arguments.least else 0)


if __name__ == "__main__":
    main()
