"""The README's pictures: bars from checked-in metrics, as SVG that suits light and dark pages."""
import dataclasses
import html
import pathlib
import re

from ropeway_bench.metrics import Metrics

WIDTH, BAR, GAP, LEFT, TOP = 880, 15, 12, 104, 66
COLOURS = ("#c2452d", "#8a94a0")
OURS, SAME = ("ropeway",), ("llama-server", "llama-server -kvu")
RATE, FIRST = "output_tok_per_s", "ttft_p50_s"
STYLE = ("text{font:12px sans-serif;fill:#24292f}.t{font-size:14px;font-weight:600}.n{font-size:11px;fill:#57606a}"
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9aa4af}}")


@dataclasses.dataclass(frozen=True)
class Panel:
    """Groups of bars, {label: [one value for each system, or None]}."""
    title: str
    form: str
    groups: dict


def bars(panel, left, width):
    """The panel's elements, and where it ends."""
    most = max(value for values in panel.groups.values() for value in values if value is not None)
    parts, y = [f'<text class="t" x="{left}" y="{TOP - 14}">{html.escape(panel.title)}</text>'], TOP
    for label, values in panel.groups.items():
        shown = [(value, colour) for value, colour in zip(values, COLOURS) if value is not None]
        parts.append(f'<text x="{left + LEFT - 8}" y="{y + len(shown) * BAR / 2 + 4:g}" text-anchor="end">{html.escape(label)}</text>')
        for value, colour in shown:
            length = max(2, (width - LEFT - 60) * value / most)
            parts.append(f'<rect x="{left + LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            parts.append(f'<text class="n" x="{left + LEFT + length + 5:.1f}" y="{y + BAR - 4}">{panel.form.format(value)}</text>')
            y += BAR
        y += GAP
    return parts, y


def svg(systems, note, panels):
    drawn = [bars(panel, 16 + i * WIDTH // len(panels), WIDTH // len(panels) - 16) for i, panel in enumerate(panels)]
    height = max(end for _, end in drawn) + 18
    legend, x = [], 16
    for name, colour in zip(systems, COLOURS):
        legend.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="22">{html.escape(name)}</text>')
        x += 40 + 7 * len(name)
    foot = f'<text class="n" x="16" y="{height - 8}">{html.escape(note)}</text>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">', f"<style>{STYLE}</style>",
             *legend, *(part for parts, _ in drawn for part in parts), foot, "</svg>"]
    return "\n".join(lines) + "\n"


def best(metrics, part, systems, metric, x, choose=max):
    """Of llama-server's variants the better one counts."""
    return choose((v for v in (metrics.median(part, s, metric, x) for s in systems) if v is not None), default=None)


def note(metrics, what):
    return f"{what}; {metrics.text('about', '', 'machine').split(', Linux')[0]}; {metrics.text('about', '', 'date')}"


def users(metrics):
    """Tokens/s and the time to the first token, by users."""
    xs = sorted(int(x) for x in metrics.xs("http", RATE))

    def groups(metric, choose):
        return {f"{x} user{'s' * (x > 1)}": [best(metrics, "http", systems, metric, x, choose) for systems in (OURS, SAME)]
                for x in xs}

    load = re.search(r"\d+ tokens in and \d+ out", metrics.unique("value", part="http", metric="load")[0])[0]
    return svg(("Ropeway", "llama-server, same file"),
               note(metrics, f"SmolLM2-135M Q4_1, {load}, over HTTP"),
               (Panel("output tokens/s (more is better)", "{:.0f}", groups(RATE, max)),
                Panel("median time to the first token, s (less is better)", "{:.2f}", groups(FIRST, min))))


def sizes(metrics):
    """Tokens/s of models of several sizes, with many users and with one."""
    parts = [part for part in metrics.parts() if part.endswith(" Q4_K_M")]

    def groups(x):
        return {part.removesuffix(" Q4_K_M"): [best(metrics, part, systems, RATE, x) for systems in (OURS, SAME)] for part in parts}

    return svg(("Ropeway", "llama-server, same file"),
               note(metrics, "Q4_K_M: Gemma 3 itself, the others in shape, with random weights (qwen3-moe: 4 layers of 30B-A3B)"),
               (Panel("16 users: output tokens/s", "{:.3g}", groups(16)), Panel("1 user: output tokens/s", "{:.3g}", groups(1))))


PICTURES = {"users": ("users", users), "models": ("models", sizes)}


def drawn(root):
    """{path: text} of the pictures whose metrics a checkout has."""
    for name, (file, picture) in PICTURES.items():
        path = pathlib.Path(root) / "bench" / "results" / f"{file}.csv"
        if path.exists():
            yield pathlib.Path(root) / "docs" / "pictures" / f"{name}.svg", picture(Metrics.read(path))


def draw(root):
    for path, text in drawn(root):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
