"""The ratios that Ropeway aims at beside its peers, and whether rows of metrics reach them.

On a machine with AVX2 alone the one-user ratios stay, and with 8 or more rows, and in prefill, half
the ratio is aimed at.
"""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Target:
    """Ropeway's metric over a peer's: at least `ratio`, or at most, where less is better."""
    title: str
    where: dict      # Column: value, of the rows that count.
    column: str
    peers: tuple     # Systems; where there are several, the best of them.
    ratio: float
    halved: bool     # With AVX2 alone.
    less: bool = False

    def wanted(self, isa):
        """The ratio for an instruction set."""
        if isa == "avx512vnni" or not self.halved:
            return self.ratio
        return self.ratio * 2 if self.less else self.ratio / 2


SAME = ("llama-server", "llama-server -kvu")
Q4_0 = ("llama-server Q4_0", "llama-server Q4_0 -kvu")
OPENVINO = ("OpenVINO GenAI",)
LLAMA = ("llama.cpp",)

TARGETS = {
    "http": (
        Target("16 users, output tokens/s, llama-server, same file", {"users": 16}, "output_tok_s",
               SAME, 6, True),
        Target("16 users, median TTFT, llama-server, same file", {"users": 16}, "ttft_p50_s", SAME,
               1 / 6, True, less=True),
        Target("16 users, output tokens/s, llama-server, its Q4_0", {"users": 16}, "output_tok_s",
               Q4_0, 2.7, True),
        Target("1 user, output tokens/s, llama-server, same file", {"users": 1}, "output_tok_s",
               SAME, 2.3, False),
        Target("1 user, output tokens/s, llama-server, its Q4_0", {"users": 1}, "output_tok_s",
               Q4_0, 1.3, False),
    ),
    "engine": (
        Target("prefill of one prompt, OpenVINO GenAI", {"sequences": 1}, "prefill_tok_s", OPENVINO,
               1.35, True),
        Target("decode of 8 sequences, OpenVINO GenAI", {"sequences": 8}, "decode_tok_s", OPENVINO,
               2.4, True),
        Target("decode of 16 sequences, OpenVINO GenAI", {"sequences": 16}, "decode_tok_s", OPENVINO,
               2.4, True),
        Target("decode of 32 sequences, OpenVINO GenAI", {"sequences": 32}, "decode_tok_s", OPENVINO,
               2.1, True),
        Target("decode of 1 sequence, llama.cpp, same file", {"sequences": 1}, "decode_tok_s", LLAMA,
               2.5, False),
    ),
    "steps": (),
}


def median(rows, system, where, column):
    """Over the rounds; None if it was not measured."""
    values = [r[column] for r in rows if r["system"] == system
              and all(r[k] == v for k, v in where.items())]
    return None if not values or "" in values else statistics.median(values)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One target, measured."""
    title: str
    ours: float
    peers: float     # The best peer's value, and the ratio to it; None if no peer has one.
    ratio: float
    wanted: float
    less: bool
    missing: tuple   # Peers of the target without rows.

    @property
    def met(self):
        """None where a peer is missing: it might have been the best."""
        if self.missing:
            return None
        return self.ratio <= self.wanted if self.less else self.ratio >= self.wanted


def verdicts(part, rows):
    """One Verdict for each target of `part` ("http", "engine") for which Ropeway has values among the
    rows."""
    found = []
    for target in TARGETS[part]:
        ours = median(rows, "ropeway", target.where, target.column)
        if ours is None:
            continue
        peers = {peer: median(rows, peer, target.where, target.column) for peer in target.peers}
        values = [value for value in peers.values() if value is not None]
        best = (min(values) if target.less else max(values)) if values else None
        found.append(Verdict(target.title, ours, best, None if best is None else ours / best,
                             target.wanted(rows[0]["isa"]), target.less,
                             tuple(peer for peer, value in peers.items() if value is None)))
    return found
