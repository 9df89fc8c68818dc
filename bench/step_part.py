"""How a decode step's time grows with the number of sequences and with the context: `ropeway-bench steps`,
the executor alone, with a line fitted by least squares.

A piece is one run over all points.
"""
import subprocess

from ropeway_bench import metrics

CURVES = {  # name: (title, what grows, its unit)
    "sequences": ("context 256", "sequences", "sequence"),
    "context1": ("1 sequence", "length", "1,000 tokens of context"),
    "context8": ("8 sequences", "length", "1,000 tokens of context of each"),
}


def systems(args):
    """{name: (model file, command line)}."""
    return {"ropeway": (args.model, [args.step_bench, "steps", "--model", args.model, "--threads",
                                     str(args.threads), "--curves", "--kv-cache-mb", "1500",
                                     "--seconds", "0.3"])}


def parse(text):
    """Rows of what `ropeway-bench steps --curves` prints."""
    cells = metrics.cells(text)
    barrier = next(round(float(values["barrier_ns"])) for part, _, _, values in cells if part == "about")
    return [{"barrier_ns": barrier, "curve": of["shape"], "sequences": int(of["sequences"]),
             "length": int(of["context"]) + int(of["tokens"]), "step_ms": float(values["median_ms"]),
             "best_ms": float(values["best_ms"])} for part, _, of, values in cells if part == "steps"]


def run(_args, command, _round_number):
    """The piece's rows, one per point."""
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    if reply.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{reply.stdout}{reply.stderr}")
    return parse(reply.stdout)


def line(row):
    """A row in one line, to show progress."""
    return (f"{row['curve']:9}: {row['sequences']:2} sequences of {row['length']:4} tokens: "
            f"{row['step_ms']:7.3f} ms")


def fit(points):
    """(intercept, slope, R^2, largest distance from the line as a share of its value) of the line of
    least squares through [(x, y)]. REQUIRES: two different x."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    residual = sum((y - intercept - slope * x) ** 2 for x, y in points)
    total = sum((y - mean_y) ** 2 for _, y in points)
    furthest = max(abs(y / (intercept + slope * x) - 1) for x, y in points)
    return intercept, slope, 1 - residual / total if total else 1.0, furthest
