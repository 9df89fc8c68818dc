#!/usr/bin/env python3
"""An oracle of its own: a float32 forward pass of architecture `llama` in numpy, on the dequantised
weights of a GGUF file, held against what our executor computes.

Checks (all must hold, else exit code 1):
  - cosine similarity of the logits above 0.998 at each of the first 64 positions. The executor
    reports log-probabilities, which are the logits less a constant, so both sides are centred first;
    that is stricter than the cosine of raw logits, whose common offset would flatter it;
  - perplexity of the fixed public-domain text within 1 % of the oracle's, and `ropeway perplexity`
    prints the very figure, the text being one window;
  - median |difference of log-probabilities| of the text's own tokens at most 0.045: what int8
    activations cost llama.cpp b11434 on the same file and text (0.0446 over the first 395 tokens,
    measured through llama-server's n_probs; ours over the same ones: 0.0435).

usage: oracle.py --ropeway PROGRAM --dump forward_dump --model FILE.gguf --text FILE.txt
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np

COSINE_POSITIONS = 64
MEDIAN_BOUND = 0.045  # llama.cpp's own, see above.


def load(path):
    """Returns (metadata look-up, {tensor name: float32 array [out, in] or [n]})."""
    reader = gguf.GGUFReader(path)
    field = lambda key, default=None: (
        reader.fields[key].contents() if key in reader.fields else default)
    return field, {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
                   for t in reader.tensors}


def forward(field, weight, ids):
    """Logits [positions, vocabulary] of `ids`, all in float32."""
    layers, heads = field("llama.block_count"), field("llama.attention.head_count")
    kv_heads = field("llama.attention.head_count_kv", heads)
    eps = np.float32(field("llama.attention.layer_norm_rms_epsilon"))
    x = weight["token_embd.weight"][ids]
    n, head_dim = len(ids), x.shape[1] // heads

    # RoFormer, eq. 34; llama's GGUF files keep each pair in neighbouring elements.
    exponent = -2.0 * np.arange(head_dim // 2) / head_dim
    angle = np.arange(n)[:, None] * float(field("llama.rope.freq_base", 10000.0)) ** exponent
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def rope(y):  # [n, heads, head_dim]
        even, odd = y[..., 0::2], y[..., 1::2]
        c, s = cos[:, None, :], sin[:, None, :]
        return np.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(y.shape)

    def norm(y, w):
        return y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + eps) * w

    mask = np.triu(np.full((n, n), -np.inf, dtype=np.float32), 1)
    for i in range(layers):
        w = lambda name: weight[f"blk.{i}.{name}.weight"]
        h = norm(x, w("attn_norm"))
        q = rope((h @ w("attn_q").T).reshape(n, heads, head_dim))
        k = rope((h @ w("attn_k").T).reshape(n, kv_heads, head_dim))
        v = (h @ w("attn_v").T).reshape(n, kv_heads, head_dim)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        score = np.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(head_dim)) + mask
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(n, -1) @ w("attn_output").T
        h = norm(x, w("ffn_norm"))
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    output = weight.get("output.weight", weight["token_embd.weight"])
    return norm(x, weight["output_norm.weight"]) @ output.T


def log_softmax(logits):
    shifted = (logits - logits.max(axis=-1, keepdims=True)).astype(np.float64)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def printed_perplexity(args, tokens):
    """What `ropeway perplexity` says of the text as one window; it must score all but the first token."""
    reply = subprocess.run([args.ropeway, "perplexity", "--model", args.model, "--file", args.text,
                            "--ctx", str(tokens)], capture_output=True, text=True, check=True)
    figure, scored = re.match(r"perplexity ([\d.]+) .*\n(\d+) tokens scored, in 1 window", reply.stdout).groups()
    assert int(scored) == tokens - 1, (scored, tokens)
    return float(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("ropeway", "dump", "model", "text"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()

    text = pathlib.Path(args.text).read_text(encoding="utf-8")
    reply = subprocess.run([args.ropeway, "tokenize", "--model", args.model, "--batch"],
                           input=json.dumps({"text": text}) + "\n", capture_output=True, text=True,
                           check=True)
    ids = json.loads(reply.stdout)["ids"]
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([args.dump, args.model, str(COSINE_POSITIONS), out.name],
                       input=" ".join(map(str, ids)), text=True, check=True)
        raw = np.fromfile(out.name, dtype=np.float32)

    field, weight = load(args.model)
    logits = forward(field, weight, np.array(ids))
    vocab = logits.shape[1]
    ours_full = raw[:COSINE_POSITIONS * vocab].reshape(COSINE_POSITIONS, vocab)
    ours_text = raw[COSINE_POSITIONS * vocab:].astype(np.float64)
    assert len(ours_text) == len(ids) - 1, (len(ours_text), len(ids))

    centre = lambda a: a - a.mean(axis=-1, keepdims=True)
    a = centre(ours_full.astype(np.float64))
    b = centre(logits[:COSINE_POSITIONS].astype(np.float64))
    cosine = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    oracle_text = np.take_along_axis(log_softmax(logits[:-1]), np.array(ids[1:])[:, None], 1)[:, 0]
    ours_ppl, oracle_ppl = np.exp(-ours_text.mean()), np.exp(-oracle_text.mean())
    median = np.median(np.abs(ours_text - oracle_text))
    deviation = abs(ours_ppl / oracle_ppl - 1)
    printed = printed_perplexity(args, len(ids))
    print(f"tokens {len(ids)}; lowest centred cosine {cosine.min():.6f} (want > 0.998); perplexity "
          f"{ours_ppl:.4f}, oracle {oracle_ppl:.4f}: {100 * deviation:.3f} % (want <= 1 %); median "
          f"|log-prob difference| {median:.5f} (want <= {MEDIAN_BOUND}); `ropeway perplexity` {printed}")
    good = cosine.min() > 0.998 and deviation <= 0.01 and median <= MEDIAN_BOUND
    return 0 if good and abs(printed - ours_ppl) < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
