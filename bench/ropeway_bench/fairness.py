"""Tenants that ask for more than there is: fair shares against first come, first served.

Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
import contextlib
import csv
import dataclasses
import secrets
import tempfile

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict, few
from ropeway_bench.service import Trail, fair_share, service_gap, steady_rate
from ropeway_bench.suite import real, timing, whole

TITLE = "Fair shares of tenants"
FAIR, FCFS = "priority+fair", "fcfs"
CAPACITY, MEASURED, SIMULATED = "capacity", "measured", "simulated"
LIGHT, HEAVY = "light", "heavy"
INPUT, OUTPUT = 1, 2  # Work of a token.
MOST_CLIENTS = 1000
LEAST_SAMPLE = 16  # Requests that the capacity is measured with.
ENOUGH_PAIRS = 7

COLUMNS = [Column("requests", "requests"), Column("work offered", "offered_work"), *report.TTFT_S,
           Column("latency p50 s", "latency_p50_s", 1, 2), Column("tokens/s", "tok_per_s", 1, 1),
           Column("work/s while requests arrive", "work_per_s", 1, 1), Column("service gap", "service_gap"),
           Column("bound", "gap_bound"), Column("windows of +- s", "gap_half_window_s", 1, 1),
           Column("arrivals s", "arrivals_s", 1, 1), Column("wall s", "wall_s", 1, 1),
           Column("preemptions", "preemptions"), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--trace", metavar="FILE", default="",
                        help="CSV with arrival_s, client, input_tokens, output_tokens (the Arena trace of VTC)")
    parser.add_argument("--part", choices=("measured", "simulated", "all"), default="all",
                        help="measured: on servers; simulated: the same scheduler in virtual time")
    parser.add_argument("--load", type=real(0.01, 100), default=1.25,
                        help="offered work over the capacity that is measured first: time is compressed to that")
    parser.add_argument("--slots", type=whole(1, 1000), default=16, help="the servers' --max-num-seqs")
    parser.add_argument("--length-divisor", type=whole(1, 1000), default=6,
                        help="the trace's prompts and answers are so many times as long as those that servers get")
    parser.add_argument("--requests", type=whole(0, 1000000), default=0, help="the trace's first ones; 0: all")
    parser.add_argument("--pairs", type=whole(1, 1000), default=ENOUGH_PAIRS, help="alternated pairs of runs a round")
    parser.add_argument("--capacity-part", type=whole(1, 1000), default=8,
                        help="one request in so many measures the capacity")
    parser.add_argument("--half-window", type=real(0.01, 3600), default=30.0,
                        help="service is compared over windows of so many seconds before and after each second")


def make_quick(args):
    args.pairs, args.length_divisor = 1, 2 * args.length_divisor


@dataclasses.dataclass
class Case:
    """A trace at one compression of time. `light`: of each client, whether it asks for no more than its fair share."""
    requests: list
    light: list
    slots: int
    half_window: float

    def bound(self):
        """VTC's bound of the service gap (theorem 4.4)."""
        prompt = max(r.input_tokens for r in self.requests)
        whole_request = max(r.input_tokens + r.output_tokens for r in self.requests)
        return 2 * max(INPUT * prompt, OUTPUT * self.slots * whole_request)


def work(requests):
    return sum(INPUT * r.input_tokens + OUTPUT * r.output_tokens for r in requests)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: fairness starts servers with API keys of its own")
    if not suite.args.trace:
        raise BenchError("--trace: a file is needed")
    read_trace(suite.args, 1)


def read_trace(args, divisor):
    """The requests of the trace, with arrivals from 0 on, clients 0, 1, ... and lengths divided."""
    requests, clients = [], {}
    try:
        with open(args.trace, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                client = clients.setdefault(row["client"], len(clients))
                lengths = [-(-int(row[name]) // divisor) for name in ("input_tokens", "output_tokens")]
                requests.append(load.Request(*map(lambda n: max(1, n), lengths), float(row["arrival_s"]), client=client))
                if len(requests) == args.requests:
                    break
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BenchError(f"--trace: {args.trace} is no trace of tenants: {error}") from error
    if not 1 < len(clients) <= MOST_CLIENTS or requests[-1].arrival <= requests[0].arrival:
        raise BenchError(f"--trace: it must have requests of 2 to {MOST_CLIENTS} clients at several times")
    return requests


def make_case(args, requests, capacity):
    """(Case, factor): arrivals are multiplied by the factor, so that the offered work is --load times `capacity`."""
    offered = work(requests)
    factor = offered / capacity / args.load / (requests[-1].arrival - requests[0].arrival)
    due = [dataclasses.replace(r, arrival=r.arrival * factor) for r in requests]
    demands = [0.0] * (1 + max(r.client for r in requests))
    for r in requests:
        demands[r.client] += work([r])
    level = fair_share(demands, offered / args.load)
    span = due[-1].arrival - due[0].arrival
    return Case(due, [d <= level for d in demands], args.slots, min(args.half_window, span / 4)), factor


def load_text(args, case, factor, divisor):
    return (f"{len(case.requests)} requests of {len(case.light)} clients, {sum(case.light)} of them light (within a "
            f"max-min fair share); lengths / {divisor}; arrivals times {factor:.4f}: {args.load:g} times the capacity in "
            "work (1 x prompt + 2 x output tokens)")


@contextlib.contextmanager
def api_keys(count):
    """(file for --api-keys, keys) for as many tenants."""
    keys = [secrets.token_hex(16) for _ in range(count)]
    with tempfile.NamedTemporaryFile("w", prefix="ropeway-bench-keys-", suffix=".toml") as file:
        file.writelines(f'[[keys]]\nname = "client-{i}"\nkey = "{key}"\n' for i, key in enumerate(keys))
        file.flush()
        yield file.name, keys


def measure(suite):
    if suite.args.part != "simulated":
        requests = read_trace(suite.args, suite.args.length_divisor)
        with api_keys(1 + max(r.client for r in requests)) as (path, keys):
            measure_servers(suite, requests, path, keys)
    if suite.args.part != "measured":
        simulate(suite, read_trace(suite.args, 1))


def measure_servers(suite, requests, path, keys):
    args = suite.args

    def start(policy):
        return suite.ropeway("--policy", policy, "--max-num-seqs", args.slots, *servers.QUEUE_ALL, "--api-keys", path,
                             key=keys[0])

    capacity = 0.0
    part = max(1, min(args.capacity_part, len(requests) // LEAST_SAMPLE))
    sample = [dataclasses.replace(r, arrival=None) for r in requests[::part]]
    for where in suite.measuring(CAPACITY, FAIR):
        with start(FAIR) as server, timing(where):
            run = suite.put(server, suite.load(sample, users=2 * args.slots, keys=keys, seed=args.seed * 1000))
        capacity = steady_rate(run.records, INPUT, OUTPUT)
        load.add_load(suite.metrics, where, run)
        suite.metrics.add(where, work_per_s=capacity, command=server.command,
                          load=f"one request in {part}, {2 * args.slots} in flight: {capacity:.1f} units of work per second")
    if not capacity:
        raise BenchError(f"--system: the capacity is measured with {FAIR}")
    case, factor = make_case(args, requests, capacity)
    for pair in range(args.pairs):  # In turns, so that what changes over minutes meets both alike.
        for policy in (FAIR, FCFS) if pair % 2 == 0 else (FCFS, FAIR):
            for where in suite.measuring(MEASURED, policy):
                with start(policy) as server:
                    before = server.page()
                    with timing(where):
                        run = suite.put(server, suite.load(case.requests, keys=keys, timeout=max(args.timeout, 3600)))
                    suite.metrics.add(where, **servers.scheduler_metrics(server, before))
                add_fairness(suite.metrics, where, run.records, case)
                suite.metrics.add(where, generator_cpu_share=run.cpu_share, command=server.command,
                                  load=load_text(args, case, factor, args.length_divisor))


def replay(suite, requests, policy):
    """The records of the requests in the real scheduler, in virtual time."""
    lines = [{"arrival": r.arrival, "input_tokens": r.input_tokens, "output_tokens": r.output_tokens,
              "tenant": str(r.client)} for r in requests]
    return suite.replay(lines, "--policy", policy, "--max-num-seqs", suite.args.slots, "--prefix-caching",
                        "off")[0].records


def simulate(suite, requests):
    """In virtual time. The device's capacity is found with everything there at once."""
    args = suite.args
    at_once = [dataclasses.replace(r, arrival=0.0) for r in requests]
    end = max(r.end for r in replay(suite, at_once, FCFS))
    case, factor = make_case(args, requests, work(requests) / end)
    for policy in (FAIR, FCFS):
        for where in suite.measuring(SIMULATED, policy, virtual=True):
            add_fairness(suite.metrics, where, replay(suite, case.requests, policy), case)
            suite.metrics.add(where, load=load_text(args, case, factor, 1))


def add_fairness(metrics, where, records, case):
    last, end = max(r.due for r in records), max(r.end for r in records)
    windows, gap = service_gap(records, [r.client for r in case.requests], case.half_window, INPUT, OUTPUT)
    busy = Trail(records, INPUT, OUTPUT).between(last / 10, last)
    metrics.add(where, requests=len(records), offered_work=work(case.requests), arrivals_s=last, wall_s=end,
                tok_per_s=ratio(sum(r.input_tokens + r.output_tokens for r in records), end),
                work_per_s=ratio(busy, last - last / 10), ttft_max_s=max(r.ttft or 0 for r in records),
                gap_windows=windows, gap_half_window_s=case.half_window, gap_bound=case.bound(),
                service_gap=gap if windows else None)
    groups = {LIGHT: [], HEAVY: []} | {f"client {client}": [] for client in range(len(case.light))}
    for request, record in zip(case.requests, records):
        groups[LIGHT if case.light[request.client] else HEAVY].append((request, record))
        groups[f"client {request.client}"].append((request, record))
    for name, members in groups.items():
        if members:
            metrics.add(where.at(name), offered_work=work(request for request, _ in members))
            load.add_times(metrics, where.at(name), [record for _, record in members])


def light_ttft(metrics, part, metric, words):
    fcfs, fair = (metrics.median(part, policy, metric, LIGHT) for policy in (FCFS, FAIR))
    count = metrics.median(part, FAIR, "requests", LIGHT)
    return Verdict(f"{part}: light clients' {words} TTFT, fcfs over fair", ratio(fcfs, fair), 10,
                   report.shown("{:.3f} / {:.3f} s, {:.0f} requests" + few(count), fcfs, fair, count))


def throughput(metrics, part, target):
    """The ratio of the medians over the rounds."""
    fair, fcfs = (metrics.median(part, policy, "tok_per_s") for policy in (FAIR, FCFS))
    rounds = range(1, metrics.rounds(part, FAIR) + 1)
    pairs = [ratio(*(next(iter(metrics.values(part, policy, "tok_per_s", "", i)), None) for policy in (FAIR, FCFS)))
             for i in rounds]
    pairs = [pair for pair in pairs if pair is not None]
    of = report.shown("medians {:.1f} / {:.1f}", fair, fcfs)
    if pairs:
        of += f"; {len(pairs)} pair{'' if len(pairs) == 1 else 's'}, from {min(pairs):.4f} to {max(pairs):.4f}"
        if part == MEASURED and len(pairs) < ENOUGH_PAIRS:
            of += f" (fewer than {ENOUGH_PAIRS} pairs)"
    return Verdict(f"{part}: tokens/s, fair over fcfs", ratio(fair, fcfs), target, of)


def gap_verdict(metrics, part):
    gap, bound, windows = (metrics.median(part, FAIR, m) for m in ("service_gap", "gap_bound", "gap_windows"))
    of = report.shown("{:.0f} / {:.0f} units, {:.0f} windows", gap, bound, windows)
    if of:
        of += report.shown("; fcfs {:.0f}", metrics.median(part, FCFS, "service_gap"))
    return Verdict(f"{part}: largest service gap over VTC's bound", ratio(gap, bound), 1, of, at_most=True)


def verdicts(metrics):
    found = []
    for part, target in ((MEASURED, 0.97), (SIMULATED, 0.99)):
        if metrics.systems(part):
            found += [light_ttft(metrics, part, "ttft_p50_s", "median"), light_ttft(metrics, part, "ttft_p90_s", "p90"),
                      throughput(metrics, part, target), gap_verdict(metrics, part)]
    return found


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    for part in (MEASURED, SIMULATED):
        table = report.system_table(metrics, part, COLUMNS)
        clients = report.x_table(metrics, part, "clients", COLUMNS)
        text += report.section(part, table and f"{table}\nBy clients:\n\n{clients}")
    return text + report.FEW_SAMPLES_NOTE


def draw(axes, metrics):
    for axis, part in ((axes[0], MEASURED), (axes[1], SIMULATED)):
        clients = [x for x in metrics.xs(part, "ttft_p50_s") if x.startswith("client")]
        clients.sort(key=lambda x, part=part: metrics.median(part, FAIR, "offered_work", x) or 0)
        curves = {policy: [(i, value) for i, value in enumerate(metrics.median(part, policy, "ttft_p50_s", x)
                                                                for x in clients) if value]
                  for policy in (FAIR, FCFS)}
        plot.lines(axis, curves, f"{part}: each client's median TTFT, s", "clients, by the work that they ask for", None)
        axis.set_yscale("log")
    plot.metric_bars(axes[2], metrics, MEASURED, "tok_per_s", "measured: tokens/s")
    plot.metric_bars(axes[3], metrics, MEASURED, "service_gap", "measured: largest service gap")
