"""Conversations that the server keeps: what it brings to send only what is new, and what it costs to ask for an answer that
is under way.

Parts: turns, users that chat by previous_response_id (POST /v1/responses, stored) against the same chats whose clients send
the whole history (POST /v1/chat/completions); polling, GETs of an answer in the background. Starts the servers itself, one
after the other, on a machine that should do nothing else.
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import time

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.sessions import words
from ropeway_bench.suite import timing, whole

TITLE = "Conversations that the server keeps"
TURNS, POLLING = "turns", "polling"
STORED, STATELESS, CACHED = "stored", "stateless, cache off", "stateless, cache on"
QUIET, POLLED = "nobody asks", "polled"
PANELS = 2
CONNECTIONS = 4

COLUMNS = [Column("turns", "turns"), Column("turns/s", "turns_per_s", 1, 2), Column("output tok/s", "output_tok_per_s", 1, 1),
           Column("TTFT p50 s", "ttft_p50_s", 1, 3), Column("TTFT p90 s", "ttft_p90_s", 1, 3),
           Column("prompt tokens", "prompt_tokens"), Column("prefilled", "prefilled_tokens"), Column("sent KB", "sent_kb"),
           Column("wall s", "wall_s", 1, 1), report.OTHERS[0]]
POLLING_COLUMNS = [Column("polls/s", "polls_per_s"), Column("CPU s per s", "core_share", 1, 3),
                   Column("of these HTTP", "http_core_share", 1, 4), Column("tokens/s", "output_tok_per_s", 1, 1),
                   report.OTHERS[0]]


def add_flags(parser):
    parser.add_argument("--part", choices=(TURNS, POLLING, "all"), default="all")
    parser.add_argument("--users", type=whole(1, 1000), default=6, help="that chat at once, a conversation each")
    parser.add_argument("--turns", type=whole(2, 100), default=10, help="of each conversation")
    parser.add_argument("--first-tokens", type=whole(4, 100000), default=1500, help="words of a first message")
    parser.add_argument("--input-tokens", type=whole(4, 100000), default=100, help="words of later messages")
    parser.add_argument("--output-tokens", type=whole(1, 100000), default=80, help="of each answer")
    parser.add_argument("--polls", type=whole(1, 100000), default=1000, help="polling: so many a second")
    parser.add_argument("--poll-seconds", type=whole(1, 3600), default=10, help="polling: for so long, twice")


def make_quick(args):
    args.users, args.turns, args.poll_seconds = min(args.users, 3), min(args.turns, 4), min(args.poll_seconds, 3)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: this benchmark starts servers of its own")


def measure(suite):
    if suite.args.part in (TURNS, "all"):
        measure_turns(suite)
    if suite.args.part in (POLLING, "all"):
        measure_polling(suite)


# Turns.


def messages_of(args, user):
    rng = load.random_of("conversation", args.seed, user)
    return [words(rng, args.input_tokens if turn else args.first_tokens) for turn in range(args.turns)]


def events_of(connection, path, body):
    """The events of a stream, and the seconds to each."""
    begin = time.monotonic()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise BenchError(f"{path} answers {reply.status}: {reply.read().decode(errors='replace')[:300]}")
    while line := reply.readline():
        if line.startswith(b"data: {"):
            event = json.loads(line[len(b"data: "):])
            if "error" in event:
                raise BenchError(f"a request failed: {event['error']}")
            yield event, time.monotonic() - begin


class Stored:
    """A conversation by previous_response_id."""

    def __init__(self, args):
        self.args, self.before = args, None

    def ask(self, connection, text):
        body = json.dumps({"input": text, "max_output_tokens": self.args.output_tokens, "stream": True, "temperature": 0,
                           "ignore_eos": True, **({"previous_response_id": self.before} if self.before else {})}).encode()
        first, usage, latency = None, None, 0
        for event, latency in events_of(connection, "/v1/responses", body):
            if event["type"] == "response.output_text.delta" and first is None:
                first = latency
            if event["type"] in ("response.completed", "response.incomplete"):
                usage, self.before = event["response"]["usage"], event["response"]["id"]
        cached = usage["input_tokens_details"]["cached_tokens"]
        return load.Record(ttft=first, latency=latency, input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"],
                           cached_tokens=cached), len(body)


class Stateless:
    """A conversation whose client sends all of it each time."""

    def __init__(self, args):
        self.args, self.messages = args, []

    def ask(self, connection, text):
        self.messages.append({"role": "user", "content": text})
        body = json.dumps({"messages": self.messages, "max_tokens": self.args.output_tokens, "stream": True, "temperature": 0,
                           "ignore_eos": True, "stream_options": {"include_usage": True}}).encode()
        first, usage, latency, said = None, None, 0, ""
        for event, latency in events_of(connection, "/v1/chat/completions", body):
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                if piece := choice["delta"].get("content"):
                    first = latency if first is None else first
                    said += piece
        self.messages.append({"role": "assistant", "content": said})
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return load.Record(ttft=first, latency=latency, input_tokens=usage["prompt_tokens"],
                           output_tokens=usage["completion_tokens"], cached_tokens=cached), len(body)


def chat(server, talk, texts):
    """[(Record, bytes sent)] of a conversation's turns."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=talk.args.timeout)
    try:
        return [talk.ask(connection, text) for text in texts]
    finally:
        connection.close()


def measure_turns(suite):
    args, metrics = suite.args, suite.metrics
    texts = [messages_of(args, user) for user in range(args.users)]
    with servers.disk_folder(args.disk_path) as folder:
        systems = {STORED: (Stored, ["--state-path"]), STATELESS: (Stateless, ["--prefix-caching", "off"]), CACHED: (Stateless, [])}
        for name, (kind, flags) in systems.items():
            for where in suite.measuring(TURNS, name):
                if name == STORED:
                    flags = ["--state-path", pathlib.Path(folder) / f"state-{time.monotonic_ns()}"]
                with suite.ropeway(*flags) as server, concurrent.futures.ThreadPoolExecutor(args.users) as pool:
                    with timing(where):
                        begin = time.monotonic()
                        said = list(pool.map(lambda one, server=server, kind=kind: chat(server, kind(args), one), texts))
                        wall = time.monotonic() - begin
                    add_turns(metrics, where, said, wall)
                    metrics.add(where, command=server.command, load=f"{args.users} users, {args.turns} turns each: a first message of "
                                f"{args.first_tokens} words, later ones of {args.input_tokens}, answers of {args.output_tokens} "
                                f"tokens, seed {args.seed}")


def add_turns(metrics, where, said, wall):
    """Of all turns, and of each turn at x = 1, 2, ..."""
    for number in (None, *range(len(said[0]))):
        found = [talk[number] for talk in said] if number is not None else [one for talk in said for one in talk]
        records = [record for record, _ in found]
        at = where if number is None else where.at(number + 1)
        metrics.add(at, turns=len(records), prefilled_tokens=sum(r.prefilled for r in records),
                    prompt_tokens=sum(r.input_tokens for r in records), sent_kb=sum(size for _, size in found) / 1024)
        metrics.add_distribution(at, "ttft", [r.ttft for r in records if r.ttft is not None])
        if number is None:
            metrics.add(at, wall_s=wall, turns_per_s=len(records) / wall,
                        output_tok_per_s=sum(r.output_tokens for r in records) / wall)


# Polling.


def cpu_seconds(pid, name=""):
    """Of a process so far, or of its threads whose names begin so."""
    ticks = 0
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        text = stat.read_text(encoding="utf-8", errors="replace")
        begin, _, rest = text.rpartition(")")
        if begin.partition("(")[2].startswith(name):
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def poll(server, path, rate, seconds):
    """Asks `rate` times a second over one connection; how often it did."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.connect()
    request = f"GET {path} HTTP/1.1\r\nHost: {connection.host}:{connection.port}\r\n\r\n".encode()
    sock, begin, count = connection.sock, time.monotonic(), 0
    while (now := time.monotonic()) < begin + seconds:
        if (due := begin + count / rate) > now:
            time.sleep(due - now)
        sock.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += sock.recv(65536)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")).split(b":")[1])
        while len(body) < length:
            body += sock.recv(65536)
        if not head.startswith(b"HTTP/1.1 200") or b'"in_progress"' not in body:
            raise BenchError(f"a poll is answered {head[:20]} {body[:300]}")
        count += 1
    connection.close()
    return count


def measure_polling(suite):
    args, metrics = suite.args, suite.metrics
    names = [name for name in (QUIET, POLLED) if suite.wants(name)]
    port = servers.free_port()
    # One compute thread: several wait for each other, and what that takes depends on what else the machine does.
    command = [suite.program, "serve", "--model", suite.model, "--threads", 1, "--port", port, "--state-path"]
    with servers.disk_folder(args.disk_path) as folder, servers.Server([*command, folder], port) as server:
        body = {"input": "The cable car", "background": True, "ignore_eos": True, "max_output_tokens": 8000}
        for name in names:
            for where in suite.measuring(POLLING, name):
                connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
                connection.request("POST", "/v1/responses", json.dumps(body), {"Content-Type": "application/json"})
                path = f"/v1/responses/{json.loads(connection.getresponse().read())['id']}"
                time.sleep(1)
                pid = server.process.pid
                before, http_before, page, begin = cpu_seconds(pid), cpu_seconds(pid, "ropeway-io"), server.page(), time.monotonic()
                count = 0
                with timing(where), concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
                    if name == POLLED:
                        count = sum(pool.map(lambda _: poll(server, path, args.polls / CONNECTIONS, args.poll_seconds),
                                             range(CONNECTIONS)))
                    else:
                        time.sleep(args.poll_seconds)
                seconds = time.monotonic() - begin
                share, http_share = ((now - then) / seconds for now, then in (
                    (cpu_seconds(pid), before), (cpu_seconds(pid, "ropeway-io"), http_before)))
                tokens = server.page().grown(page, "ropeway_generation_tokens_total")
                metrics.add(where, core_share=share, http_core_share=http_share, polls_per_s=count / seconds,
                            output_tok_per_s=ratio(tokens, seconds), command=server.command,
                            load=f"{args.polls} GETs a second over {CONNECTIONS} connections" if name == POLLED else "")
                connection.request("POST", f"{path}/cancel")
                connection.getresponse().read()
                connection.close()


# Reporting.


def verdicts(metrics):
    found = []
    if metrics.systems(TURNS):
        rates = {name: metrics.median(TURNS, name, "turns_per_s") for name in (STORED, STATELESS, CACHED)}
        for name, target in ((STATELESS, 4), (CACHED, 1)):
            found.append(Verdict(f"turns/s, {STORED} over {name}", ratio(rates[STORED], rates[name]), target,
                                 report.shown("{:.2f} / {:.2f} turns/s", rates[STORED], rates[name])))
        last = max(metrics.xs(TURNS, "ttft_p50_s"), key=int, default="1")
        ttft = [metrics.median(TURNS, STORED, "ttft_p50_s", x) for x in (last, "1")]
        found.append(Verdict(f"TTFT of turn {last} over turn 1, {STORED}", ratio(*ttft), 1.5,
                             report.shown("{:.3f} / {:.3f} s", *ttft), True))
    if metrics.systems(POLLING):
        share = {name: metrics.median(POLLING, name, "core_share") for name in (POLLED, QUIET)}
        more = None if None in share.values() else share[POLLED] - share[QUIET]
        found.append(Verdict("polls: a core's share beyond that of the answer alone", more, 0.05,
                             report.shown("{:.3f} - {:.3f}", share[POLLED], share[QUIET]), True))
    return found


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    table = report.system_table(metrics, TURNS, COLUMNS)
    if table:
        table += "\n" + report.cross_table(metrics, TURNS, "turn", Column("Median TTFT by turn, seconds:", "ttft_p50_s", 1, 3))
    return text + report.section(TURNS, table) + report.section(POLLING, report.system_table(metrics, POLLING, POLLING_COLUMNS))


def draw(axes, metrics):
    plot.metric_bars(axes[0], metrics, TURNS, "turns_per_s", "turns/s")
    plot.metric_lines(axes[1], metrics, TURNS, "ttft_p50_s", "median TTFT, s", "turn")
