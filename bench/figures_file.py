"""The figures that `ropeway bench sessions`, `bench schedulers` and the like write, and their plots' pieces."""
import csv
import pathlib
import statistics
import subprocess

import pyplot

COLOURS = ("#b5442e", "#8a94a0", "#2e6fb5", "#4a9a5b", "#333333")


def read(path):
    """The figures of a file: a list of rows."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contestants(rows, part, metric):
    return list(dict.fromkeys(r["contestant"] for r in rows if r["part"] == part and r["metric"] == metric))


def places(rows, part, metric):
    """The places of a part that have the metric, in the order in which they first came."""
    return list(dict.fromkeys(r["x"] for r in rows if r["part"] == part and r["metric"] == metric and r["x"]))


def curve(rows, part, contestant, metric):
    """[(x, median over the rounds)], by x; figures without a place are left out."""
    values = {}
    for r in rows:
        if (r["part"], r["contestant"], r["metric"]) == (part, contestant, metric) and r["x"]:
            values.setdefault(float(r["x"]), []).append(float(r["value"]))
    return sorted((x, statistics.median(v)) for x, v in values.items())


def single(rows, part, contestant, metric, x=""):
    """The median over the rounds of the figure at one place, or without one; None where there is none."""
    values = [float(r["value"]) for r in rows
              if (r["part"], r["contestant"], r["metric"], r["x"]) == (part, contestant, metric, x)]
    return statistics.median(values) if values else None


def lines(axis, rows, part, metric, title, xlabel, factor=1):
    for name, colour in zip(contestants(rows, part, metric), COLOURS * 2):
        points = curve(rows, part, name, metric)
        if points:
            axis.plot([x for x, _ in points], [factor * y for _, y in points], color=colour, marker="o",
                      label=name, markersize=3, linestyle="--" if "LRU" in name else "-")
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(xlabel, fontsize=8)
    axis.set_ylim(bottom=0)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7, frameon=False)


def named_bars(axis, names, values, title):
    """Horizontal bars; what has no value is left out."""
    there = [(n, v) for n, v in zip(names, values) if v is not None]
    axis.barh(range(len(there)), [v for _, v in there], color=COLOURS[0], height=0.6)
    axis.set_yticks(range(len(there)), [n for n, _ in there], fontsize=7)
    axis.invert_yaxis()
    for place, (_, value) in enumerate(there):
        axis.text(value, place, f" {value:.3g}", va="center", fontsize=7)
    axis.set_title(title, fontsize=9)


def bars(axis, rows, part, metric, title, factor=1):
    names = contestants(rows, part, metric)
    values = [single(rows, part, n, metric) for n in names]
    named_bars(axis, names, [None if v is None else factor * v for v in values], title)


def draw(name, draw_axes, rows, path):
    """Four axes, filled by `draw_axes(axes, rows)`. False without matplotlib."""
    plt = pyplot.load()
    if plt is None:
        return False
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.5))
    draw_axes(list(axes.flat), rows)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=7)
    machine = next((r["value"] for r in rows if (r["part"], r["metric"]) == ("about", "machine")), "")
    figure.suptitle(f"bench {name}: {machine}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def add_flags(parser, draws):
    """The flags of a script that runs the commands named by `draws`."""
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--llama-server", default="")
    parser.add_argument("--trace", default="", help="for the command that needs one")
    parser.add_argument("--only", nargs="+", choices=list(draws), default=list(draws))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"))
    parser.add_argument("--quick", action="store_true", help="our engine only, at most 10 minutes")
    parser.add_argument("--append", action="store_true", help="go on with the figures in the CSV files")
    parser.add_argument("--report", action="store_true", help="measure nothing")


def parse(parser, words):
    """The arguments; what stands behind `--` is in `further`."""
    further = []
    if "--" in words:
        words, further = words[:words.index("--")], words[words.index("--") + 1:]
    args = parser.parse_args(words)
    args.further = further
    return args


def command(args, name, path, traced):
    """The command line that measures, or that only reports. `traced`: commands that take --trace."""
    words = [args.ropeway, "bench", name, "--csv", str(path)]
    if args.report:
        return words + ["--rounds", "0"]
    words += ["--quick"] if args.quick else []
    words += ["--append"] if args.append else []
    words += ["--model", args.model] if args.model else []
    words += ["--llama-server", args.llama_server] if args.llama_server else []
    words += ["--trace", args.trace] if args.trace and name in traced else []
    return words + args.further


def run_all(args, draws, traced):
    """Runs the commands of --only and writes their files; the exit code."""
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        path = args.out / f"{name}.csv"
        reply = subprocess.run(command(args, name, path, traced), stdout=subprocess.PIPE, text=True, check=False)
        if reply.returncode != 0:
            return reply.returncode
        path.with_suffix(".md").write_text(reply.stdout, encoding="utf-8")
        print(reply.stdout)
        if not draw(name, draws[name], read(path), path.with_suffix(".png")):
            print("No plot: matplotlib is not installed (bench/requirements.txt).")
    return 0
