#!/usr/bin/env python3
"""Writes a GGUF file with the shape of a known model and random weights, for measurements: names, shapes and types of
the tensors are those that llama.cpp's quantizer gives such a model. `make bench` makes those that it needs itself.

usage: make_model.py SHAPE MIXTURE OUT.gguf [--vocabularies FOLDER]
"""
import argparse
import pathlib
import sys

from ropeway_bench import BenchError, model_shapes
from ropeway_bench.suite import ROOT, output_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("shape", choices=model_shapes.SHAPES)
    parser.add_argument("mixture", choices=model_shapes.MIXTURES)
    parser.add_argument("out", metavar="OUT.gguf", type=pathlib.Path)
    parser.add_argument("--vocabularies", metavar="FOLDER", type=pathlib.Path,
                        help="of vocabulary-only files (default: of llama.cpp's source, fetched where it is missing)")
    args = parser.parse_args()
    try:
        folder = args.vocabularies or pathlib.Path(output_of(ROOT / "scripts/fetch_llama_source.sh").strip()) / "models"
        shape = model_shapes.SHAPES[args.shape]
        model_shapes.write(args.out, shape, args.mixture, folder / f"ggml-vocab-{shape.vocabulary}.gguf")
    except (BenchError, OSError) as error:
        print(f"make_model.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
