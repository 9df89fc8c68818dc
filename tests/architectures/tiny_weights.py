"""The weights of the tiny random models, as src/model/test_tiny_models.cc makes them: each tensor's follow from its
GGUF name and shape alone."""
import hashlib
import math

import numpy as np

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
VOCABULARY = 3 + 256 + 8
# By what a matrix's name has in it; else 1.
GAINS = (("attn_output.", 0.5), ("ffn_gate_inp", 1.5), ("ffn_down", 0.5))
EMBEDDINGS = ("token_embd.weight", "position_embd.weight", "output.weight")


def splitmix(seed, count):
    """The first `count` outputs of SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def normals(seed, count):
    """About normal, mean 0 and deviation 1: sums of four uniform numbers."""
    bits = splitmix(seed, count)
    total = np.zeros(count, dtype=np.int64)
    for i in range(4):
        total += ((bits >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.int64)
    return (total - 2 * 65535).astype(np.float64) / 37837.0


def seed_of(name):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def rule_of(name, inputs):
    """Mean and deviation of the tensor's elements."""
    if name.endswith(".bias"):
        return 0.0, 0.1
    if name.endswith("norm.weight"):
        return 1.0, 0.1
    if "attn_sinks" in name:
        return 0.0, 1.0
    if name in EMBEDDINGS:
        return 0.0, 0.125
    gain = 1.0
    for part, its_gain in GAINS:
        if part in name:
            gain = its_gain
    return 0.0, gain / math.sqrt(inputs)


class Weights:
    """The tensors of a model by their GGUF names. Notes which were asked for."""

    def __init__(self):
        self.tensors = {}

    def get(self, name, *shape):
        """float32 of `shape`, outputs first: GGUF's shape from its end."""
        if name not in self.tensors:
            mean, deviation = rule_of(name, shape[-1])
            values = mean + deviation * normals(seed_of(name), math.prod(shape))
            self.tensors[name] = values.astype(np.float32).reshape(shape)
        assert self.tensors[name].shape == shape, name
        return self.tensors[name]

    def checksum(self):
        """SHA-256 of all names and bytes, in the order of the names."""
        digest = hashlib.sha256()
        for name in sorted(self.tensors):
            digest.update(name.encode())
            digest.update(self.tensors[name].astype("<f4").tobytes())
        return digest.hexdigest()


def token_ids(count):
    """The ids of the golden prompt."""
    return [int(value % VOCABULARY) for value in splitmix(7, count).tolist()]
