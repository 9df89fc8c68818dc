"""Metrics as Markdown: what was measured where, verdicts against targets, tables."""
import dataclasses
import pathlib
import re

from ropeway_bench.metrics import ABOUT

ENOUGH_SAMPLES = 200
FEW_SAMPLES_NOTE = f"\n\\* of fewer than {ENOUGH_SAMPLES} samples\n"
FEW = " *"
LOWER = " ↓"  # Marks what is better when lower.
LOWER_METRICS = re.compile(
    r"(ttft|itl|tpot|latency)_(p\d+|max)_s|(wall|prefill|decode|drain|settle|mean_step)_s|failed|rejected|preemptions"
    r"|(recomputed|prefilled)_tokens|in_flight|service_gap|texts_different|distinct(_with_logprobs)?"
    r"|largest_logprob_difference|\w+_cpu_share|service_share\w*|peak_rss_mb|barrier_ns")
PAGES = ("docs/performance.md",)  # They show tables of results.


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of medians: value * factor with `decimals` digits. With `samples`, the metric that
    counts them, a value of few samples is marked with a star."""
    title: str
    metric: str
    factor: float = 1
    decimals: int = 0
    samples: str = ""

    @property
    def heading(self):
        return self.title + (LOWER if LOWER_METRICS.fullmatch(self.metric) else "")


OTHERS = [Column("others % of CPUs", "others_cpu_share", 100, 1),
          Column("generator % of CPUs", "generator_cpu_share", 100, 2)]
LONGEST_WAIT = Column("longest wait s", "ttft_max_s", 1, 3)
TTFT_S, TTFT_MS = ([Column(f"TTFT p{p} {unit}", f"ttft_p{p}_s", factor, decimals, "requests" if p == 99 else "")
                    for p in (50, 90, 99)] + [LONGEST_WAIT] for unit, factor, decimals in (("s", 1, 3), ("ms", 1000, 1)))
ITL = [Column("ITL p50 ms", "itl_p50_s", 1000, 1), Column("ITL p99 ms", "itl_p99_s", 1000, 1, "itl_samples")]
LATENCY = [Column("latency p50 s", "latency_p50_s", 1, 3), Column("latency p99 s", "latency_p99_s", 1, 3, "requests")]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A target and what was measured (None: nothing). `of`: the values it was computed from; `missing`: those that
    were to be compared and were not measured, so that there is no verdict."""
    title: str
    measured: float
    target: float
    of: str = ""
    at_most: bool = False
    missing: str = ""

    @property
    def met(self):
        if self.measured is None or self.missing:
            return None
        return self.measured <= self.target if self.at_most else self.measured >= self.target

    @property
    def word(self):
        return f"missing: {self.missing}" if self.missing else {None: "", True: "met", False: "missed"}[self.met]

    def cells(self):
        return [self.title + (LOWER if self.at_most else ""), f"{'<=' if self.at_most else '>='} {self.target:.4g}",
                "not measured" if self.measured is None else f"{self.measured:.3g}", self.of, self.word]


def few(samples):
    """The mark of a percentile of few samples, or ""."""
    return "" if samples is not None and samples >= ENOUGH_SAMPLES else FEW


def shown(form, *values):
    """`form` filled with the values; "" if one is missing."""
    return "" if None in values else form.format(*values)


def table(head, rows):
    """A Markdown table with columns as wide as their cells; "" without rows."""
    if not rows:
        return ""
    widths = [max(3, *(len(row[i]) for row in [head, *rows])) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |\n" for line in lines)


def verdict_table(verdicts):
    return table(["expected", "target", "measured", "of", "verdict"], [v.cells() for v in verdicts])


def head(title, metrics):
    """Title, dates, machines, versions, what was measured anew, and each system's rounds, command and load."""
    lines = [f"# {title}", ""]
    for name, words in (("date", "date"), ("machine", "machine"), ("version", "version"),
                        ("not_kept", "measured anew")):
        lines += [f"- {words}: {value}" for value in metrics.unique("value", part=ABOUT, metric=name)]
    lines.append("-" + LOWER + " marks what is better when lower")
    for part in metrics.parts():
        for system in metrics.systems(part):
            rounds = len(metrics.unique("round", part=part, system=system))
            command, load = (metrics.text(part, system, what) for what in ("command", "load"))
            lines.append(f"- {part}, {system}, {rounds} round{'' if rounds == 1 else 's'}"
                         + (f": `{command}`" if command else "") + (f"; {load}" if load else ""))
    return "\n".join(lines) + "\n\n"


def cell(metrics, part, system, x, column):
    value = metrics.median(part, system, column.metric, x)
    if value is None:
        return ""
    mark = few(metrics.median(part, system, column.samples, x)) if column.samples else ""
    return f"{value * column.factor:.{column.decimals}f}{mark}"


def without_empty(titles, rows, first):
    """Leaves out the columns from `first` on that are empty in all rows."""
    keep = [i for i in range(len(titles)) if i < first or any(row[i] for row in rows)]
    return table([titles[i] for i in keep], [[row[i] for i in keep] for row in rows])


def system_table(metrics, part, columns, names=None):
    """One row per system of the part; columns without any value are left out."""
    rows = [[system] + [cell(metrics, part, system, "", c) for c in columns]
            for system in (names or metrics.systems(part))]
    return without_empty(["system"] + [c.heading for c in columns], rows, 1)


def x_table(metrics, part, name, columns):
    """One row per system and x; `name` is what x is."""
    xs = list(dict.fromkeys(x for c in columns for x in metrics.xs(part, c.metric)))
    rows = [[system, x] + [cell(metrics, part, system, x, c) for c in columns]
            for system in metrics.systems(part) for x in xs]
    rows = [row for row in rows if any(row[2:])]
    return without_empty(["system", name] + [c.heading for c in columns], rows, 2)


def cross_table(metrics, part, name, column):
    """One row per x, one column per system, of one metric."""
    systems = metrics.systems(part)
    rows = [[x] + [cell(metrics, part, system, x, column) for system in systems]
            for x in metrics.xs(part, column.metric)]
    return f"{column.heading}\n\n{table([name, *systems], rows)}" if rows else ""


def part_table(metrics, parts, metric, decimals=1):
    """One row per part, one column per system, of one metric without x."""
    systems = list(dict.fromkeys(s for part in parts for s in metrics.systems(part)))
    column = Column("", metric, decimals=decimals)
    return table(["part", *systems], [[part] + [cell(metrics, part, s, "", column) for s in systems]
                                      for part in parts])


def section(title, text):
    """A heading over `text`; "" if there is no text."""
    return f"\n## {title}\n\n{text}" if text else ""


def with_legend(table):
    """The table, for pages that do not say what the mark means."""
    return table + ("\n↓ lower is better\n" if LOWER in table else "")


def embedded(page, tables):
    """The text of a page with `tables`, {name: text}, between its marks `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`;
    those for which it has no marks are left out."""
    for name, text in tables.items():
        marks = re.compile(rf"(<!-- bench:{name} -->\n).*?(<!-- /bench:{name} -->)", re.DOTALL)
        page = marks.sub(lambda found, text=text: found[1] + text + found[2], page)
    return page


def embed(root, tables):
    """Renews the tables in the pages of a checkout."""
    for page in PAGES:
        path = pathlib.Path(root) / page
        path.write_text(embedded(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
