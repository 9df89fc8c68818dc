#!/usr/bin/env python3
"""Real models against float32: the log-probabilities that Ropeway gives the tokens of a public-domain text, and those
of a forward pass of our own in numpy on the dequantised weights of the same file (oracle.py, oracle_gemma3.py).

The text is cut into chunks of 1,024 tokens, as llama-perplexity does; the second half of each is scored, so that
windows of 512 positions have ended everywhere. Three things must hold, else exit code 1. llama.cpp's numbers, on the
same file and text, are those of tests/data/llama_cpp_deviation.json:
  - the perplexity is within 0.6 % of the oracle's;
  - the mean |difference of log-probabilities| is at most llama.cpp's;
  - |perplexity / the oracle's - 1| is at most llama.cpp's plus the noise of that ratio. With d = the oracle's
    log-probability less ours, for each of n tokens, the ratio is exp(mean of d): the tokens' differences, of either
    sign, cancel in it by chance, in one program more than in the other. The noise is two standard errors of that mean,
    2 * (sample deviation of d) / sqrt(n), as if tokens were independent. This condition finds a bias that all tokens
    share, the one before it differences that cancel.

usage: perplexity_test.py --ropeway PROGRAM --dump forward_dump --model FILE.gguf --name NAME
       ... --llama-perplexity PROGRAM   measures llama.cpp, and writes its line of the JSON file anew

`scripts/build_llama_server.sh` builds llama-perplexity beside llama-server.
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import oracle
import oracle_gemma3

HERE = pathlib.Path(__file__).resolve().parent
TEXT = HERE / "data" / "public_domain_long.txt"
DEVIATIONS = HERE / "data" / "llama_cpp_deviation.json"
CHUNK = 1024
FIRST = CHUNK // 2  # The position whose log-probabilities are the first to be scored.
PERPLEXITY_BOUND = 0.006
SLICE = 64  # Positions whose logits are in memory together.


def tokens_of(args, text):
    reply = subprocess.run([args.ropeway, "tokenize", "--model", args.model, "--batch"],
                           input=json.dumps({"text": text}) + "\n", capture_output=True, text=True, check=True)
    return json.loads(reply.stdout)["ids"]


def chunks_of(field, ids):
    """Whole ones; each begins with the token that texts begin with, if the model has one."""
    bos = field("tokenizer.ggml.bos_token_id") if field("tokenizer.ggml.add_bos_token", False) else None
    for begin in range(0, len(ids) - CHUNK + 1, CHUNK):
        chunk = ids[begin:begin + CHUNK]
        yield chunk if bos is None else [bos, *chunk[1:]]


def ours(args, chunk):
    """The log-probabilities of the scored tokens."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([args.dump, args.model, "0", out.name], input=" ".join(map(str, chunk)), text=True, check=True)
        scores = np.fromfile(out.name, dtype=np.float32)
    assert len(scores) == CHUNK - 1, len(scores)
    return scores[FIRST:].astype(np.float64)


def oracles(field, weight, chunk):
    targets = np.array(chunk[FIRST + 1:])
    if field("general.architecture") == "gemma3":
        states = oracle_gemma3.hidden_states(field, weight, np.array(chunk))[FIRST:-1]
        output = weight.get("output.weight", weight["token_embd.weight"])
        slices = (states[at:at + SLICE] @ output.T for at in range(0, len(states), SLICE))
    else:
        logits = oracle.forward(field, weight, np.array(chunk))[FIRST:-1]
        slices = (logits[at:at + SLICE] for at in range(0, len(logits), SLICE))
    found = []
    for rows in slices:
        of_slice = targets[len(found):len(found) + len(rows)]
        found.extend(np.take_along_axis(oracle.log_softmax(rows), of_slice[:, None], 1)[:, 0])
    return np.array(found)


def llamas(args, ids):
    """(log-probabilities of the scored tokens of all chunks, which of them it cut off) of llama-perplexity. It stores
    them in 16 bits, in steps of 16 / 65535 below the likeliest token's, and those further below as 0."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "logits"
        subprocess.run([args.llama_perplexity, "-m", args.model, "-f", TEXT, "-c", str(CHUNK), "-t", "2",
                        "--kl-divergence-base", path], check=True, stdout=subprocess.DEVNULL)
        with open(path, "rb") as file:
            assert file.read(8) == b"_logits_"
            context, vocabulary, chunks = np.fromfile(file, np.int32, 3)
            assert context == CHUNK, context
            tokens = np.fromfile(file, np.int32, chunks * CHUNK)
            assert list(tokens) == ids[:chunks * CHUNK], "llama.cpp has other tokens"
            scored = CHUNK - 1 - FIRST
            width = 2 * ((int(vocabulary) + 1) // 2) + 4
            rows = np.memmap(path, np.uint16, "r", file.tell(), (int(chunks), scored, width))
            targets = tokens.reshape(int(chunks), CHUNK)[:, FIRST + 1:]
            levels = np.take_along_axis(rows, 4 + targets[:, :, None].astype(np.int64), 2)[:, :, 0].ravel()
            steps = np.ascontiguousarray(rows[:, :, :4]).view(np.float32).reshape(-1, 2).astype(np.float64)
            del rows
    return steps[:, 0] * levels + steps[:, 1], levels == 0


def perplexity(logprobs):
    return float(np.exp(-logprobs.mean()))


def noise(actual, expected):
    """Two standard errors of the logarithm of the ratio of perplexities."""
    return float(2 * (expected - actual).std(ddof=1) / np.sqrt(len(expected)))


def judge(name, actual, expected, llama):
    """Prints what was found, and returns what does not hold. llama.cpp is compared on the tokens that it did not cut
    off."""
    ratio = perplexity(actual) / perplexity(expected)
    kept = np.setdiff1d(np.arange(len(expected)), llama["cut_off"])
    mean = float(np.abs(actual - expected)[kept].mean())
    off = abs(perplexity(actual[kept]) / perplexity(expected[kept]) - 1)
    llama_off = abs(llama["perplexity_ratio"] - 1)
    most = llama_off + noise(actual[kept], expected[kept])
    print(f"{name}, {len(expected)} tokens: perplexity {perplexity(actual):.4f}, oracle {perplexity(expected):.4f}: "
          f"{100 * (ratio - 1):+.3f} % (want within {100 * PERPLEXITY_BOUND:g} %)")
    print(f"{name}, {len(kept)} tokens that llama.cpp has: mean |log-prob difference| {mean:.5f} (want at most "
          f"llama.cpp's, {llama['mean_difference']:.5f}); perplexity off by {100 * off:.3f} % (want at most "
          f"{100 * most:.3f} %: llama.cpp's {100 * llama_off:.3f} %, and the noise)")
    # Written so that NaN holds nowhere.
    return [text for text, holds in (
        ("the perplexity is too far from the oracle's", abs(ratio - 1) <= PERPLEXITY_BOUND),
        ("the mean |log-prob difference| is above llama.cpp's", mean <= llama["mean_difference"]),
        ("the perplexity is further off than llama.cpp's and the noise", off <= most)) if not holds]


def sum_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def measure_llama(args, ids, expected):
    """Writes llama.cpp's line."""
    logprobs, cut = llamas(args, ids)
    assert len(logprobs) == len(expected), (len(logprobs), len(expected))
    known = json.loads(DEVIATIONS.read_text(encoding="utf-8")) if DEVIATIONS.exists() else {}
    known[args.name] = {
        "model_sha256": sum_of(args.model), "text_sha256": sum_of(TEXT), "cut_off": np.flatnonzero(cut).tolist(),
        "mean_difference": round(float(np.abs(logprobs - expected)[~cut].mean()), 6),
        "perplexity_ratio": round(perplexity(logprobs[~cut]) / perplexity(expected[~cut]), 6)}
    DEVIATIONS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{DEVIATIONS}: {known[args.name]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("ropeway", "dump", "model", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--llama-perplexity", metavar="PROGRAM")
    args = parser.parse_args()

    # llama-perplexity takes the last line feed away.
    ids = tokens_of(args, TEXT.read_text(encoding="utf-8").removesuffix("\n"))
    field, weight = oracle.load(args.model)
    chunks = list(chunks_of(field, ids))
    assert len(chunks) >= 2, len(ids)
    expected = np.concatenate([oracles(field, weight, chunk) for chunk in chunks])
    if args.llama_perplexity:
        measure_llama(args, ids, expected)
    if not DEVIATIONS.exists() or args.name not in json.loads(DEVIATIONS.read_text(encoding="utf-8")):
        print(f"{DEVIATIONS} has no {args.name}: run with --llama-perplexity")
        return 1
    llama = json.loads(DEVIATIONS.read_text(encoding="utf-8"))[args.name]
    if (llama["model_sha256"], llama["text_sha256"]) != (sum_of(args.model), sum_of(TEXT)):
        print(f"{DEVIATIONS}: {args.name} was measured with another file or text: run with --llama-perplexity")
        return 1
    actual = np.concatenate([ours(args, chunk) for chunk in chunks])
    failed = judge(args.name, actual, expected, llama)
    for text in failed:
        print(f"{args.name}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
