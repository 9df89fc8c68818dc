"""Plots of metrics with matplotlib (bench/requirements.txt); without it there are none."""
DPI = 110
COLOURS = ("#b5442e", "#8a94a0", "#2e6fb5", "#4a9a5b", "#333333", "#c9a227", "#7b4fa3", "#5f9ea0")


def pyplot():
    """matplotlib's pyplot, drawing to files; None without matplotlib."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    return plt


def draw(title, draw_axes, metrics, path, panels=4):
    """Writes a PNG file with `panels` axes, filled by draw_axes(axes, metrics). False without matplotlib."""
    plt = pyplot()
    if plt is None:
        return False
    columns = 2 if panels > 1 else 1
    rows = (panels + columns - 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(5 * columns, 3.25 * rows), squeeze=False)
    axes = list(grid.flat)
    draw_axes(axes, metrics)
    for axis in axes:
        if not axis.has_data():
            axis.axis("off")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=7)
        axis.title.set_fontsize(9)
        axis.xaxis.label.set_fontsize(8)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7, frameon=False)
    figure.suptitle(f"{title}: {metrics.text('about', '', 'machine')}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI)
    plt.close(figure)
    return True


def lines(axis, curves, title, xlabel, bottom=0):
    """`curves`: {name: [(x, y)]}."""
    for (name, points), colour in zip(curves.items(), COLOURS * 2):
        if points:
            axis.plot(*zip(*points), color=colour, marker="o", label=name, markersize=3,
                      linestyle="--" if "LRU" in name else "-")
    axis.set_title(title)
    axis.set_xlabel(xlabel)
    if bottom is not None:
        axis.set_ylim(bottom=bottom)


def metric_lines(axis, metrics, part, metric, title, xlabel, factor=1):
    """A line per system over x."""
    lines(axis, {system: [(x, factor * y) for x, y in metrics.curve(part, system, metric)]
                 for system in metrics.systems(part, metric=metric)}, title, xlabel)


def bars(axis, named, title, factor=1, ours=""):
    """Horizontal bars of {name: value}; a value of None is left out. Names without `ours` are peers, in grey."""
    there = [(name, factor * value) for name, value in named.items() if value is not None]
    axis.set_title(title)
    if not there:
        return
    axis.barh(range(len(there)), [value for _, value in there], height=0.6,
              color=[COLOURS[0 if ours in name else 1] for name, _ in there])
    axis.set_yticks(range(len(there)), [name for name, _ in there], fontsize=7)
    axis.invert_yaxis()
    for at, (_, value) in enumerate(there):
        axis.text(value, at, f" {value:.3g}", va="center", fontsize=7)


def metric_bars(axis, metrics, part, metric, title, factor=1):
    """A bar per system."""
    bars(axis, {s: metrics.median(part, s, metric) for s in metrics.systems(part, metric=metric)}, title,
         factor)
