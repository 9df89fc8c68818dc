"""What the kill tests of stored answers ask for, and clients that ask for it: they go on where a kill has cut them, and hold
each answer against what a server that was never killed gave."""
import argparse
import collections
import dataclasses
import http.client
import random
import tempfile
import threading
import time

from ropeway_server import PATIENCE
from stored_client import ENDED, Events, Refused, all_items, call, path_of, plain, replay, status_of, stream

CUT = (OSError, http.client.HTTPException, ValueError)  # ValueError: half a body.
BACKGROUND, WATCHED, STREAM, WHOLE, CANCELLED, FAILED = ("background", "background stream", "stream", "whole", "cancelled",
                                                         "failed")
ENDLESS = 6000  # Tokens: more than any answer of these tests can be waited for.
WORDS = "cable car valley mountain station rope wheel wind snow ticket".split()


class Wrong(Exception):
    """What these tests are there to find."""


class Stopped(Exception):
    """The clients are to end."""


@dataclasses.dataclass
class Step:
    """One request. `how`: what its client does."""
    path: str
    body: dict
    how: str


@dataclasses.dataclass
class Job:
    """Requests one after the other. `link`: how each goes on from the one before: previous_response_id, conversation, or not."""
    name: str
    steps: list
    link: str = ""


def text_of(numbers, count):
    return " ".join(numbers.choice(WORDS) for _ in range(count))


def response(numbers, how, tokens, words=20, **more):
    body = {"input": text_of(numbers, words), "temperature": 1, "seed": numbers.randrange(1 << 40), "max_output_tokens": tokens,
            **more}
    return Step("/v1/responses", body | flags_of(how), how)


def chat(numbers, how, tokens, **more):
    body = {"messages": [{"role": "user", "content": text_of(numbers, 20)}], "temperature": 1, "store": True,
            "seed": numbers.randrange(1 << 40), "max_tokens": tokens, **more}
    return Step("/v1/chat/completions", body | flags_of(how), how)


def completion(numbers, how, tokens, **more):
    body = {"prompt": text_of(numbers, 20), "temperature": 1, "seed": numbers.randrange(1 << 40),
            "max_tokens": tokens, **more}
    return Step("/v1/completions", body | flags_of(how), how)


def flags_of(how):
    return ({"background": True} if how in (BACKGROUND, WATCHED, CANCELLED, FAILED) else {}) | (
        {"stream": True} if how in (WATCHED, STREAM) else {})


def form(count):
    """A form that ends the answer by itself, after about so many tokens."""
    schema = {"type": "array", "items": {"enum": ["rope", "wheel", "wind"]}, "minItems": count // 8, "maxItems": count // 8}
    return {"type": "json_schema", "name": "list", "schema": schema}


def jobs_of(seed, chats=True):
    """Jobs of every kind. Without `chats` responses alone."""
    numbers = random.Random(seed)
    endless = {"ignore_eos": True}
    made = [
        Job("background", [response(numbers, BACKGROUND, 300, **endless)]),
        Job("background form", [response(numbers, BACKGROUND, 2000, text={"format": form(240)})]),
        Job("background stream", [response(numbers, WATCHED, 300, **endless)]),
        Job("stream", [response(numbers, STREAM, 250, **endless)]),
        Job("stream form", [response(numbers, STREAM, 2000, text={"format": form(200)})]),
        Job("whole", [response(numbers, WHOLE, 40, words=60, **endless)]),
        Job("cancelled", [response(numbers, CANCELLED, ENDLESS, **endless)]),
        Job("chain", [response(numbers, how, 80, words=60, **endless) for how in (WHOLE, BACKGROUND, STREAM)],
            "previous_response_id"),
        Job("conversation", [response(numbers, how, 80, words=40, **endless) for how in (BACKGROUND, STREAM, BACKGROUND)],
            "conversation"),
    ]
    if chats:
        form_of_chats = {"type": "json_schema", "json_schema": {k: v for k, v in form(200).items() if k != "type"}}
        made += [
            Job("chat", [chat(numbers, BACKGROUND, 250, **endless)]),
            Job("chat form", [chat(numbers, BACKGROUND, 2000, n=2, response_format=form_of_chats)]),
            Job("chat stream", [chat(numbers, STREAM, 250, **endless)]),
            Job("chat background stream", [chat(numbers, WATCHED, 200, **endless)]),
            Job("completion", [completion(numbers, BACKGROUND, 250, **endless)]),
            Job("completions", [completion(numbers, BACKGROUND, 120, n=2, logprobs=1, **endless)]),
            Job("completion stream", [completion(numbers, WATCHED, 250, **endless)]),
            Job("chat cancelled", [chat(numbers, CANCELLED, ENDLESS, **endless)]),
        ]
    return made


def failing_jobs(seed):
    """Answers that fail after their ids are known: they want more tokens than their time allows, also where a kill gives them that
    time again."""
    numbers = random.Random(seed + 1)
    late = {"ignore_eos": True, "timeout": 0.4}
    return [Job("failed", [response(numbers, FAILED, ENDLESS, **late)]), Job("chat failed", [chat(numbers, FAILED, ENDLESS, **late)])]


def replays(step):
    """Whether it can be read as a stream, with equal events each time: chats only if they were asked for as one. How much is said
    before a failure is a matter of timing."""
    return step.how != FAILED and (step.path == "/v1/responses" or step.how in (WATCHED, STREAM))


class Port(int):
    """Of one server: another one that has the same number is another object."""


class Kept(dict):
    """What a server that was never killed shows, by (job, step): its plain object and events."""


@dataclasses.dataclass
class Accepted:
    """An answer or a conversation whose id a client has."""
    key: tuple          # Of Kept; (job, None): a conversation.
    step: Step | None
    turns: int = 0      # Of a conversation, that have ended.
    unsure: bool = False  # It may have turns of which no client knows: their requests were cut.


class Clients:
    """Threads that do one job after the other, and go on where a kill has cut them."""

    def __init__(self, jobs, wanted, key, seed, count):
        self.jobs, self.wanted, self.key, self.seed = jobs, wanted, key, seed
        self.lock = threading.Condition()
        self.port = None
        self.stopping = False
        self.retries = False  # What is not accepted, because a gateway has no server, is sent again.
        self.wrong = []
        self.accepted = {}            # By id.
        self.states = {}              # The last that was seen of an answer, by id.
        self.met = collections.Counter()  # States into which answers were seen to come since the last start.
        self.cuts = collections.Counter()  # By what was cut: a request without an id, a stream, ...
        self.done = collections.Counter()  # Jobs, by name.
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    # --- What the killer does.

    def serve(self, port):
        """The next server; None: there is none now."""
        with self.lock:
            self.port = None if port is None else Port(port)
            if port is not None:
                self.met.clear()
            self.lock.notify_all()

    def stop(self):
        """Ends them when their jobs are done."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
        for thread in self.threads:
            thread.join(timeout=2 * PATIENCE)
        if any(thread.is_alive() for thread in self.threads):
            self.wrong.append("a client has not come to its end")

    def wait_for(self, state, seconds):
        """Until an answer comes into this state."""
        with self.lock:
            before = self.met[state]
            self.lock.wait_for(lambda: self.met[state] > before or self.wrong, timeout=seconds)

    def hit(self):
        """The states in which answers are, or to whose end they came since the last start."""
        with self.lock:
            under_way = {state for state in self.states.values() if state not in ENDED}
            return under_way | {state for state in self.met if state in ENDED}

    # --- What a client does.

    def run(self, number):
        numbers = random.Random(self.seed * 100 + number)
        at = number
        while True:
            with self.lock:
                if self.stopping:
                    return
            # Each begins with another one, so that all are done.
            index = at if at < len(self.jobs) else numbers.randrange(len(self.jobs))
            at += len(self.threads)
            try:
                self.do(index, numbers)
                self.done[self.jobs[index].name] += 1
            except Stopped:
                return
            except Exception as error:  # pylint: disable=broad-except
                with self.lock:
                    self.wrong.append(f"{self.jobs[index].name}: {error!r}")
                    self.lock.notify_all()
                return

    def server(self, other_than=None):
        """The port of a server that is there. `other_than`: of one that has cut us, and so must have been killed."""
        with self.lock:
            self.lock.wait_for(lambda: self.wrong or (self.port is not None and self.port is not other_than), timeout=PATIENCE)
            if self.port is None or self.wrong:
                raise Stopped
            if self.port is other_than:
                raise Wrong("a server that lives on has cut a connection")
            return self.port

    def again(self, what, ask):
        """What ask(port) returns, asked again of the next server where this one is killed."""
        port = None
        while True:
            port = self.server(other_than=port)
            try:
                return ask(port)
            except CUT:
                self.cuts[what] += 1

    def accept(self, identifier, key, step):
        with self.lock:
            if identifier in self.accepted:
                raise Wrong(f"{identifier} was given twice")
            self.accepted[identifier] = Accepted(key, step)

    def note(self, identifier, state):
        with self.lock:
            before = self.states.get(identifier)
            if before in ENDED and state != before:
                raise Wrong(f"{identifier} was {before} and is {state}")
            if state != before:
                self.states[identifier] = state
                self.met[state] += 1
                self.lock.notify_all()

    def do(self, index, numbers):
        job = self.jobs[index]
        before, talk = None, None
        if job.link == "conversation":
            talk = self.again("creation of a conversation",
                              lambda port: call(port, "POST", "/v1/conversations", {"metadata": {"a": "b"}}, self.key))["id"]
            self.accept(talk, (index, None), None)
        for at, step in enumerate(job.steps):
            body = dict(step.body)
            if talk:
                body["conversation"] = talk
            elif job.link and before:
                body[job.link] = before
            before = self.ask((index, at), step, body, talk)
            if before is None:
                return  # Nobody knows whether it is a turn of the conversation.
            self.judge((index, at), before, step, numbers)
            if talk:
                self.accepted[talk].turns += 1

    def ask(self, key, step, body, talk):
        """The id of the answer, which has ended; None: a conversation's request was cut, and its client has no id."""
        events, port = Events(), None
        while not events.identifier:
            port = self.server(other_than=port)
            try:
                self.send(port, key, step, body, events)
            except Refused as refused:
                if refused.status != 503 or not self.retries:
                    raise
                port = None
                time.sleep(0.05)
            except CUT:
                if not events.identifier:
                    self.cuts["a request without an id"] += 1
                    if talk:
                        self.accepted[talk].unsure = True
                        return None
                else:
                    self.cuts["a stream under way"] += 1
        if step.how in (WATCHED, STREAM):
            self.watch(step, events, port)
            self.compare(key, "events", plain(events.seen), events.identifier)
        self.poll(step, events.identifier)
        return events.identifier

    def send(self, port, key, step, body, events):
        def seen(so_far):
            if len(so_far.seen) == 1:
                self.accept(so_far.identifier, key, step)
            elif so_far.said and self.states.get(so_far.identifier) != "in_progress":
                self.note(so_far.identifier, "in_progress")

        if step.how in (WATCHED, STREAM):
            stream(port, "POST", step.path, body, self.key, events, seen)
            if not events.identifier:
                raise OSError("cut before its first event")
            return
        answer = call(port, "POST", step.path, body, self.key)
        self.accept(answer["id"], key, step)
        events.identifier = answer["id"]

    def watch(self, step, events, port):
        """Reads on until the stream ends. `port`: of the server that has cut it."""
        while not events.whole:
            port = self.server(other_than=port)
            try:
                if step.path == "/v1/responses":
                    stream(port, "GET", f"{path_of(events.identifier)}?stream=true&starting_after={events.last}", None, self.key,
                           events)
                else:
                    # Their events have no numbers: all come again.
                    whole = replay(port, events.identifier, self.key)
                    count = min(len(events.seen), len(whole.seen))  # It may be cut, too.
                    before, again = plain(events.seen[:count]), plain(whole.seen[:count])
                    if before != again:
                        raise Wrong(f"{events.identifier}: a stream begins otherwise than before the kill: "
                                    f"{difference(again, before)}")
                    events.seen, events.whole = whole.seen, whole.whole
            except CUT:
                self.cuts["a stream that is read again"] += 1

    def poll(self, step, identifier):
        while True:
            answer = self.again("a poll", lambda port: call(port, "GET", path_of(identifier), key=self.key))
            state = status_of(answer)
            self.note(identifier, state)
            if state in ENDED:
                return
            if step.how == CANCELLED and state == "in_progress":
                self.again("a cancellation",
                           lambda port: call(port, "POST", f"{path_of(identifier)}/cancel", {}, self.key))
            time.sleep(0.005)

    # --- What is held against the server that was never killed.

    def compare(self, key, what, found, identifier):
        if self.wanted is None:
            return
        wanted = self.wanted[key].get(what)
        if wanted is not None and found != wanted:
            raise Wrong(f"{self.jobs[key[0]].name}, {identifier}: other {what} than without a kill: {difference(found, wanted)}")

    def judge(self, key, identifier, step, numbers):
        """The whole answer, and its stream from its beginning and from somewhere on."""
        if step.how == CANCELLED:
            return
        if step.how == FAILED and self.states[identifier] != "failed":
            raise Wrong(f"{self.jobs[key[0]].name}, {identifier}: it is {self.states[identifier]}, not failed")
        shown = self.again("a read", lambda port: call(port, "GET", path_of(identifier), key=self.key))
        self.compare(key, "object", plain(shown), identifier)
        if not replays(step):
            return
        events = self.again("a replay", lambda port: self.whole_replay(port, identifier))
        self.compare(key, "events", plain(events.seen), identifier)
        if step.path == "/v1/responses":
            if [event["sequence_number"] for event in events.seen] != list(range(len(events.seen))):
                raise Wrong(f"{identifier}: the events' numbers have gaps")
            after = numbers.randrange(len(events.seen))
            rest = self.again("a replay", lambda port: replay(port, identifier, self.key, after))
            if rest.seen != events.seen[after + 1:]:
                raise Wrong(f"{identifier}: behind event {after} come others than in the whole stream")

    def whole_replay(self, port, identifier):
        events = replay(port, identifier, self.key)
        if not events.whole:
            raise OSError("cut")
        return events


def difference(found, wanted):
    """Where two values begin to differ, in short."""
    a, b = repr(found), repr(wanted)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"…{a[max(0, at - 60):at + 250]}… instead of …{b[max(0, at - 60):at + 250]}…"


def never_killed(port, jobs, key):
    """Kept: what a server that lives on shows of each step."""
    kept = Kept()
    clients = Clients(jobs, None, key, 0, 0)
    try:
        clients.serve(port)
        for index, _ in enumerate(jobs):
            clients.do(index, random.Random(0))
        for identifier, accepted in clients.accepted.items():
            if accepted.step is None:
                kept[accepted.key] = {"items": plain(all_items(port, f"{path_of(identifier)}/items", key))}
                continue
            kept[accepted.key] = {"object": plain(call(port, "GET", path_of(identifier), key=key))}
            if replays(accepted.step):
                kept[accepted.key]["events"] = plain(replay(port, identifier, key).seen)
    finally:
        clients.stop()
    if clients.wrong:
        raise Wrong(clients.wrong[0])
    return kept


def check_all(port, clients, admin_key):
    """Each accepted answer is there once, as it must be, and none that nobody asked for."""
    listed = call(port, "GET", "/admin/stored?limit=10000", key=admin_key)["data"]
    ids = [one["id"] for one in listed]
    if len(set(ids)) != len(ids):
        raise Wrong(f"listed twice: {[one for one, count in collections.Counter(ids).items() if count > 1]}")
    missing = set(clients.accepted) - set(ids)
    if missing:
        raise Wrong(f"accepted, and not there: {sorted(missing)}")
    cut = clients.cuts["a request without an id"] + clients.cuts["creation of a conversation"]
    others = set(ids) - set(clients.accepted)
    if len(others) > cut:
        raise Wrong(f"{len(others)} objects that nobody has an id of, and only {cut} requests were cut: {sorted(others)}")
    for identifier, accepted in clients.accepted.items():
        if accepted.step is None:
            check_conversation(port, clients, identifier, accepted)
        else:
            check_answer(port, clients, identifier, accepted)


def check_answer(port, clients, identifier, accepted):
    shown = call(port, "GET", path_of(identifier), key=clients.key)
    if status_of(shown) not in ENDED:
        return  # Its client has ended before.
    if accepted.step.how == CANCELLED:
        if clients.states.get(identifier) == "cancelled" and status_of(shown) != "cancelled":
            raise Wrong(f"{identifier} was cancelled and is {status_of(shown)}")
        return
    clients.compare(accepted.key, "object", plain(shown), identifier)


def check_conversation(port, clients, identifier, accepted):
    items = all_items(port, f"{path_of(identifier)}/items", clients.key)
    ids = [item["id"] for item in items]
    if len(set(ids)) != len(ids):
        raise Wrong(f"{identifier} has an item twice: {ids}")
    wanted = clients.wanted[accepted.key]["items"]
    count = len(items) if accepted.unsure else len(wanted) * accepted.turns // len(clients.jobs[accepted.key[0]].steps)
    if plain(items) != wanted[:count]:
        raise Wrong(f"{identifier}: {difference(plain(items), wanted[:count])}")


def refused_with(status, ask, *args, **fields):
    """Wrong unless it is refused so."""
    try:
        found = ask(*args, **fields)
    except Refused as refused:
        if refused.status == status:
            return
        raise Wrong(f"{refused}, not {status}") from refused
    raise Wrong(f"200 and {str(found)[:200]}, not {status}")


def run(test, least):
    """The exit code of test(args, folder), with the flags that the kill tests share. `least`: the default of --least."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--least", type=int, default=least)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ropeway-stored-test-") as folder:
        try:
            test(args, folder)
        except Wrong as wrong:
            print(f"WRONG: {wrong}")
            return 1
    return 0
