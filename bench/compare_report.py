"""The tables of compare.py's CSV files."""
import csv
import pathlib
import re

import step_part
import targets

TITLES = {"http": "Over HTTP", "engine": "Engines alone", "steps": "Time of a decode step"}
NUMBERS_OF = {"http": "users", "engine": "sequences"}
ABOUT = ("date", "machine", "isa", "system", "model", "version", "command", "load", "curve")
COLUMNS = {
    "http": [  # (title, column, factor, format)
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
        ("others % of CPUs", "others_cpu_share", 100, ".1f"),
        ("barrier ns", "barrier_ns", 1, ".0f"),
    ],
    "engine": [
        ("prefill tok/s", "prefill_tok_s", 1, ".0f"),
        ("decode tok/s", "decode_tok_s", 1, ".0f"),
        ("prefill s", "prefill_s", 1, ".3f"),
        ("decode s", "decode_s", 1, ".3f"),
        ("tokens in", "input_tokens", 1, ".0f"),
        ("tokens out", "output_tokens", 1, ".0f"),
        ("others % of CPUs", "others_cpu_share", 100, ".1f"),
        ("barrier ns", "barrier_ns", 1, ".0f"),
    ],
}


def read(path):
    """The rows of a CSV file; what is a number becomes one."""
    def value(column, text):
        if column in ABOUT or text == "":
            return text
        number = float(text)
        return int(number) if number.is_integer() and "." not in text else number

    with open(path, newline="", encoding="utf-8") as file:
        return [{k: value(k, v) for k, v in row.items()} for row in csv.DictReader(file)]


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(k for r in rows for k in r)),
                                restval="")
        writer.writeheader()
        writer.writerows(rows)


def unique(rows, *columns):
    """The different values of the columns, in the order of their first rows."""
    return list(dict.fromkeys(tuple(r[c] for c in columns) for r in rows))


def head(part, rows):
    """What was compared, where and when."""
    dates = sorted({r["date"] for r in rows})
    rounds = max(r["round"] for r in rows)
    barriers = [r["barrier_ns"] for r in rows]
    out = [f"# {TITLES[part]}: {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else ""), ""]
    out += [f"- machine: {m}; instruction set of ropeway: {isa}"
            for m, isa in unique(rows, "machine", "isa")]
    out += [f"- {rounds} round{'s' if rounds > 1 else ''}, systems alternating, medians; barrier "
            f"{min(barriers)} to {max(barriers)} ns; other processes took at most "
            f"{100 * max(r['others_cpu_share'] for r in rows):.1f} % of the CPUs"]
    for name, model, version, command in unique(rows, "system", "model", "version", "command"):
        own = len({r["round"] for r in rows if r["system"] == name})
        out.append(f"- {name} ({version}), {model}, {own} of the rounds: `{command}`")
    if part == "http":
        out.append(f"- load generator: `{rows[0]['load']}`; the seed is another one each round")
    return out + [""]


def target_table(part, rows):
    """Target, measured, met or not, a line each; no verdict where a peer was not run."""
    def shown(value, style):
        return "" if value is None else format(value, style)

    def word(verdict):
        if verdict.met is None:
            return "peer missing: " + ", ".join(verdict.missing)
        return "yes" if verdict.met else "no"

    found = targets.verdicts(part, rows)
    if not found:
        return []
    out = ["| compared with | ropeway | peer | ratio | target | met |",
           "| --- | --- | --- | --- | --- | --- |"]
    for v in found:
        sign = "≤" if v.less else "≥"
        style = ".3f" if v.less else ".0f"
        out.append(f"| {v.title} | {v.ours:{style}} | {shown(v.peers, style)} | "
                   f"{shown(v.ratio, '.2f')} | {sign} {v.wanted:.2f} | {word(v)} |")
    return out


def what_ran(part, rows):
    """A sentence: the rounds of each system, the peers that are missing, and how many targets are met."""
    rounds = {name: len({r["round"] for r in rows if r["system"] == name})
              for (name,) in unique(rows, "system")}
    ran = ", ".join(f"{name} ({count})" for name, count in rounds.items())
    found = targets.verdicts(part, rows)
    missing = list(dict.fromkeys(name for v in found for name in v.missing))
    words = [(sum(v.met is True for v in found), "met"), (sum(v.met is False for v in found), "missed"),
             (sum(v.met is None for v in found), "without a verdict")]
    text = f"In the checked-in run, with the rounds of each: {ran}. "
    if missing:
        text += f"Not run: {', '.join(missing)}. "
    return text + f"Of {len(found)} targets {', '.join(f'{n} {word}' for n, word in words if n)}."


def metric_table(part, rows):
    """All metrics: medians of the rounds."""
    number = NUMBERS_OF[part]
    columns = COLUMNS[part]
    out = [f"| system | {number} | " + " | ".join(c[0] for c in columns) + " |",
           "| --- | --- |" + " --- |" * len(columns)]
    for name, count in unique(rows, "system", number):
        cells = []
        for _, column, factor, style in columns:
            value = targets.median(rows, name, {number: count}, column)
            cells.append("" if value is None else format(value * factor, style))
        out.append(f"| {name} | {count} | " + " | ".join(cells) + " |")
    return out


def curve(rows, name):
    """[(number of sequences, or thousands of tokens of context, milliseconds)]: medians of the
    rounds."""
    what = step_part.CURVES[name][1]
    points = unique([r for r in rows if r["curve"] == name], what)
    return [(x / 1000 if what == "length" else x,
             targets.median(rows, "ropeway", {"curve": name, what: x}, "step_ms"))
            for (x,) in points]


def fit_table(rows):
    """The line through each curve."""
    out = ["| curve | a step takes | R² | furthest from the line |", "| --- | --- | --- | --- |"]
    for name, (title, _, unit) in step_part.CURVES.items():
        intercept, slope, r2, furthest = step_part.fit(curve(rows, name))
        out.append(f"| {title} | {intercept:.2f} ms + {slope:.3f} ms per {unit} | {r2:.4f} | "
                   f"{100 * furthest:.0f} % |")
    return out


def point_table(rows):
    """What was measured, and the line's value there."""
    out = ["| curve | sequences | tokens of each | step ms | line ms | tok/s |",
           "| --- | --- | --- | --- | --- | --- |"]
    for name, (title, _, _) in step_part.CURVES.items():
        points = curve(rows, name)
        intercept, slope, _, _ = step_part.fit(points)
        shapes = unique([r for r in rows if r["curve"] == name], "sequences", "length")
        for (x, ms), (sequences, length) in zip(points, shapes):
            out.append(f"| {title} | {sequences} | {length} | {ms:.2f} | {intercept + slope * x:.2f} | "
                       f"{sequences / ms * 1e3:.0f} |")
    return out


def summary(part, rows):
    """The short table, for pages that show it among others."""
    return fit_table(rows) if part == "steps" else target_table(part, rows)


def table(part, rows):
    """The whole page of a part."""
    whole = point_table(rows) if part == "steps" else metric_table(part, rows)
    return "\n".join(head(part, rows) + summary(part, rows) + [""] + whole).rstrip() + "\n"


def embed(text, name, lines):
    """`text` with `lines` between the marks `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`; without
    such marks, `text`."""
    marks = re.compile(rf"(<!-- bench:{name} -->\n).*?(<!-- /bench:{name} -->)", re.DOTALL)
    return marks.sub(lambda found: found[1] + "".join(line + "\n" for line in lines) + found[2], text)


def embedded(text, part, rows):
    """A page with the part's tables, where it has marks for them."""
    text = embed(text, part, summary(part, rows))
    if part == "steps":
        return text
    text = embed(text, f"{part}-ran", [what_ran(part, rows)])
    return embed(text, f"{part}-metrics", metric_table(part, rows))


def embed_all(root, part, rows):
    """Renews the part's tables in README.md and docs/performance.md."""
    for page in ("README.md", "docs/performance.md"):
        path = pathlib.Path(root) / page
        text = path.read_text(encoding="utf-8")
        path.write_text(embedded(text, part, rows), encoding="utf-8")
