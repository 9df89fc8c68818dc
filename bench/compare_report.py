"""What compare.py's rows say: medians of the rounds, as a table and as bars."""
import datetime
import pathlib
import statistics

COLUMNS = [  # (title, column, factor, format)
    ("output tok/s", "output_tok_s", 1, ".1f"),
    ("TTFT p50 s", "ttft_p50_s", 1, ".3f"),
    ("TTFT p99 s", "ttft_p99_s", 1, ".3f"),
    ("ITL p50 ms", "itl_p50_s", 1e3, ".2f"),
    ("ITL p99 ms", "itl_p99_s", 1e3, ".2f"),
    ("TPOT p50 ms", "tpot_p50_s", 1e3, ".2f"),
    ("e2e p50 s", "e2e_p50_s", 1, ".3f"),
    ("tokens in", "input_tokens", 1, ".0f"),
    ("tokens out", "output_tokens", 1, ".0f"),
    ("service % of CPUs at 1,000 tok/s", "service_share_at_1000_tok_s", 100, ".2f"),
    ("generator % of CPUs", "generator_cpu_share", 100, ".2f"),
    ("peak RSS MB", "peak_rss_mb", 1, ".0f"),
    ("barrier ns", "barrier_ns", 1, ".0f"),
]


def median(rows, contestant, users, column):
    """Over the rounds; None where a contestant has no such figure."""
    values = [r[column] for r in rows if r["contestant"] == contestant and r["users"] == users]
    return None if "" in values else statistics.median(values)


def keys(rows):
    """(contestant, users) in the order of the first round."""
    return list(dict.fromkeys((r["contestant"], r["users"]) for r in rows))


def command_text(command):
    """Without the folders, which are of one machine only."""
    return " ".join(pathlib.Path(w).name if w.startswith("/") or "build/" in w else w
                    for w in command)


def ratios(rows):
    """Ropeway against the better of the others, a sentence for each number of users."""
    for users in dict.fromkeys(r["users"] for r in rows):
        others = [n for n, u in keys(rows) if u == users and n != "ropeway"]
        if not others:
            continue
        rate = median(rows, "ropeway", users, "output_tok_s")
        ttft = median(rows, "ropeway", users, "ttft_p50_s")
        best_rate = max(median(rows, n, users, "output_tok_s") for n in others)
        best_ttft = min(median(rows, n, users, "ttft_p50_s") for n in others)
        yield (f"{users} user{'s' if users > 1 else ''}: {rate / best_rate:.2f}x the better "
               f"llama-server's output tokens/s, {ttft / best_ttft:.2f}x its median TTFT.")


def table(about, rows):
    out = [f"# Side by side, {datetime.date.today()}", "",
           f"- machine: {about['machine']}",
           f"- model: {about['model']}; {about['input_tokens']} tokens in, "
           f"{about['output_tokens']} out; {about['rounds']} round{'s' if about['rounds'] > 1 else ''}, alternating; medians"]
    out += [f"- {name}: {version}" for name, version in about["versions"].items()]
    out += [f"- `{name}`: `{command_text(c)}`" for name, c in about["commands"].items()]
    out += ["", "| contestant | users | " + " | ".join(c[0] for c in COLUMNS) + " |",
            "| --- | --- |" + " --- |" * len(COLUMNS)]
    for name, users in keys(rows):
        cells = []
        for _, column, factor, style in COLUMNS:
            value = median(rows, name, users, column)
            cells.append("" if value is None else format(value * factor, style))
        out.append(f"| {name} | {users} | " + " | ".join(cells) + " |")
    out += ["", *ratios(rows)]
    return "\n".join(out).rstrip() + "\n"


def plot(about, rows, path):
    """Bars of tokens/s and of median TTFT; False without matplotlib."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel

    labels = [f"{name}\n{users} user{'s' if users > 1 else ''}" for name, users in keys(rows)]
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for axis, (title, column) in zip(axes, [("output tokens/s", "output_tok_s"),
                                            ("median time to first token, s", "ttft_p50_s")]):
        values = [median(rows, name, users, column) for name, users in keys(rows)]
        colours = ["#b5442e" if name == "ropeway" else "#8a94a0" for name, _ in keys(rows)]
        bars = axis.barh(labels, values, color=colours)
        axis.bar_label(bars, fmt="%.4g", padding=3)
        axis.invert_yaxis()
        axis.set_title(title)
        axis.margins(x=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{about['model']}, {about['machine']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
