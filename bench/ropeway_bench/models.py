"""Models of the sizes that people have: `ropeway serve` beside llama-server at its best settings, and OpenVINO GenAI
where it takes the file.

The small one is Gemma 3 270M itself, which `ropeway models pull` fetches; the others have the shapes of known models
and random weights (bench/make_model.py), since speed needs no true ones. A piece is one system with one model: it
starts the server for so many users, warms it up, and measures a closed loop: random prompts, streamed, greedy, end
tokens ignored. Run it on a machine that should do nothing else, with 12 GB of memory for the largest and of disk for
all.
"""
import dataclasses
import functools
import pathlib
import statistics
import subprocess

from ropeway_bench import BenchError, engine, http, load, metrics as rows, model_shapes, peers, plot, report, servers
from ropeway_bench.metrics import ABOUT, Where
from ropeway_bench.peers import Target
from ropeway_bench.report import Column
from ropeway_bench.suite import ROOT, counts, output_of

TITLE = "Models of the sizes that people have"
PANELS = 2
NEEDS_MODEL = False
RATE, PREFILL = http.RATE, engine.PREFILL
LLAMA = ("llama-server", "llama-server -kvu")
OPENVINO = engine.OPENVINO
MANY = 16
SPARE_TOKENS = 64     # Of a slot of llama-server.
PATIENCE = 900        # Seconds until a server is ready: 8 GB come from the disk.
LEAST_TIMEOUT = 1800  # Seconds for one answer: 16 users of 8 billion parameters wait long.
ALONE_REQUESTS = 2    # Of one user.
GEMMA = "gemma3-270m"


def targets(many=None, one=None, prefill=None):
    """Ropeway's output tokens/s of 16 users and of one, and prefill of one, over llama-server's."""
    wanted = ((many, f"{MANY} users: output tokens/s", MANY, RATE, LLAMA, True),
              (one, "1 user: output tokens/s", 1, RATE, LLAMA[:1], False),
              (prefill, "1 user: prefill tokens/s", 1, PREFILL, LLAMA[:1], True))
    return tuple(Target(f"{what} over llama-server's, same file", x, metric, systems, target, halved=halved)
                 for target, what, x, metric, systems, halved in wanted if target)


@dataclasses.dataclass(frozen=True)
class Case:
    """A model file and its load. `tokens`: in and out of each request; `requests`: of many users, so few that a round
    of one model takes about five minutes."""
    model: str  # Of model_shapes.SHAPES, or GEMMA.
    mixture: str = "Q4_K_M"
    tokens: tuple = (512, 128)
    requests: int = MANY
    targets: tuple = ()
    openvino: bool = True

    @property
    def name(self):
        return f"{self.model} {self.mixture}"

    @property
    def layers(self):
        return model_shapes.SHAPES[self.model].layers if self.model in model_shapes.SHAPES else 0


CASES = (Case(GEMMA, requests=2 * MANY, targets=targets(3, 1.1)),
         Case("llama-3.2-1b", targets=targets(3, 1.1)),
         Case("llama-3.2-1b", "Q8_0"),
         Case("qwen3-4b", tokens=(128, 64)),
         Case("qwen3-4b", "Q8_0", tokens=(128, 64)),
         Case("llama-3.1-8b", tokens=(128, 32), targets=targets(2, 1.0, 1.5), openvino=False),
         Case("llama-3.1-8b", "Q8_0", tokens=(128, 32), openvino=False),
         Case("qwen3-moe", targets=targets(many=1.2, prefill=2), openvino=False),
         Case("qwen3-moe", "Q8_0", openvino=False))
USUAL = tuple(case.name for case in CASES if case.mixture == "Q4_K_M") + ("llama-3.2-1b Q8_0",)

COLUMNS = [Column("output tok/s", RATE, 1, 1), Column("prefill tok/s", PREFILL, 1, 1),
           Column("TTFT p50 s", "ttft_p50_s", 1, 3), Column("TTFT p99 s", "ttft_p99_s", 1, 3),
           Column("ITL p50 ms", "itl_p50_s", 1e3, 1), Column("peak RSS MB", "peak_rss_mb"),
           Column("experts read per layer and step", "experts_per_layer", 1, 1), Column("tokens in", "prompt_tokens"),
           Column("tokens out", "output_tokens"), report.OTHERS[1], peers.BARRIER]
BARS = {RATE: "output tokens/s"}


def comparison(case):
    return peers.Comparison(case.name, "users", COLUMNS, case.targets, BARS)


def add_flags(parser):
    peers.add_flags(parser)
    parser.add_argument("--users", type=counts(10000), default=[1, MANY], help="closed loops of so many")
    parser.add_argument("--only", metavar="NAME", action="append", default=[],
                        choices=["all", *(case.name for case in CASES)],
                        help=f"only this model; may be repeated (default: {', '.join(USUAL)}; all: those in Q8_0 too)")
    parser.add_argument("--shapes", metavar="FOLDER", type=pathlib.Path, default=model_shapes.default_folder(),
                        help="where the files with random weights are, and are made")
    parser.add_argument("--vocabularies", metavar="FOLDER", type=pathlib.Path,
                        help="of vocabulary-only files (default: of llama.cpp's source, fetched where it is missing)")


def make_quick(args):
    peers.make_quick(args)
    args.only = args.only or [CASES[0].name]


def chosen(args):
    names = USUAL if not args.only else tuple(case.name for case in CASES) if "all" in args.only else args.only
    return [case for case in CASES if case.name in names]


def prepare(suite):
    """Fetches or makes the files, before anything is measured."""
    if suite.args.base_url:
        raise BenchError("--base-url: models starts servers of its own")
    peers.prepare(suite)
    if suite.args.openvino:
        suite.metrics.add(Where(ABOUT), version=servers.version_of(*engine.openvino_command()))
    suite.args.timeout = max(suite.args.timeout, LEAST_TIMEOUT)
    suite.files = {case.name: file_of(suite, case) for case in chosen(suite.args)}


def file_of(suite, case):
    if case.model == GEMMA:
        return output_of(suite.program, "models", "pull", GEMMA).strip()
    return model_shapes.file_of(case.model, case.mixture, suite.args.shapes, lambda: vocabularies(suite.args))


def vocabularies(args):
    return args.vocabularies or pathlib.Path(output_of(ROOT / "scripts" / "fetch_llama_source.sh").strip()) / "models"


def measure(suite):
    users = suite.args.users
    for case in chosen(suite.args):
        path = suite.files[case.name]
        ours = functools.partial(suite.ropeway, *servers.QUEUE_ALL, model=path, patience=PATIENCE)
        pieces = {peers.OURS: functools.partial(measure_server, suite, case, lambda _, ours=ours: ours(), users)}
        if suite.has_llama:
            start = functools.partial(start_llama, suite, case, path)
            pieces[LLAMA[0]] = functools.partial(measure_server, suite, case, functools.partial(start, ()), users)
            if many := [count for count in users if count > 1]:  # One slot has a buffer of its own with either.
                pieces[LLAMA[1]] = functools.partial(measure_server, suite, case, functools.partial(start, ("-kvu",)),
                                                     many)
        if suite.args.openvino and case.openvino:
            pieces[OPENVINO] = functools.partial(measure_openvino, suite, case, path)
        peers.measure(suite, case.name, pieces)


def start_llama(suite, case, path, flags, users):
    """With as many slots as there are users. It repacks the weights as it likes best unless it is told otherwise."""
    return suite.llama(users, sum(case.tokens) + SPARE_TOKENS, flags=flags, model=path, patience=PATIENCE)


def measure_server(suite, case, start, users_counts, where):
    """`start(users)`: a server for so many."""
    commands = []
    for users in reversed(users_counts):
        with start(users) as server:
            http.put_load(suite, server, 1, 1, 900 + where.round, (32, 4))  # Warms up.
            measure_loop(suite, case, server, users, where)
            commands.append(server.command)
    suite.metrics.add(where, command="` and `".join(dict.fromkeys(commands)))


def measure_loop(suite, case, server, users, where):
    requests = case.requests if users > 1 else ALONE_REQUESTS
    seed = where.round * 100 + users
    at = where.at(users)
    suite.metrics.add(at, barrier_ns=peers.barrier_ns(suite),
                      load=f"{users} in flight, {requests} requests of {case.tokens[0]} tokens in and {case.tokens[1]} "
                           f"out, seed {seed}")
    before = server.page()
    run = http.put_load(suite, server, users, requests, seed, case.tokens)
    load.add_load(suite.metrics, at, run)
    after = server.page()
    suite.metrics.add(at, peak_rss_mb=server.peak_rss_mb(), experts_per_layer=experts_per_layer(case, before, after))
    if users == 1:
        suite.metrics.add(at, **{PREFILL: statistics.median(r.input_tokens / r.ttft for r in run.records)})


def experts_per_layer(case, before, after):
    """How many experts' weights a step reads in a layer; None if the model has none, or the server does not tell."""
    read = after.grown(before, "ropeway_experts_read_total")
    steps = after.grown(before, "ropeway_step_time_seconds_count")
    return read / steps / case.layers if read and steps and case.layers else None


def measure_openvino(suite, case, path, where):
    """All prompts of a loop at once. Only of one user is the first token timed, which takes a run of its own. What it
    says of a file that it does not take is kept instead."""
    barrier = peers.barrier_ns(suite)
    command = [*engine.openvino_command(), "--model", path, "--threads", suite.threads, "--input-tokens",
               case.tokens[0], "--output-tokens", case.tokens[1], "--sequences", ",".join(map(str, suite.args.users)),
               "--runs", 1, "--warm-up", 1, "--first-tokens-of", 1, "--seed", where.round]
    suite.metrics.add(where, command=servers.command_text(command))
    try:
        reply = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                               timeout=suite.args.timeout)
    except subprocess.TimeoutExpired:
        suite.metrics.add(where, refused=f"no answer within {suite.args.timeout:.0f} s")
        return
    if reply.returncode:
        last = (reply.stderr.strip().splitlines() or [f"exit code {reply.returncode}"])[-1]
        suite.metrics.add(where, refused=last[:200])
        return
    for users, values in parse_openvino(reply.stdout).items():
        suite.metrics.add(where.at(users), barrier_ns=barrier, **values)


def parse_openvino(text):
    """{users: metrics} of what openvino_engine.py prints. What answers of one token take is the time to the first."""
    found = {}
    for _, _, of, cell in rows.cells(text[text.find("part,system,"):]):
        values = {name: float(value) for name, value in cell.items()}
        users = int(of["x"])
        found[users] = {"prompt_tokens": values["input_tokens"], "output_tokens": values["output_tokens"],
                        RATE: values["output_tokens"] / values["all_tokens_s"], "peak_rss_mb": values["peak_rss_mb"]}
        if first := values.get("one_token_s"):
            found[users] |= {"ttft_p50_s": first, PREFILL: values["input_tokens"] / first}
    return found


# The report.


def measured(metrics):
    """The cases of which there are metrics."""
    return [case for case in CASES if metrics.systems(case.name)]


def verdicts(metrics):
    return [dataclasses.replace(verdict, title=f"{case.name}, {verdict.title}")
            for case in measured(metrics) for verdict in comparison(case).verdicts(metrics)]


def loads_text(metrics, case):
    """What was asked of the systems, and why one of them was not measured."""
    text = "".join(f"- load: {what}; the seed is another one each round\n"
                   for what in metrics.unique("value", part=case.name, system=peers.OURS, round=1, metric="load"))
    return text + "".join(f"- {system} does not take the file: {metrics.text(case.name, system, 'refused')}\n"
                          for system in metrics.systems(case.name, metric="refused"))


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    for case in measured(metrics):
        text += report.section(case.name, loads_text(metrics, case) + peers.placement_text(metrics, case.name)
                               + report.x_table(metrics, case.name, "users", COLUMNS))
    return text


def embeds(metrics):
    return {"models": report.with_legend(report.verdict_table(verdicts(metrics))), "models-ran": what_ran(metrics)}


def what_ran(metrics):
    """A sentence: how many rounds of each model and system there are."""
    ran = "; ".join(f"{case.name}: {peers.rounds_text(metrics, case.name, metric=RATE)}" for case in measured(metrics))
    return f"In the checked-in run, with the rounds of each: {ran}.\n"


def draw(axes, metrics):
    for axis, users in zip(axes, (MANY, 1)):
        plot.bars(axis, {f"{case.name}, {system}": metrics.median(case.name, system, RATE, users)
                         for case in measured(metrics) for system in metrics.systems(case.name)},
                  f"output tokens/s, {users} user{'s' if users > 1 else ''}", ours=peers.OURS)
