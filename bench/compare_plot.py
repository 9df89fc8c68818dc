"""The plots of compare.py's CSV files."""
import compare_report
import step_part
import targets
from ropeway_bench import plot

OURS, PEERS, LINE = "#b5442e", "#8a94a0", "#333333"
BARS = {  # part: [(title, column)]
    "http": [("output tokens/s", "output_tok_s"), ("median time to first token, s", "ttft_p50_s")],
    "engine": [("prefill tokens/s", "prefill_tok_s"), ("decode tokens/s", "decode_tok_s")],
}


def bars(axes, part, rows):
    number = compare_report.NUMBERS_OF[part]
    groups = sorted(compare_report.unique(rows, number, "system"), key=lambda g: g[0])
    labels = [f"{count} {number if count > 1 else number[:-1]}, {name}" for count, name in groups]
    for axis, (title, column) in zip(axes, BARS[part]):
        values = [targets.median(rows, name, {number: count}, column) for count, name in groups]
        drawn = axis.barh(labels, values,
                          color=[OURS if name == "ropeway" else PEERS for _, name in groups])
        axis.bar_label(drawn, fmt="%.4g", padding=3)
        axis.invert_yaxis()
        axis.set_title(title)
        axis.margins(x=0.15)


def lines(axes, rows):
    for axis, (name, (title, what, _)) in zip(axes, step_part.CURVES.items()):
        points = compare_report.curve(rows, name)
        intercept, slope, r2, _ = step_part.fit(points)
        xs = [x for x, _ in points]
        axis.plot(xs, [y for _, y in points], "o", color=OURS)
        axis.plot([0, max(xs)], [intercept, intercept + slope * max(xs)], color=LINE, linewidth=1)
        axis.set_title(f"{title}: {intercept:.2f} + {slope:.3f} x, R² {r2:.4f}", fontsize=10)
        axis.set_xlabel("1,000 tokens of context" if what == "length" else what)
        axis.set_ylabel("ms per step")
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)


def draw(part, rows, path):
    """Writes a PNG file; False without matplotlib."""
    plt = plot.pyplot()
    if plt is None:
        return False

    panels = len(step_part.CURVES) if part == "steps" else len(BARS[part])
    figure, axes = plt.subplots(1, panels, figsize=(14, 4.5 if part == "steps" else 5.5))
    if part == "steps":
        lines(axes, rows)
    else:
        bars(axes, part, rows)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{rows[0]['model']}, {rows[0]['machine']}, {rows[0]['date']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return True
