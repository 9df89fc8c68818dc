#!/usr/bin/env python3
"""The suite `folders`: tiny random models of every architecture, saved by Hugging Face transformers as it saves models.

Of each folder, in F32 and in BF16, in one file and in shards: the tensors are those of the GGUF file that llama.cpp's
convert_hf_to_gguf.py makes of it, to the bit, and so are the metadata that both have; and `ropeway perplexity` on the
folder is what transformers computes in float32.

    python -m pip install -r tests/folders/requirements.txt    # into .venv
    ./test --suite folders

usage: check_folders.py --ropeway PROGRAM --dump dump_model --maker make_tiny_model --llama FOLDER [NAME...]
"""
import argparse
import hashlib
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import gguf
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "architectures"))

from make_goldens import CASES, load  # noqa: E402: its folder is named above.

TEXT = "The cable car climbs over the valley, and the other one comes down: 12 of them in an hour. " * 2
# The converter finds no vocabulary that it knows: these models have none of their own.
CONVERT = """
import sys
sys.path[:0] = [sys.argv[1] + "/gguf-py", sys.argv[1]]
sys.argv = ["convert_hf_to_gguf.py", *sys.argv[2:]]
import convert_hf_to_gguf
find = convert_hf_to_gguf.get_model_class
def without_vocabulary(*words, **more):
    found = find(*words, **more)
    found.set_vocab = lambda self: None
    return found
convert_hf_to_gguf.get_model_class = without_vocabulary
convert_hf_to_gguf.main()
"""
# What the converter computes in float32 and Ropeway in float64: the perplexity holds it.
COMPUTED = ("rope_freqs.weight",)
# What the converter sets whatever the configuration says: GPT-2's n_inner may be another.
NOT_READ = ("gpt2.feed_forward_length",)
# Of the converter's own doings.
IGNORED = re.compile(r"general\.|tokenizer\.|split\.|quantize\.|GGUF\.")


def converted(arguments, folder, kind):
    """The metadata and tensors of the GGUF file, as dump_model names them."""
    out = folder.parent / "converted.gguf"
    words = [sys.executable, "-c", CONVERT, arguments.llama, folder, "--outfile", out, "--outtype", kind]
    reply = subprocess.run(words, capture_output=True, text=True, check=False)
    if reply.returncode != 0:
        raise SystemExit(f"the converter failed: {reply.stderr[-2000:]}")
    reader = gguf.GGUFReader(out)
    metadata = {name: field.contents() for name, field in reader.fields.items() if not IGNORED.match(name)}
    tensors = {t.name: {"type": t.tensor_type.name, "shape": [int(d) for d in t.shape],
                        "sha256": hashlib.sha256(t.data.tobytes()).hexdigest()} for t in reader.tensors}
    return metadata, tensors


def dumped(arguments, folder):
    reply = subprocess.run([arguments.dump, folder], capture_output=True, text=True, check=False)
    if reply.returncode != 0:
        raise SystemExit(reply.stderr)
    lines = [json.loads(line) for line in reply.stdout.splitlines()]
    return lines[0]["metadata"], {line.pop("name"): line for line in lines[1:]}


def same(a, b):
    """Whether two values of a key are the same number, text or list."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-6)
    return a == b


def compare(name, folder, file):
    """The differences between what the folder is presented as, and the converted file."""
    wrong = []
    (metadata, tensors), (expected, expected_tensors) = folder, file
    for table in (tensors, expected_tensors):
        for tensor in COMPUTED:
            table.get(tensor, {}).pop("sha256", None)
    for key in sorted(metadata.keys() & expected.keys() - set(NOT_READ)):
        if not same(metadata[key], expected[key]):
            wrong.append(f"{key}: {metadata[key]}, the converter has {expected[key]}")
    for tensor in sorted(tensors.keys() | expected_tensors.keys()):
        if tensors.get(tensor) != expected_tensors.get(tensor):
            wrong.append(f"{tensor}: {tensors.get(tensor)}, the converter has {expected_tensors.get(tensor)}")
    only = ", ".join(key for key in sorted(metadata.keys() ^ expected.keys()) if not IGNORED.match(key))
    print(f"{name}: {len(tensors)} tensors, {len(metadata.keys() & expected.keys())} keys of both, {only or 'none'} of "
          f"one: {len(wrong)} differences")
    for line in wrong[:10]:
        print("  " + line)
    return len(wrong)


def perplexities(arguments, model, folder):
    """Ropeway's on the folder, and transformers'."""
    text = folder.parent / "text"
    text.write_text(TEXT)
    reply = subprocess.run([arguments.ropeway, "tokenize", "--model", folder, "--batch"],
                           input=json.dumps({"text": TEXT}) + "\n", capture_output=True, text=True, check=True)
    ids = torch.tensor([json.loads(reply.stdout)["ids"]])
    with torch.inference_mode():
        logprobs = model(ids).logits.double().log_softmax(-1)[0, :-1]
    expected = math.exp(-logprobs.gather(1, ids[0, 1:, None]).mean().item())
    reply = subprocess.run([arguments.ropeway, "perplexity", "--model", folder, "--file", text], capture_output=True,
                           text=True, check=False)
    if reply.returncode != 0:
        raise SystemExit(reply.stderr)
    return float(re.match(r"perplexity ([\d.]+)", reply.stdout).group(1)), expected


def check(arguments, case, work, tokenizer):
    model, _ = load(case)
    wrong = 0
    for kind, dtype, shard in (("f32", torch.float32, "5GB"), ("bf16", torch.bfloat16, "60KB")):
        folder = work / f"{case.name}-{kind}"
        model.to(dtype).save_pretrained(folder, max_shard_size=shard)
        for path in tokenizer.glob("tokenizer*"):
            shutil.copy(path, folder)
        wrong += compare(folder.name, dumped(arguments, folder), converted(arguments, folder, kind))
        if kind == "f32":
            ours, expected = perplexities(arguments, model, folder)
            good = math.isclose(ours, expected, rel_tol=2e-3)
            wrong += not good
            print(f"{folder.name}: perplexity {ours}, transformers {expected:.4f}{'' if good else ': DIFFERS'}")
        shutil.rmtree(folder)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("ropeway", "dump", "maker", "llama"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        tokenizer = work / "tokenizer"
        subprocess.run([arguments.maker, tokenizer, "--folder"], check=True)
        cases = [case for case in CASES if not arguments.names or case.name in arguments.names]
        wrong = sum(check(arguments, case, work, tokenizer) for case in cases)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
