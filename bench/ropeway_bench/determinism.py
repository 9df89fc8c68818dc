"""One prompt, asked many times at temperature 0 amid other requests: how many answers does it get?

Asks the engine in the process of `ropeway-bench determinism`, `ropeway serve` and its peers over HTTP, and OpenVINO
GenAI. Nothing is timed, so the machine may do other things meanwhile. The exit code is 1 if Ropeway gives more than
one answer, in tokens or in the bits of log-probabilities.
"""
import array
import collections
import http.client
import json
import math
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.parse

from ropeway_bench import BenchError, plot, report
from ropeway_bench.metrics import Where
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import program, real, resolve_model, whole

TITLE = "One prompt, asked many times"
ASKS, ROUNDS = "asks", "rounds"
ENGINE, SERVE, LLAMA, OPENVINO, SERVER = "ropeway, engine", "ropeway serve", "llama-server", "OpenVINO GenAI", "server"
OPENVINO_SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "determinism_openvino.py"
PROMPT = "Once upon a time, in a village high up in the mountains, there lived an old woman who"
TRIES = 3
LEAVES_CHANCE, PAUSE_CHANCE, MOST_PAUSE = 0.2, 0.25, 0.3
COLUMNS = [Column("answers", "answers"), Column("distinct outputs", "distinct"),
           Column("distinct with log-probs", "distinct_with_logprobs"), Column("the most frequent", "most_frequent"),
           Column("largest log-prob difference", "largest_logprob_difference", 1, 4),
           Column("first two differ at token", "differ_at"), Column("other requests", "company"),
           Column("asks in chunks", "chunked"), Column("asks preempted", "preempted"),
           Column("preemptions", "preemptions")]


def add_flags(parser):
    parser.add_argument("--prompt", default=PROMPT, help="as it is: no chat template")
    parser.add_argument("--asks", type=whole(1, 10**6), default=1000, help="how often Ropeway is asked")
    parser.add_argument("--peer-seconds", type=real(0, 86400), default=150,
                        help="the others are asked as often as fits; 0: as often as Ropeway")
    parser.add_argument("--output-tokens", type=whole(1, 4096), default=64, help="of each answer")
    parser.add_argument("--company", type=real(0, 100), default=1.0, help="other requests for each ask, on average")
    parser.add_argument("--engines", type=whole(1, 1000), default=10,
                        help="of the run in process, one after the other: each with other threads, steps, chunks and "
                             "memory")
    parser.add_argument("--concurrency", type=whole(1, 256), default=16, help="requests in flight over HTTP")
    parser.add_argument("--kv-cache-dtype", choices=["f16", "q8_0"], default="f16", help="of the run in process")
    parser.add_argument("--api-key", default="", help="of the server of --base-url")
    parser.add_argument("--openvino", action="store_true", help="ask OpenVINO GenAI too (bench/requirements.txt)")


def make_quick(args):
    args.asks, args.engines, args.output_tokens = min(args.asks, 40), min(args.engines, 4), min(args.output_tokens, 16)


class Tally:
    """Answers by their tokens, and by tokens and log-probabilities together: these are equal only if their bits are.
    Log-probabilities are empty if none were told."""

    def __init__(self):
        self.with_logprobs = collections.Counter()
        self.lock = threading.Lock()

    def add(self, tokens, logprobs, count=1):
        # As bytes: equal bits are equal, also those of what is no number.
        numbers = array.array("d", [math.nan if x is None else x for x in logprobs])
        with self.lock:
            self.with_logprobs[tuple(tokens), numbers.tobytes()] += count

    def by_tokens(self):
        found = collections.Counter()
        for (tokens, _), count in self.with_logprobs.items():
            found[tokens] += count
        return found

    def metrics(self):
        by_tokens = self.by_tokens()
        outputs = by_tokens.most_common()
        told = all(logprobs for _, logprobs in self.with_logprobs)
        return {"answers": self.with_logprobs.total(), "distinct": len(by_tokens),
                "distinct_with_logprobs": len(self.with_logprobs) if told else None,
                "most_frequent": outputs[0][1],
                "largest_logprob_difference": self.largest_difference() if told else None,
                "differ_at": common(outputs[0][0], outputs[1][0]) + 1 if len(outputs) > 1 else None}

    def largest_difference(self):
        """To the first answer's log-probabilities, up to where tokens differ."""
        first, *others = self.with_logprobs
        return max((abs(a - b) for other in others for a, b in zip(
            array.array("d", first[1])[:common(first[0], other[0])], array.array("d", other[1]))), default=0.0)

    def counts(self):
        """How often each output came, by tokens and log-probabilities, falling."""
        return sorted(self.with_logprobs.values(), reverse=True)

    def describe(self):
        """Where the two most frequent outputs differ, for people; "" if there is one."""
        outputs = self.by_tokens().most_common(2)
        if len(outputs) < 2:
            return ""
        (a, _), (b, _) = outputs
        at = common(a, b)
        shown = [repr(tokens[at]) if at < len(tokens) else "(the end)" for tokens in (a, b)]
        return f"first differ at token {at + 1}: {shown[0]} and {shown[1]}"


def common(a, b):
    """The length of the common beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


# In process.


def read_lines(suite, command, where):
    """The Tally of what a program prints as JSON lines: rounds, whose settings become metrics, and outputs."""
    reply = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    tally, totals, rounds = Tally(), collections.Counter(), 0
    for line in reply.stdout.splitlines():
        found = json.loads(line)
        if "round" in found:
            rounds += 1
            settings = {k: int(v) if isinstance(v, bool) else v for k, v in found["round"].items()}
            suite.metrics.add(Where(ROUNDS, where.system, where.round, str(rounds)), **settings)
            totals.update({k: settings[k] for k in ("company", "chunked", "preempted", "preemptions") if k in settings})
        elif "output" in found:
            tally.add(found["output"]["tokens"], found["output"]["logprobs"], found["output"]["count"])
    if not tally.with_logprobs:
        raise BenchError(reply.stderr.strip().removeprefix("ropeway: ") or f"{command[0]} printed no outputs")
    suite.metrics.add(where, **totals)
    return tally


# Over HTTP.


class Asker:
    """Asks a server from several threads, some of which send other requests meanwhile."""

    def __init__(self, suite, server, asks, seconds):
        self.args, self.server, self.asks = suite.args, server, asks
        self.until = time.monotonic() + seconds if seconds else None
        models = server.models()
        if not models:
            raise BenchError(f"{server.url} lists no models")
        self.model = models[0]["id"]
        self.tally, self.lock = Tally(), threading.Lock()
        self.started = self.company = self.left = 0
        self.failure = None

    def run(self):
        self.started = 1
        self.ask()  # Alone.
        users = [threading.Thread(target=self.user, args=(i,)) for i in range(self.args.concurrency)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        if self.failure:
            raise BenchError(f"{self.server.url}: an ask failed: {self.failure}")
        return self.tally

    def user(self, number):
        rng = random.Random(f"{self.args.seed}/{number}")
        while True:
            ask = rng.random() < 1 / (1 + self.args.company)
            with self.lock:
                if self.failure or self.started >= self.asks or (self.until and time.monotonic() > self.until):
                    return
                self.started += ask
            if rng.random() < PAUSE_CHANCE:
                time.sleep(rng.uniform(0, MOST_PAUSE))
            if ask:
                self.ask()
            else:
                self.keep_company(rng)

    def post(self, body, timeout):
        """(status, reply's text)."""
        url = urllib.parse.urlsplit(self.server.url)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.netloc, timeout=timeout)
        try:
            headers = {"Content-Type": "application/json"}
            if self.server.key:
                headers["Authorization"] = f"Bearer {self.server.key}"
            connection.request("POST", url.path + "/v1/completions", json.dumps(body | {"model": self.model}), headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode(errors="replace")
        finally:
            connection.close()

    def ask(self):
        why = ""
        for _ in range(TRIES):
            try:
                status, text = self.post({"prompt": self.args.prompt, "temperature": 0, "logprobs": 1,
                                          "max_tokens": self.args.output_tokens, "ignore_eos": True}, self.args.timeout)
                if status == 200:
                    self.tally.add(*read_answer(text))
                    return
                why = f"HTTP {status}: {text[:200]}"
            except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
                why = repr(error)
        with self.lock:
            self.failure = why

    def keep_company(self, rng):
        """A random request; some go away before they have their answer. How it ends does not matter."""
        leaves = rng.random() < LEAVES_CHANCE
        words = " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 6)))
                         for _ in range(rng.randint(1, 256)))
        body = {"prompt": words, "max_tokens": rng.randint(1, 96), "temperature": rng.randint(0, 15) / 10,
                "stream": rng.random() < 0.5, "ignore_eos": True, "seed": rng.getrandbits(31)}
        try:
            self.post(body, rng.uniform(0.02, 2) if leaves else self.args.timeout)
        except (OSError, http.client.HTTPException):
            self.left += leaves
        self.company += 1


def read_answer(text):
    """(tokens, logprobs) of a completion, as far as the server tells them; else its text as one token."""
    choice = json.loads(text)["choices"][0]
    told = choice.get("logprobs")
    told = told if isinstance(told, dict) else {}
    forms = [(told.get("tokens"), told.get("token_logprobs"))]
    if isinstance(told.get("content"), list):
        forms.append(tuple([entry.get(name) for entry in told["content"]] for name in ("token", "logprob")))
    for tokens, logprobs in forms:
        if (isinstance(tokens, list) and isinstance(logprobs, list) and len(tokens) == len(logprobs)
                and all(isinstance(t, str) for t in tokens) and all(isinstance(x, (int, float)) for x in logprobs)):
            return tokens, logprobs
    if not isinstance(choice["text"], str):
        raise ValueError("the reply is no completion with a choice's text")
    return [choice["text"]], []


# The benchmark.


def serve(suite, system):
    if system == SERVER:
        server = suite.given()
        server.key = suite.args.api_key
        return server
    if system == LLAMA:
        return suite.llama(suite.args.concurrency, 512)
    # So little memory that not all requests fit: some must be preempted.
    return suite.ropeway("--kv-cache-size", "48MiB", "--max-model-len", "1024")


def measure(suite):
    args = suite.args
    systems = [SERVER] if args.base_url else [ENGINE, SERVE]
    if not args.base_url:
        systems += [LLAMA] * suite.has_llama + [OPENVINO] * (args.openvino and not args.quick)
    for system in systems:
        for where in suite.measuring(ASKS, system):
            tally = ask(suite, system, where)
            suite.metrics.add(where, **tally.metrics())
            for i, count in enumerate(tally.counts()):
                suite.metrics.add(where.at(i + 1), count=count)
            if tally.describe():
                print(f"{where}: the two most frequent outputs {tally.describe()}", file=sys.stderr)


def ask(suite, system, where):
    args = suite.args
    shared = ["--prompt", args.prompt, "--output-tokens", args.output_tokens, "--seed", args.seed]
    if system == ENGINE:
        return read_lines(suite, [program("ropeway-bench", args.ropeway_bench), "determinism", "--model",
                                  resolve_model(args.model), "--asks", args.asks, "--rounds", args.engines, "--company",
                                  args.company, "--kv-cache-dtype", args.kv_cache_dtype, *shared], where)
    if system == OPENVINO:
        return read_lines(suite, [sys.executable, OPENVINO_SCRIPT, "--model", resolve_model(args.model), "--asks",
                                  args.asks, "--seconds", args.peer_seconds or 86400, *shared], where)
    with serve(suite, system) as server:
        asker = Asker(suite, server, args.asks, 0 if system == SERVE else args.peer_seconds)
        tally = asker.run()
        suite.metrics.add(where, company=asker.company, left=asker.left, command=server.command,
                          preemptions=server.page().sum("ropeway_num_preemptions_total"))
        return tally


def verdicts(metrics):
    found = []
    for system in metrics.systems(ASKS):
        if system in (ENGINE, SERVE):
            found += [Verdict(f"{system}: distinct outputs", metrics.median(ASKS, system, "distinct"), 1, at_most=True),
                      Verdict(f"{system}: distinct with log-probabilities",
                              metrics.median(ASKS, system, "distinct_with_logprobs"), 1, at_most=True)]
    return found


def exit_code(metrics):
    return 1 if any(verdict.met is False for verdict in verdicts(metrics)) else 0


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    text += report.section("Answers", report.system_table(metrics, ASKS, COLUMNS))
    if metrics.median(ASKS, ENGINE, "chunked") == 0 or metrics.median(ASKS, ENGINE, "preempted") == 0:
        text += "\nWithout chunks and preemptions of the asks the run in process proves little: ask more.\n"
    for system in metrics.systems(ROUNDS):
        names = metrics.unique("metric", part=ROUNDS, system=system)
        rows = [[x] + [next((r["value"] for r in metrics.rows if (r["part"], r["system"], r["x"], r["metric"]) ==
                             (ROUNDS, system, x, name)), "") for name in names]
                for x in metrics.unique("x", part=ROUNDS, system=system)]
        heads = ["distinct so far" if name == "distinct" else name for name in names]
        text += report.section(f"The engines of {system}", report.table(["engine", *heads], rows))
    return text


def draw(axes, metrics):
    """Each system's answers as one bar, with a piece for each output."""
    systems = metrics.systems(ASKS)
    for at, system in enumerate(systems):
        counts = [metrics.median(ASKS, system, "count", x) for x in metrics.xs(ASKS, "count")]
        counts = [count for count in counts if count]
        left = 0.0
        for i, count in enumerate(counts):
            share = 100 * count / sum(counts)
            axes[0].barh(at, share, left=left, edgecolor="white", linewidth=0.3,
                         color=plot.COLOURS[0] if i == 0 else ("#8a94a0", "#c3c9d0")[i % 2])
            left += share
        axes[0].text(101, at, f"{len(counts)} of {sum(counts):.0f}", va="center", fontsize=7)
    axes[0].set_yticks(range(len(systems)), systems, fontsize=7)
    axes[0].invert_yaxis()
    axes[0].set_xlim(0, 130)
    axes[0].set_title("% of the answers; each piece is one output")
