"""Ropeway beside its peers: what the benchmarks http, engine and steps share. A piece is one system in one round."""
import dataclasses
import statistics

from ropeway_bench import plot, report
from ropeway_bench.metrics import ABOUT, Where, ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import ATTEMPTS, real, timing

OURS = "ropeway"
MAX_BARRIER_RATIO = 3.0
# A step has some 200 barriers, so at this length they take about 1 % of a step of 20 ms, wherever the threads are.
NEGLIGIBLE_BARRIER_NS = 1000
BARRIER = Column("barrier ns", "barrier_ns")


@dataclasses.dataclass(frozen=True)
class Target:
    """Ropeway's metric over that of the best of some peers: at least `target`, or at most, where less is better."""
    title: str
    x: int
    metric: str
    peers: tuple
    target: float
    halved: bool = False  # With AVX2 alone half as much is expected: with 8 or more rows, and in prefill.
    less: bool = False

    def wanted(self, isa):
        if isa == "avx512vnni" or not self.halved:
            return self.target
        return self.target * 2 if self.less else self.target / 2


def add_flags(parser):
    parser.add_argument("--llama-batched-bench", metavar="PROGRAM", default="", help="llama.cpp's engine (engine)")
    parser.add_argument("--openvino", action="store_true", help="measure OpenVINO GenAI too (engine)")
    parser.add_argument("--q4-0-model", metavar="FILE", default="",
                        help="the same model in Q4_0, llama.cpp's fastest type, which its programs run too")
    parser.add_argument("--llama-version", metavar="TEXT", default="", help="of llama.cpp's source, for the report")
    parser.add_argument("--max-barrier-ratio", type=real(1, 1e9), default=MAX_BARRIER_RATIO,
                        help="measure pieces anew whose barrier takes longer than so many times the round's shortest: "
                        "the host had placed their threads otherwise")


def make_quick(args):
    args.llama_server = args.llama_batched_bench = ""
    args.openvino = False


def prepare(suite):
    if suite.args.llama_version:
        suite.metrics.add(Where(ABOUT), version=f"llama.cpp's source: {suite.args.llama_version}")


def barrier_ns(suite):
    """The time of a barrier of the compute threads just now: it tells where the host placed them."""
    return float(suite.worker("steps", "--barrier", "--threads", suite.threads).split()[0])


def unequal(metrics, part, number, most_ratio):
    """{system: its longest barrier, ns} of the pieces of a round with a barrier longer than `most_ratio` times the
    round's shortest, and not negligible."""
    found = {}
    for row in metrics.rows:
        if (row["part"], row["round"], row["metric"]) == (part, number, "barrier_ns"):
            found.setdefault(row["system"], []).append(float(row["value"]))
    least = max(NEGLIGIBLE_BARRIER_NS / most_ratio, min(map(min, found.values()), default=1))
    return {system: max(values) for system, values in found.items() if max(values) > most_ratio * least}


def measure(suite, part, pieces):
    """One round. `pieces`: {system: function(where) that adds the metrics of its piece}, one after the other. Those whose
    barriers are not of the same size are measured anew, twice at most, and never kept."""
    number = max(suite.metrics.unique("round", part=part), default=0) + 1
    waiting = list(pieces)
    for _ in range(ATTEMPTS):
        for system in waiting:
            for where in suite.measuring(part, system, number):
                with timing(where):
                    pieces[system](where)
        waiting = []
        for system, ns in unequal(suite.metrics, part, number, suite.args.max_barrier_ratio).items():
            suite.drop(Where(part, system, number), f"a barrier took {ns:.0f} ns, more than "
                       f"{suite.args.max_barrier_ratio:g} times the round's shortest")
            waiting.append(system)
    suite.missing += [str(Where(part, system, number)) for system in waiting]


def placement_text(metrics, part):
    """The range of all barriers, what others took at most, and which pieces were not measured at one placement."""
    barriers, others = ([float(r["value"]) for r in metrics.rows if (r["part"], r["metric"]) == (part, metric)]
                        for metric in ("barrier_ns", "others_cpu_share"))
    if not barriers:
        return ""
    text = (f"- medians of the rounds, systems alternating; barrier {min(barriers):.0f} to {max(barriers):.0f} ns, median "
            f"{statistics.median(barriers):.0f}; other processes took at most {100 * max(others):.1f} % of the CPUs\n")
    for number in metrics.unique("round", part=part):
        for system, ns in unequal(metrics, part, number, MAX_BARRIER_RATIO).items():
            text += (f"- measured at another placement: {Where(part, system, number)}: a barrier took {ns:.0f} ns, more "
                     f"than {MAX_BARRIER_RATIO:g} times the round's shortest\n")
    return text + "\n"


def rounds_text(metrics, part, **of):
    """The systems that have metrics of this kind, each with the number of its rounds."""
    return ", ".join(f"{system} ({len(metrics.unique('round', part=part, system=system))})"
                     for system in metrics.systems(part, **of))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The report of a part whose x is a number of `unit`; its methods are a benchmark's functions."""
    part: str
    unit: str
    columns: list
    targets: tuple
    bars: dict  # {metric: title} of the plots.

    def verdicts(self, metrics):
        """One for each target for which Ropeway has values."""
        isas = metrics.unique("value", part=ABOUT, metric="isa")
        if len(isas) > 1:
            return []  # The targets are of one instruction set.
        isa = next(iter(isas), "")
        found = []
        for target in self.targets:
            ours, *values = (metrics.median(self.part, system, target.metric, target.x)
                             for system in (OURS, *target.peers))
            if ours is None:
                continue
            best = (min if target.less else max)((v for v in values if v is not None), default=None)
            form, unit = ("{:.3f}", "s") if target.less else ("{:.0f}" if ours >= 10 else "{:.1f}", "tok/s")
            of = f"{form.format(ours)}{report.shown(f' / {form}', best)} {unit}"
            missing = ", ".join(peer for peer, value in zip(target.peers, values) if value is None)
            found.append(Verdict(target.title, ratio(ours, best), target.wanted(isa), of, target.less, missing))
        return found

    def what_ran(self, metrics):
        """A sentence: the rounds of each system, the peers that are missing, and how many targets are met."""
        found = self.verdicts(metrics)
        missing = ", ".join(dict.fromkeys(v.missing for v in found if v.missing))
        counts = [(sum(v.met is met for v in found), word)
                  for met, word in ((True, "met"), (False, "missed"), (None, "without a verdict"))]
        return (f"In the checked-in run, with the rounds of each: {rounds_text(metrics, self.part)}. " + (f"Not run: {missing}. " if missing else "")
                + f"Of {len(found)} targets {', '.join(f'{count} {word}' for count, word in counts if count)}.\n")

    def embeds(self, metrics):
        """The tables that docs/performance.md shows."""
        table = report.verdict_table(self.verdicts(metrics))
        return {self.part: report.with_legend(table), f"{self.part}-ran": self.what_ran(metrics)}

    def report_text(self, metrics, _args=None):
        loads = metrics.unique("value", part=self.part, metric="load")
        text = f"- load: `{loads[0]}`; the seed is another one each round\n" if loads else ""
        return (text + placement_text(metrics, self.part) + report.verdict_table(self.verdicts(metrics)) + "\n"
                + report.x_table(metrics, self.part, self.unit, self.columns) + "\n"
                + report.system_table(metrics, self.part, report.OTHERS[:1]))

    def draw(self, axes, metrics):
        for axis, (metric, title) in zip(axes, self.bars.items()):
            plot.bars(axis, {f"{x} {self.unit if x > 1 else self.unit[:-1]}, {system}":
                             metrics.median(self.part, system, metric, x)
                             for x in sorted(map(int, metrics.xs(self.part, metric)))
                             for system in metrics.systems(self.part)}, title, ours=OURS)
