"""Stored answers, as a client sends, polls, streams and lists them, and what of them does not depend on ids and times."""
import dataclasses
import http.client
import json
import re

from ropeway_server import PATIENCE

PATHS = {"resp": "/v1/responses", "chatcmpl": "/v1/chat/completions", "cmpl": "/v1/completions", "conv": "/v1/conversations"}
ENDED = ("completed", "incomplete", "failed", "cancelled")
# Ids, times and what was cached differ from run to run.
VOLATILE = ("created", "created_at", "cached_tokens", "cache_write_tokens", "ropeway")
DRAWN = re.compile(r"[0-9a-f]{32}")


class Refused(Exception):
    """The server's answer was no 200."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text[:500]}")
        self.status, self.text = status, text


def path_of(identifier):
    return f"{PATHS[re.split('[-_]', identifier)[0]]}/{identifier}"


def plain(value):
    """What must be equal in every run of the same body with the same seed."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return DRAWN.sub("ID", value) if isinstance(value, str) else value


@dataclasses.dataclass
class Events:
    """A stream as far as it came, maybe in several pieces."""
    identifier: str = ""
    seen: list = dataclasses.field(default_factory=list)
    whole: bool = False

    @property
    def last(self):
        """The number of the last event."""
        return self.seen[-1]["sequence_number"] if self.seen else -1

    @property
    def said(self):
        """Some of the answer has come."""
        return any("delta" in event or any(choice.get("text") or choice.get("delta", {}).get("content")
                                           for choice in event.get("choices", [])) for event in self.seen)

    def add(self, event):
        self.seen.append(event)
        self.identifier = self.identifier or event.get("response", event).get("id", "")
        # Responses have no [DONE].
        self.whole = self.whole or event.get("type", "") in ("response.completed", "response.incomplete", "response.failed")


def stream(port, method, path, body, key, events, seen=lambda events: None):
    """Adds what comes to `events`; returns where it ends or is cut. `seen` is called after each event; it may raise."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode(),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise Refused(reply.status, reply.read().decode())
        while line := reply.readline():
            data = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or not line.endswith(b"\n"):
                continue
            if data == b"[DONE]":
                events.whole = True
                continue
            events.add(json.loads(data))
            seen(events)
    finally:
        connection.close()


def call(port, method, path, body=None, key=""):
    """The JSON of a 200; Refused otherwise. OSError or HTTPException: the server is not there."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode(),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            raise Refused(reply.status, text)
        return json.loads(text)
    finally:
        connection.close()


def status_of(answer):
    return answer.get("status") or ("completed" if answer.get("choices") else "in_progress")


def replay(port, identifier, key, after=None):
    """The Events of a stored answer that is read as a stream from its beginning, or behind event `after`."""
    events = Events(identifier)
    behind = "" if after is None else f"&starting_after={after}"
    stream(port, "GET", f"{path_of(identifier)}?stream=true{behind}", None, key, events)
    return events


def all_items(port, path, key):
    """The items of a conversation or of an answer's input, the oldest first, page by page."""
    found, after = [], ""
    while True:
        page = call(port, "GET", f"{path}?order=asc&limit=7{after}", key=key)
        found += page["data"]
        if not page["has_more"]:
            return found
        after = f"&after={page['last_id']}"
