#!/usr/bin/env python3
"""The recorded minute of /admin/events (tests/data/events, by record_events.py) against docs/events.md, and a new second of it
from the program, so that neither page, document, recording nor program is left behind.

usage: events_test.py --ropeway PROGRAM --tiny TINY.gguf
"""
import argparse
import gzip
import http.client
import json
import pathlib
import re
import sys
import threading
import time
import unittest

import record_events
from ropeway_server import RopewayServer

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "events.md"
LISTS = ("steps", "requests", "ended", "queue")  # Their members are rows of the table.
GATEWAY_ONLY = {"backends", "requests[].backend"}


def events_of(text):
    """(name, data) of each event; anything else in the stream is an error."""
    assert text.endswith("\n\n"), text[-80:]
    for event in text[:-2].split("\n\n"):
        if event.startswith(":"):
            continue
        name, data = re.fullmatch(r"event: (hello|frame)\ndata: (\{.*\})", event).groups()
        yield name, json.loads(data)


def documented():
    """The fields that the document's table has, by path, each with what its row says."""
    fields = {}
    for cell, meaning in re.findall(r"^\| (`.*?) \| (.*) \|$", DOCUMENT.read_text(encoding="utf-8"), re.M):
        begin = ""
        for name in re.findall(r"`([^`]+)`", cell):
            if "." in name:
                begin = name[:name.rindex(".") + 1]
            fields[name if "." in name else begin + name] = meaning
            fields.setdefault(begin.rstrip(".[]") or name, meaning)
    return fields


def shown(frame):
    """The fields of a frame, by path, as the document names them."""
    paths = set(frame)
    for name in LISTS:
        value = frame[name]
        for one in value if isinstance(value, list) else [value]:
            begin = f"{name}[]." if isinstance(value, list) else f"{name}."
            paths |= {begin + key for key in one}
    return paths


def check(case, events):
    """What holds of each stream, recorded or new. Returns its frames."""
    events = list(events)
    fields = documented()
    case.assertEqual(events[0][0], "hello")
    # The recorded one is of no process: it is shown again and again.
    case.assertEqual(set(events[0][1]) - {"process"}, {"version", "kind", "models", "slots", "strategy"})
    frames = [data for name, data in events if name == "frame"]
    case.assertEqual(len(frames), len(events) - 1)
    told = set(re.findall(r"`([a-z_.]+)`", DOCUMENT.read_text(encoding="utf-8")))
    for frame in frames:
        unknown = {path for path in shown(frame) if path not in fields and path.replace("[]", "") not in told}
        case.assertEqual(unknown, set())
        for name in ("blocks", "rates", "minute", "hour"):
            case.assertLessEqual(set(frame[name]), set(re.findall(r"`(\w+)`", fields[name])), name)
    case.assertEqual({path for path in fields if "." not in path} - set(frames[0]), {"backends"})
    times = [frame["at"] for frame in frames]
    case.assertEqual(times, sorted(times))
    for at, later in zip(times, times[11:]):
        case.assertGreater(later - at, 0.99, "more than ten a second")
    return frames


class RecordedTest(unittest.TestCase):
    """What was recorded."""

    @classmethod
    def setUpClass(cls):
        cls.text = gzip.decompress(record_events.OUT.read_bytes()).decode()

    def test_the_document_has_its_fields_and_it_has_the_documents(self):
        frames = check(self, events_of(self.text))
        seen = set().union(*(shown(frame) for frame in frames))
        # A row may name a member for all lists that have it; each row must be seen somewhere.
        self.assertEqual({path for path in documented() if path not in seen}, GATEWAY_ONLY)

    def test_it_shows_what_the_page_must_show(self):
        frames = [data for name, data in events_of(self.text) if name == "frame"]
        steps = [step for frame in frames for step in frame["steps"]]
        ended = [end for frame in frames for end in frame["ended"]]
        self.assertGreater(frames[-1]["at"] - frames[0]["at"], 55)
        self.assertEqual([end["number"] for end in ended], list(range(ended[0]["number"], ended[0]["number"] + len(ended))))
        numbers = [step["step"] for step in steps]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertTrue(any(step["preempted"] for step in steps))
        # Preempted, and later it ended well.
        self.assertTrue(any(end["preemptions"] and end["reason"] == "length" for end in ended))
        chunks = [row for step in steps for row in step["rows"] if row[1] == 0]
        self.assertTrue(any(row[2] > 0 for row in chunks), "a later chunk of a prompt")
        self.assertTrue(any(end["cached"] for end in ended))
        self.assertLessEqual({"stop", "length", "cancelled"}, {end["reason"] for end in ended})
        self.assertEqual({end["class"] for end in ended}, {"high", "medium", "low"})
        self.assertEqual({end["tenant"] for end in ended}, set(record_events.KEYS))
        self.assertLessEqual({"waiting", "running", "preempted"}, {one["state"] for frame in frames for one in frame["requests"]})

    def test_it_holds_no_text_and_no_key(self):
        for word in (record_events.SECRET, *record_events.WORDS, *record_events.KEYS.values(), record_events.ADMIN_KEY):
            if word not in record_events.KEYS:  # A tenant's name is shown.
                self.assertNotIn(word, self.text.replace("the_", ""))


class NewTest(unittest.TestCase):
    """What the program writes now."""

    def test_it_is_as_the_document_says(self):
        server = RopewayServer(ARGS.ropeway, ARGS.tiny, "--max-num-seqs", "2")
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.terminate)
        watcher = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        watcher.request("GET", "/admin/events")
        reply = watcher.getresponse()
        body = {"prompt": record_events.SECRET, "max_tokens": 200, "ignore_eos": True}
        threads = [threading.Thread(target=server.request, args=("POST", "/v1/completions", body)) for _ in range(4)]
        for thread in threads:
            thread.start()
        text, until, ends = "", time.monotonic() + 60, 0
        while ends < 4 and time.monotonic() < until:
            line = reply.readline().decode()
            text += line
            if line.startswith("data: "):
                ends += len(json.loads(line[6:]).get("ended", ()))
        text += reply.readline().decode()
        watcher.close()
        for thread in threads:
            thread.join()
        frames = check(self, events_of(text))
        self.assertEqual(ends, 4)
        self.assertTrue(any(frame["steps"] for frame in frames))
        self.assertNotIn(record_events.SECRET, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--tiny", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
