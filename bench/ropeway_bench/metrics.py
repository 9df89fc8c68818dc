"""Metrics of a benchmark: rows of (part, system, round, x, metric, value) in a CSV file.

A part is one measurement of a benchmark, a system is what it compares (a scheduler, a server, a flag),
x is a point within the part (a class, a turn, a batch size), or "". Times are seconds, shares 0 to 1.
"""
import csv
import dataclasses
import math
import pathlib
import statistics

from ropeway_bench import BenchError

FIELDS = ["part", "system", "round", "x", "metric", "value"]
ABOUT = "about"  # The part with date, machine and versions.


@dataclasses.dataclass(frozen=True)
class Where:
    """Where a metric belongs."""
    part: str
    system: str = ""
    round: int = 1
    x: str = ""

    def at(self, x):
        return dataclasses.replace(self, x=str(x))

    def __str__(self):
        return f"{self.part}, {self.system}, round {self.round}"


def number(text):
    """The value as a float; None if it is text."""
    try:
        return float(text)
    except ValueError:
        return None


def quantile(values, p):
    """Interpolated between the two nearest values, as numpy does."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * p
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def ratio(a, b):
    """a / b; None if one is missing or b is 0."""
    return None if a is None or not b else a / b


def cells(text):
    """[(part, system, {name: value} of x, {metric: value})] of the rows that ropeway-bench prints."""
    found = {}
    for row in csv.DictReader(text.splitlines()):
        values = found.setdefault((row["part"], row["system"], row["x"]), {})
        values[row["metric"]] = row["value"]
    return [(part, system, dict(word.split("=", 1) for word in x.split("; ") if "=" in word) | {"x": x}, values)
            for (part, system, x), values in found.items()]


class Metrics:
    """All rows of a benchmark, in the order in which they were measured."""

    def __init__(self, rows=()):
        self.rows = []
        self._index = {}  # (part, system, metric, x): [(round, value)]
        for row in rows:
            self._append(row)

    def _append(self, row):
        self.rows.append(row)
        key = (row["part"], row["system"], row["metric"], row["x"])
        self._index.setdefault(key, []).append((row["round"], row["value"]))

    @classmethod
    def read(cls, path):
        try:
            with open(path, newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                if reader.fieldnames != FIELDS:
                    raise BenchError(f"{path} holds no metrics: its first line must be {','.join(FIELDS)}")
                return cls(row | {"round": int(row["round"])} for row in reader)
        except (OSError, ValueError, TypeError) as error:
            raise BenchError(f"{path} cannot be read: {error}") from error

    def drop(self, where):
        """Forgets a system's round of a part."""
        rows, self.rows, self._index = self.rows, [], {}
        for row in rows:
            if (row["part"], row["system"], row["round"]) != (where.part, where.system, where.round):
                self._append(row)

    def write(self, path):
        path = pathlib.Path(path)
        new = path.with_suffix(".new")
        with open(new, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(self.rows)
        new.replace(path)

    def add(self, where, **values):
        """Appends each value that is not None."""
        for metric, value in values.items():
            if value is None:
                continue
            text = value if isinstance(value, str) else f"{value:.6g}"
            self._append(dataclasses.asdict(where) | {"metric": metric, "value": text})

    def add_distribution(self, where, name, values):
        """Percentiles and the largest of `values`, in seconds; nothing if there are none."""
        if values:
            percentiles = {f"{name}_p{p}_s": quantile(values, p / 100) for p in (50, 90, 99)}
            self.add(where, **percentiles, **{f"{name}_max_s": max(values)})

    def values(self, part, system, metric, x="", round_number=None):
        found = self._index.get((part, system, metric, str(x)), ())
        values = [number(value) for i, value in found if round_number in (None, i)]
        return [value for value in values if value is not None]

    def median(self, part, system, metric, x=""):
        """Over the rounds; None if it was not measured."""
        values = self.values(part, system, metric, x)
        return statistics.median(values) if values else None

    def text(self, part, system, metric):
        """The last value as text; "" if there is none."""
        found = self._index.get((part, system, metric, ""))
        return found[-1][1] if found else ""

    def unique(self, field, **wanted):
        """The values of a field in rows whose other fields are as `wanted`, each once, in order."""
        return list(dict.fromkeys(r[field] for r in self.rows
                                  if all(r[key] == value for key, value in wanted.items())))

    def parts(self):
        return [part for part in self.unique("part") if part != ABOUT]

    def systems(self, part, **wanted):
        return self.unique("system", part=part, **wanted)

    def xs(self, part, metric):
        return [x for x in self.unique("x", part=part, metric=metric) if x]

    def rounds(self, part, system):
        return max(self.unique("round", part=part, system=system), default=0)

    def curve(self, part, system, metric):
        """[(x, median over the rounds)], sorted by x as a number."""
        return sorted((float(x), self.median(part, system, metric, x))
                      for x in self.unique("x", part=part, system=system, metric=metric) if x)
