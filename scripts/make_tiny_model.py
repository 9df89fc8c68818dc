#!/usr/bin/env python3
"""Writes a tiny llama model with random weights and a real byte-level BPE vocabulary, as a GGUF file of a
few MB: for tests that start a server hundreds of times. Plain Python; the same seed gives the same file.

usage: make_tiny_model.py OUT.gguf [--seed N]
"""
import argparse
import array
import collections
import pathlib
import random
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests" / "data" / "public_domain.txt"  # The merges are learnt from it.

LAYERS, HIDDEN, FFN = 4, 128, 384
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 32
CONTEXT = 8192
MERGES = 253
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# GGUF's numbers.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16 = 0, 1
ALIGNMENT = 32


def byte_alphabet():
    """How byte-level BPE writes each byte: printable ones as themselves, others from U+0100 on."""
    letters, following = [], 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF:
            letters.append(chr(byte))
        else:
            letters.append(chr(following))
            following += 1
    return letters


def learn_merges(text, count):
    """The `count` pairs that byte-level BPE merges, the most frequent first."""
    letters = byte_alphabet()
    words = collections.Counter(re.findall(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+", text))
    split = {word: [letters[b] for b in word.encode()] for word in words}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        # Ties go to the first in the alphabet, so that the file is always the same.
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for parts in split.values():
            at = 0
            while at + 1 < len(parts):
                if (parts[at], parts[at + 1]) == best:
                    parts[at:at + 2] = ["".join(best)]
                at += 1
    return merges


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, given):
    if kind == STRING:
        return string(given)
    if kind == BOOL:
        return struct.pack("<?", given)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], given)


def entry(key, kind, given):
    if isinstance(given, list):
        body = struct.pack("<IIQ", ARRAY, kind, len(given)) + b"".join(value(kind, one) for one in given)
    else:
        body = struct.pack("<I", kind) + value(kind, given)
    return string(key) + body


def metadata():
    merges = learn_merges(TEXT.read_text(encoding="utf-8"), MERGES)
    tokens = CONTROL + byte_alphabet() + [left + right for left, right in merges]
    kinds = [3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL))
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
                "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
                "{% endif %}")
    return len(tokens), [
        ("general.architecture", STRING, "llama"), ("general.name", STRING, "Tiny random llama"),
        ("llama.block_count", UINT32, LAYERS), ("llama.context_length", UINT32, CONTEXT),
        ("llama.embedding_length", UINT32, HIDDEN), ("llama.feed_forward_length", UINT32, FFN),
        ("llama.attention.head_count", UINT32, HEADS), ("llama.attention.head_count_kv", UINT32, KV_HEADS),
        ("llama.attention.key_length", UINT32, HEAD_DIM), ("llama.attention.value_length", UINT32, HEAD_DIM),
        ("llama.rope.dimension_count", UINT32, HEAD_DIM), ("llama.rope.freq_base", FLOAT32, 10000.0),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5), ("llama.vocab_size", UINT32, len(tokens)),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", STRING, tokens), ("tokenizer.ggml.token_type", INT32, kinds),
        ("tokenizer.ggml.merges", STRING, [f"{left} {right}" for left, right in merges]),
        ("tokenizer.ggml.bos_token_id", UINT32, 1), ("tokenizer.ggml.eos_token_id", UINT32, 2),
        ("tokenizer.ggml.unknown_token_id", UINT32, 0), ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.ggml.add_space_prefix", BOOL, False), ("tokenizer.chat_template", STRING, template),
    ]


def tensors(vocabulary, seed):
    """Name, shape with the inputs first, type and bytes of each."""
    numbers = random.Random(seed)

    def weights(name, inputs, outputs, gain):
        deviation = gain / inputs ** 0.5
        values = [numbers.gauss(0, deviation) for _ in range(inputs * outputs)]
        return name, [inputs, outputs], F16, struct.pack(f"<{len(values)}e", *values)

    def norm(name):
        return name, [HIDDEN], F32, array.array("f", [numbers.gauss(1, 0.1) for _ in range(HIDDEN)]).tobytes()

    # Small beside what the layers add, so that the tied output does not repeat the last token.
    yield weights("token_embd.weight", HIDDEN, vocabulary, 0.35 * HIDDEN ** 0.5)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        yield norm(at + "attn_norm.weight")
        # Sharper than average attention, so that the text before matters.
        yield weights(at + "attn_q.weight", HIDDEN, HEADS * HEAD_DIM, 2.0)
        yield weights(at + "attn_k.weight", HIDDEN, KV_HEADS * HEAD_DIM, 1.0)
        yield weights(at + "attn_v.weight", HIDDEN, KV_HEADS * HEAD_DIM, 1.0)
        yield weights(at + "attn_output.weight", HEADS * HEAD_DIM, HIDDEN, 1.5)
        yield norm(at + "ffn_norm.weight")
        yield weights(at + "ffn_gate.weight", HIDDEN, FFN, 1.5)
        yield weights(at + "ffn_up.weight", HIDDEN, FFN, 1.0)
        yield weights(at + "ffn_down.weight", FFN, HIDDEN, 1.5)
    yield norm("output_norm.weight")


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def make(seed):
    vocabulary, entries = metadata()
    infos, data = [], []
    offset = 0
    for name, shape, kind, body in tensors(vocabulary, seed):
        infos.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        data.append(padded(body))
        offset += len(data[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries))
    head += b"".join(entry(*one) for one in entries) + b"".join(infos)
    return padded(head) + b"".join(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pathlib.Path(args.out).write_bytes(make(args.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
