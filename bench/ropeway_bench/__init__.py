"""Ropeway's benchmarks: what drives servers, and the metrics, reports and plots of all of them."""


class BenchError(Exception):
    """A benchmark that cannot go on: its text is one sentence for the user."""
