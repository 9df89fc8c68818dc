"""What this machine can do at most, and what share of it the kernels reach.

Measured by `ropeway-bench kernels`, in the roofline model of Williams, Waterman and Patterson (2009). Run it on a machine
that does nothing else.
"""
import collections
import csv
import statistics

from ropeway_bench import BenchError, plot, report
from ropeway_bench.metrics import ABOUT
from ropeway_bench.suite import real, resolve_model

TITLE = "Kernels and the machine's limits"
PEAK, MATMUL, LM_HEAD, ATTENTION = "peak", "matmul", "lm-head", "attention"
SYSTEM = "kernels"
# A faster sweep than this is no limit of two cores: some host placements have twice the bandwidth.
MOST_BYTES_PER_S = 50e9
QUIET_SPREAD = 0.25  # (max - min) / median of a case's repetitions on a machine that does nothing else.
SWEEP = "the memory sweep"
INT8 = "the int8 peak"
# What a layer's products of a type should reach, together, on AVX-512 VNNI: (type, rows, share, of what).
TARGETS = (("Q4_K", 64, 0.55, INT8), ("Q6_K", 64, 0.4, INT8), ("Q4_K", 1, 0.8, SWEEP), ("Q6_K", 1, 0.8, SWEEP))


def add_flags(parser):
    parser.add_argument("--isa", choices=["reference", "avx2", "avx512vnni"],
                        help="the table of kernels (default: ROPEWAY_ISA, or the best that this CPU can run)")
    parser.add_argument("--only", choices=[MATMUL, ATTENTION, LM_HEAD, "peaks"],
                        help="beside the limits only this; peaks: nothing else")
    parser.add_argument("--rows", metavar="LIST", help="numbers of rows that are multiplied together, such as 1,16,128")
    parser.add_argument("--types", metavar="LIST", help="types of weights in which products of the 1B class are "
                        "measured too, such as Q4_K,Q6_K (the default)")
    parser.add_argument("--kv-cache-dtype", choices=["f16", "q8_0"], default="f16")
    parser.add_argument("--seconds", type=real(0.001, 60), default=0.2, help="for each case, about")


def make_quick(_args):
    """Few and short cases: shows what the output looks like, measures nothing."""


def measure(suite):
    args, metrics = suite.args, suite.metrics
    flags = ["--model", resolve_model(args.model), "--seconds", args.seconds, "--kv-cache-dtype", args.kv_cache_dtype]
    for name in ("isa", "only", "rows", "types"):
        flags += [f"--{name}", getattr(args, name)] if getattr(args, name) else []
    flags += ["--threads", args.threads] if args.threads else []
    flags += ["--quick"] if args.quick else []
    number = max(metrics.unique("round"), default=0) + 1
    text = suite.worker("kernels", "--no-progress", *flags)
    for row in csv.DictReader(text.splitlines()):
        metrics.rows.append(row | {"round": number})
    suite.save()


# The roofline.


class Cell:
    """One case: what varies (`of`) and the medians of its metrics over the rounds."""

    def __init__(self, part, isa, x):
        self.part, self.isa, self.name = part, isa, x
        self.of = dict(word.split("=", 1) for word in x.split("; ")) if x else {}
        self.values = {}

    def __getitem__(self, metric):
        return self.values.get(metric, 0)

    @property
    def seconds(self):
        return self["median_us"] / 1e6

    @property
    def ops(self):
        return self["int8_ops"] + self["f32_ops"]

    @property
    def rows(self):
        return int(self.of["rows"])


def cells_of(metrics):
    """All cases by part, in the order in which they were measured."""
    found, values = {}, collections.defaultdict(list)
    for row in metrics.rows:
        if row["part"] == ABOUT:
            continue
        key = row["part"], row["system"], row["x"]
        found.setdefault(key, Cell(*key))
        if row["metric"] != "dealt":
            values[key, row["metric"]].append(float(row["value"]))
    for (key, metric), numbers in values.items():
        found[key].values[metric] = statistics.median(numbers)
    parts = collections.defaultdict(list)
    for (part, _, _), cell in found.items():
        parts[part].append(cell)
    return parts


def peak(parts, isa, what):
    """Of all threads: the best that the table of kernels can do a second; 0 if it was not measured."""
    found = [c for c in parts[PEAK] if c.isa == isa and c.of["what"] == what]
    return max(found, key=lambda c: int(c.of["threads"]))["per_second"] if found else 0


def least_seconds(parts, cell):
    """(seconds, "i", "f" or "m"): the time that the machine needs at least, and what limits it. f32 and int8
    operations use the same units of a core, so their times add up."""
    int8 = cell["int8_ops"] / peak(parts, cell.isa, "int8")
    f32 = cell["f32_ops"] / peak(parts, cell.isa, "f32")
    memory = cell["bytes"] / min(cell["sweep_bytes_per_s"], MOST_BYTES_PER_S)
    if memory > int8 + f32:
        return memory, "m"
    return int8 + f32, "i" if int8 >= f32 else "f"


def share(parts, cell):
    """(share, bound): the least time over the time taken."""
    seconds, bound = least_seconds(parts, cell)
    return seconds / cell.seconds, bound


def weighted(parts, products):
    """(operations a second, share of the peak, share of the limits) of products together, each as often as it
    occurs in a forward pass."""
    seconds = ops = peak_seconds = bound_seconds = 0.0
    for cell in products:
        times = int(cell.of["count"])
        seconds += times * cell.seconds
        ops += times * cell.ops
        peak_seconds += times * (cell["int8_ops"] / peak(parts, cell.isa, "int8")
                                 + cell["f32_ops"] / peak(parts, cell.isa, "f32"))
        bound_seconds += times * least_seconds(parts, cell)[0]
    return ops / seconds, peak_seconds / seconds, bound_seconds / seconds


def sweep_share(products):
    """Of products together: the time in which their bytes can be read over the time taken."""
    read = sum(int(c.of["count"]) * c["bytes"] / min(c["sweep_bytes_per_s"], MOST_BYTES_PER_S) for c in products)
    return read / sum(int(c.of["count"]) * c.seconds for c in products)


def verdicts(metrics):
    """One for each target whose products were measured. AVX2 alone is to reach half of it, but all of the sweep."""
    parts = cells_of(metrics)
    found = []
    for name, rows, target, of in TARGETS:
        products = [c for c in parts[MATMUL] if "rows" in c.of
                    and (c.of["type"], c.rows, c.of["logits"]) == (name, rows, "0")]
        if not products or not peak(parts, products[0].isa, "int8"):
            continue
        halved = of == INT8 and products[0].isa != "avx512vnni"
        measured = weighted(parts, products)[1] if of == INT8 else sweep_share(products)
        found.append(report.Verdict(f"products of {name}, {rows} row{'s' if rows > 1 else ''}: share of {of}", measured,
                                    target / 2 if halved else target, f"{len(products)} products"))
    return found


def spread(values):
    """(low, median, high): between what the middle eight tenths lie."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 10], ordered[len(ordered) // 2],
            ordered[len(ordered) * 9 // 10]) if ordered else (0, 0, 0)


# The report.


def short(value):
    """Three digits, as far as the number has them before its point."""
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def percent(value):
    return f"{100 * value:.0f}%"


def report_text(metrics, _args):
    parts = cells_of(metrics)
    if not parts[PEAK]:
        raise BenchError("the metrics hold no peaks")
    text = about_text(metrics, parts) + report.section("Targets", report.verdict_table(verdicts(metrics)))
    text += report.section("The machine's limits", limits_text(parts))
    for title, part, per_row in (("Matrix products", MATMUL, False), ("Logits by vocabulary", LM_HEAD, True)):
        for model in dict.fromkeys(c.of["model"] for c in parts[part]):
            products = [c for c in parts[part] if c.of["model"] == model]
            text += report.section(f"{title}: {model}, packing of the rows included",
                                   products_table(parts, products, per_row))
            if not per_row:
                text += report.section(f"All products of a forward pass, weighted by time: {model}",
                                       weighted_table(parts, products))
    return text + report.section("Attention of one layer", attention_table(parts))


def about_text(metrics, parts):
    cells = [cell for found in parts.values() for cell in found]
    low, barrier, high = spread([c["barrier_ns"] for c in cells if "barrier_ns" in c.values])
    _, middle, most = spread([(c["max_us"] - c["min_us"]) / c["median_us"] for c in cells if c["median_us"]])
    told = {row["metric"]: row["value"] for row in metrics.rows if row["part"] == ABOUT}
    isa = next((row["system"] for row in metrics.rows if row["part"] == ABOUT and row["metric"] == "cpu"), "")
    lines = [f"- CPU {told.get('cpu')}; kernels {isa}; threads {told.get('threads')}; barrier {barrier:.0f} ns "
             f"(mostly {low:.0f} to {high:.0f})", f"- model {told.get('model')}",
             f"- repetitions of a case differ by {percent(middle)} in the median, mostly by less than {percent(most)}"
             + (": something else is using this machine" if middle > QUIET_SPREAD else "")]
    if told.get("cold") == "0":
        lines.append("- quick: few cases, each too short and too small for its numbers to be worth anything")
    lines += [f"- left out: {text}" for text in metrics.unique("value", part=ABOUT, metric="left_out")]
    return "\n".join(lines) + "\n"


def limits_text(parts):
    units = {"int8": ("int8 dot product", "GOPS"), "f32": ("f32 multiply-add", "GFLOPS")}
    rows = []
    for cell in parts[PEAK]:
        name, unit = units.get(cell.of["what"], (f"memory, reading {cell['work'] / 1e6:.1f} MB", "GB/s"))
        rows.append([name if unit == "GB/s" else f"{cell.isa} {name}", cell.of["threads"],
                     short(cell["per_second"] / 1e9), unit])
    sweeps = [c["sweep_bytes_per_s"] for found in parts.values() for c in found if "sweep_bytes_per_s" in c.values]
    low, _, high = spread(sweeps)
    return report.table(["limit", "threads", "measured", "unit"], rows) + (
        "\nOperations: the best repetition; memory: the median. Shares below are the least time that these limits allow "
        f"over the time taken: of int8 (i), of f32 (f), and of memory (m) as fast as it was read just before each case, "
        f"mostly {short(low / 1e9)} to {short(high / 1e9)} GB/s, but at most 50.\n")


def lines_by(cells, key, columns, lines):
    """Table rows: for each run of equal key(cell) one row per line (title, unit, text of a cell), with a column for
    each value of `columns`."""
    rows = []
    for name in dict.fromkeys(map(key, cells)):
        run = {columns(c): c for c in cells if key(c) == name}
        for i, (unit, text) in enumerate(lines):
            rows.append([name if i == 0 else "", unit] + [text(run[x]) if x in run else ""
                                                          for x in dict.fromkeys(map(columns, cells))])
    return rows


def products_table(parts, products, per_row):
    measured = [c for c in products if "rows" in c.of]
    lines = [("GOPS", lambda c: short(c.ops / c.seconds / 1e9)), ("GB/s", lambda c: short(c["bytes"] / c.seconds / 1e9)),
             ("share", lambda c: percent(share(parts, c)[0]) + share(parts, c)[1])]
    if per_row:
        lines.insert(2, ("us/row" + report.LOWER, lambda c: short(c["median_us"] / c.rows)))
    return report.table(
        ["inputs x outputs", "rows", *map(str, dict.fromkeys(c.rows for c in measured))],
        lines_by(measured, lambda c: f"{c.of['name']} {c.of['k']} x {c.of['n']}, {c.of['type']}"
                 + (f", {c.of['count']} times" if c.of["count"] != "1" else ""), lambda c: c.rows, lines))


def weighted_table(parts, products):
    missing = [c for c in products if c["left_out"]]
    measured = [c for c in products if "rows" in c.of]
    rows = []
    counts = list(dict.fromkeys(c.rows for c in measured))
    for with_output in (False, True):
        name = "layers and output" if with_output else "layers"
        absent = sum(with_output or c.of["logits"] == "0" for c in missing)
        found = {}
        for count in counts:
            these = [c for c in measured if c.rows == count and (with_output or c.of["logits"] == "0")]
            if these and (not with_output or any(c.of["logits"] == "1" for c in these)):
                found[count] = weighted(parts, these)
        if not found:
            continue
        for i, unit in enumerate(("GOPS", "of peak", "share")):
            rows.append([f"{name} less {absent}" if absent and i == 0 else name if i == 0 else "", unit] + [
                "" if n not in found else short(found[n][0] / 1e9) if i == 0 else percent(found[n][i]) for n in counts])
    return report.table(["products", "rows", *map(str, counts)], rows)


def attention_table(parts):
    cells = sorted(parts[ATTENTION], key=lambda c: (c.rows, int(c.of["sequences"])))
    if not cells:
        return ""
    of = cells[0].of
    name = lambda c: f"decode, {c.of['sequences']} sequences" if c.rows == 1 else f"prefill, {c.rows} rows"
    lines = [("GFLOPS", lambda c: short(c.ops / c.seconds / 1e9)),
             ("GB/s", lambda c: short(c["bytes"] / c.seconds / 1e9)), ("us" + report.LOWER, lambda c: short(c["median_us"])),
             ("share", lambda c: percent(share(parts, c)[0]) + share(parts, c)[1])]
    return (f"{of['model']}, {of['type']} KV cache, {of['kv_heads']} KV heads of {of['head_dim']} shared by {of['group']} "
            "query heads each\n\n" + report.table(
                ["what", "context", *dict.fromkeys(c.of["context"] for c in cells)],
                lines_by(cells, name, lambda c: c.of["context"], lines)))


def draw(axes, metrics):
    parts = cells_of(metrics)
    for axis, part, title in ((axes[0], MATMUL, "matrix products"), (axes[1], LM_HEAD, "logits")):
        curves = collections.defaultdict(list)
        for cell in parts[part]:
            if "rows" in cell.of:
                name = f"{cell.of['name']} {cell.of['k']} x {cell.of['n']}"
                curves[name].append((cell.rows, 100 * share(parts, cell)[0]))
        plot.lines(axis, curves, f"{title}: % of the limits", "rows")
