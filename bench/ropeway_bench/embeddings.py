"""Embeddings over HTTP, `ropeway serve` beside llama-server: inputs/s of an encoder (all-MiniLM-L6-v2), from the same file and
in 8 bits, and of a chat model.

A piece starts the server anew, warms it up, and asks for the embeddings of texts of some lengths, many in a request, as
clients that index documents do. Run it on a machine that should do nothing else.
"""
import base64
import functools
import json
import pathlib
import random
import tempfile
import time
import urllib.request

from ropeway_bench import BenchError, encoder_file, peers, plot, report
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import ROOT, counts, output_of, resolve_model, whole

TITLE = "Embeddings over HTTP"
ENCODER, CHAT = "encoder", "chat"
PANELS = 2
NEEDS_MODEL = False
LLAMA, OURS_Q8_0, LLAMA_Q8_0 = "llama-server", "ropeway --quantize q8_0", "llama-server Q8_0"
SLOTS, SLOT_TOKENS = 8, 512  # Of llama-server: an input is in one of its physical batches as a whole.
RATE = "inputs_per_s"
WORDS = [8, 64, 256]

COLUMNS = [Column("inputs/s", RATE, 1, 1), Column("tokens/s", "tokens_per_s", 1, 0), Column("tokens in", "tokens", 1, 1),
           report.OTHERS[1], Column("peak RSS MB", "peak_rss_mb"), peers.BARRIER]


def add_flags(parser):
    peers.add_flags(parser)
    parser.add_argument("--encoder", metavar="FOLDER", default="",
                        help="in Hugging Face's format (default: of scripts/fetch_encoder.sh)")
    parser.add_argument("--part", choices=(ENCODER, CHAT), action="append", default=[], help="only this one")
    parser.add_argument("--words", type=counts(400), default=WORDS, help="of an input")
    parser.add_argument("--tokens", type=whole(1, 10**7), default=16384, help="about so many, of all inputs of a length")
    parser.add_argument("--inputs", type=whole(1, 2048), default=64, help="of a request")


def make_quick(args):
    peers.make_quick(args)
    args.tokens = min(args.tokens, 512)


def prepare(suite):
    if suite.args.base_url:
        raise BenchError("--base-url: embeddings starts servers of its own")
    peers.prepare(suite)


def measure(suite):
    args = suite.args
    parts = args.part or [ENCODER, CHAT]
    with tempfile.TemporaryDirectory(prefix="ropeway-bench-") as folder:
        if ENCODER in parts:
            model = args.encoder or output_of(ROOT / "scripts" / "fetch_encoder.sh").strip()
            peers.measure(suite, ENCODER, pieces_of_encoder(suite, model, pathlib.Path(folder)))
        if CHAT in parts:
            model = resolve_model(args.model)
            starts = {peers.OURS: functools.partial(suite.ropeway, model=model)}
            if suite.has_llama:
                starts[LLAMA] = functools.partial(start_llama, suite, model, "last")
            peers.measure(suite, CHAT, {name: functools.partial(measure_piece, suite, start)
                                        for name, start in starts.items()})


def pieces_of_encoder(suite, model, folder):
    files = {q8_0: folder / f"encoder{'-q8_0' * q8_0}.gguf" for q8_0 in (False, True)}
    for q8_0, path in files.items():
        if not q8_0 or suite.has_llama:
            encoder_file.write(model, path, q8_0)
    starts = {peers.OURS: functools.partial(suite.ropeway, model=files[False])}
    if suite.has_llama:
        starts[LLAMA] = functools.partial(start_llama, suite, files[False], "mean")
    starts[OURS_Q8_0] = functools.partial(suite.ropeway, "--quantize", "q8_0", model=files[False])
    if suite.has_llama:
        starts[LLAMA_Q8_0] = functools.partial(start_llama, suite, files[True], "mean")
    return {name: functools.partial(measure_piece, suite, start) for name, start in starts.items()}


def start_llama(suite, model, pooling):
    batch = SLOTS * SLOT_TOKENS
    return suite.llama(SLOTS, SLOT_TOKENS, model=model,
                       flags=("--embeddings", "--pooling", pooling, "-b", batch, "-ub", batch))


def measure_piece(suite, start, where):
    args = suite.args
    vocabulary = (ROOT / "tests" / "data" / "public_domain.txt").read_text(encoding="utf-8").split()
    with start() as server:
        for words in args.words:
            rng = random.Random(f"{args.seed} {where.round} {words}")
            texts = [" ".join(rng.choices(vocabulary, k=words)) for _ in range(max(args.inputs, args.tokens // words))]
            embed(server, texts[:8], args.timeout)
            at = where.at(words)
            suite.metrics.add(at, barrier_ns=peers.barrier_ns(suite),
                              load=f"inputs of {words} words, {args.inputs} in a request, one request at a time")
            begin, tokens = time.monotonic(), 0
            for i in range(0, len(texts), args.inputs):
                tokens += embed(server, texts[i:i + args.inputs], args.timeout)
            seconds = time.monotonic() - begin
            suite.metrics.add(at, inputs_per_s=len(texts) / seconds, tokens_per_s=tokens / seconds,
                              tokens=tokens / len(texts), peak_rss_mb=server.peak_rss_mb())
        suite.metrics.add(where, command=server.command)


def embed(server, texts, timeout):
    """The tokens of the texts, of which each has a vector."""
    body = {"input": texts, "model": "default", "encoding_format": "base64"}
    request = urllib.request.Request(server.url + "/v1/embeddings", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        found = json.load(reply)
    if len(found["data"]) != len(texts) or not all(base64.b64decode(one["embedding"]) for one in found["data"]):
        raise BenchError("the server did not give each text a vector")
    return found["usage"]["prompt_tokens"]


# The report.


def verdicts(metrics):
    found = []
    for part, what, system, peer, target in (
            (ENCODER, "encoder, F32: inputs/s over llama-server's", peers.OURS, LLAMA, 1),
            (ENCODER, "encoder, --quantize q8_0: inputs/s over llama-server's in F32", OURS_Q8_0, LLAMA, 2),
            (ENCODER, "encoder, --quantize q8_0: inputs/s over llama-server's in Q8_0", OURS_Q8_0, LLAMA_Q8_0, 1),
            (CHAT, "chat model: inputs/s over llama-server's", peers.OURS, LLAMA, 1)):
        for words in sorted(map(int, metrics.xs(part, RATE))):
            ours, theirs = (metrics.median(part, name, RATE, words) for name in (system, peer))
            if ours is None:
                continue
            found.append(Verdict(f"{what}, {words} words", ratio(ours, theirs), target,
                                 f"{ours:.0f}{report.shown(' / {:.0f}', theirs)} inputs/s",
                                 missing="" if theirs else peer))
    return found


def report_text(metrics, _args=None):
    text = report.verdict_table(verdicts(metrics)) + "\n"
    for part in (ENCODER, CHAT):
        if metrics.systems(part):
            loads = metrics.unique("value", part=part, metric="load")
            text += report.section(part, "".join(f"- load: `{load}`\n" for load in loads)
                                   + peers.placement_text(metrics, part)
                                   + report.x_table(metrics, part, "words", COLUMNS) + "\n"
                                   + report.system_table(metrics, part, report.OTHERS[:1]))
    return text


def embeds(metrics):
    return {"embeddings": report.with_legend(report.verdict_table(verdicts(metrics)))}


def draw(axes, metrics):
    for axis, part in zip(axes, (ENCODER, CHAT)):
        plot.bars(axis, {f"{words} words, {system}": metrics.median(part, system, RATE, words)
                         for words in sorted(map(int, metrics.xs(part, RATE))) for system in metrics.systems(part)},
                  f"{part}: inputs/s", ours=peers.OURS)
