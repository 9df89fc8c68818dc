#!/usr/bin/env python3
"""How many answers does one prompt get? Ropeway, llama-server and OpenVINO GenAI, each asked the same
prompt many times at temperature 0 amid random company, from the same GGUF file.

Writes to the folder --out: sameness.csv (one line per contestant), sameness.md (the table) and
sameness.png (how often each output came, where matplotlib is installed: bench/requirements.txt).

usage: sameness.py --ropeway P --model FILE.gguf [--llama-server P] [--openvino]

Ropeway gets --asks asks; the others as many as fit into --peer-seconds. Nothing is timed here, so the
machine may do other things meanwhile.
"""
import argparse
import csv
import datetime
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

import machine
import pyplot
import server_process

HERE = pathlib.Path(__file__).resolve().parent
PORT = 8398
COLUMNS = [("contestant", "contestant"), ("asks", "answers"), ("distinct outputs", "distinct"),
           ("distinct with log-probs", "distinct_with_logprobs"),
           ("the most frequent came", "most_frequent"),
           ("largest log-prob difference", "largest_logprob_difference"),
           ("first two part at token", "parting"), ("other requests", "company"),
           ("asks in chunks", "chunked"), ("asks preempted", "preempted")]


def contestants(args):
    """{name: command of a server, or None for what is asked in another way}."""
    threads = str(args.threads)
    result = {"ropeway, engine": None,
              # So little memory that not all of 16 requests fit: some must give way.
              "ropeway serve": [args.ropeway, "serve", "--model", args.model, "--threads", threads,
                                "--port", str(PORT), "--kv-cache-size", "48MiB",
                                "--max-model-len", "1024"]}
    if args.llama_server:
        result["llama-server"] = server_process.llama_command(args.llama_server, args.model, threads,
                                                              PORT)
    if args.openvino:
        result["openvino-genai"] = None
    return result


def metric(name):
    """Of Ropeway's /metrics; None where the server has no such thing."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=30) as reply:
            found = re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+-]+)$", reply.read().decode(),
                               re.MULTILINE)
            return int(sum(map(float, found))) if found else None
    except OSError:
        pass
    return None


def what_to_ask(args, asks):
    return ["--prompt", args.prompt, "--asks", str(asks), "--output-tokens", str(args.output_tokens),
            "--seed", str(args.seed)]


def run(command, path):
    """The counts that the command writes to `path`, whatever it thinks of them."""
    print(" ".join(command), flush=True)
    pathlib.Path(path).unlink(missing_ok=True)  # Of an earlier run.
    code = subprocess.run(command, check=False).returncode
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RuntimeError(f"it wrote no counts and ended with exit code {code}") from None


def ask(args, name, server, path):
    if name == "ropeway, engine":
        return run([args.ropeway, "bench", "sameness", "--model", args.model, "--rounds",
                    str(args.rounds), "--json", path] + what_to_ask(args, args.asks), path)
    if name == "openvino-genai":
        return run([sys.executable, str(HERE / "sameness_openvino.py"), "--model", args.model,
                    "--seconds", str(args.peer_seconds), "--json", path]
                   + what_to_ask(args, args.asks), path)
    with open(f"{path}.log", "w", encoding="utf-8") as log:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(server, stdout=log, stderr=log)
        try:
            server_process.wait_healthy(process, PORT, 300)
            command = [args.ropeway, "bench", "sameness", "--base-url", f"http://127.0.0.1:{PORT}",
                       "--json", path] + what_to_ask(args, args.asks)
            if not name.startswith("ropeway"):
                command += ["--max-time", f"{args.peer_seconds}s"]
            counts = run(command, path)
            counts["preemptions"] = metric("ropeway_num_preemptions_total")
            return counts
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)


def row_of(name, counts):
    difference = counts["first_difference"]
    preempted = counts.get("preempted")
    if preempted is None and counts.get("preemptions") is not None:
        preempted = f"({counts['preemptions']} preemptions in all)"
    return {"contestant": name, "answers": counts["answers"], "distinct": counts["distinct"],
            "distinct_with_logprobs": counts["distinct_with_logprobs"],
            "most_frequent": counts["counts"][0],
            "largest_logprob_difference": counts["largest_logprob_difference"],
            "parting": difference["position"] + 1 if difference else "never",
            "company": counts["company"], "chunked": counts.get("chunked"),
            "preempted": preempted}


def shown(value):
    if value is None:
        return "unknown"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def report(about, rows, results):
    out = [f"# One prompt, asked many times, {datetime.date.today()}", "",
           f"- machine: {about['machine']}",
           f"- model: {about['model']}; temperature 0, {about['output_tokens']} output tokens, end "
           "tokens ignored",
           f"- prompt: `{about['prompt']}`"]
    out += [f"- {name}: {version}" for name, version in about["versions"].items()]
    out += [f"- `{name}`: `{command}`" for name, command in about["commands"].items()]
    out += ["", "| " + " | ".join(title for title, _ in COLUMNS) + " |",
            "|" + " --- |" * len(COLUMNS)]
    out += ["| " + " | ".join(shown(row[key]) for _, key in COLUMNS) + " |" for row in rows]
    for name, counts in results.items():
        if not counts.get("rounds"):
            continue
        keys = list(counts["rounds"][0])
        out += ["", f"## The rounds of {name}", "", "| " + " | ".join(keys) + " |",
                "|" + " --- |" * len(keys)]
        out += ["| " + " | ".join(str(r[k]) for k in keys) + " |" for r in counts["rounds"]]
    return "\n".join(out) + "\n"


def plot(about, results, path):
    """Each contestant's answers as one bar, a piece for each output; False without matplotlib."""
    plt = pyplot.load()
    if plt is None:
        return False

    figure, axes = plt.subplots(1, 2, figsize=(12, 1.2 + 0.7 * len(results)), sharey=True)
    for axis, (title, key) in zip(axes, [("by tokens", "counts"),
                                         ("by tokens and log-probabilities", "logprob_counts")]):
        for place, (name, counts) in enumerate(results.items()):
            left, total = 0.0, sum(counts[key])
            for i, count in enumerate(counts[key]):
                share = 100 * count / total
                colour = "#b5442e" if i == 0 else ("#8a94a0", "#c3c9d0")[i % 2]
                axis.barh(place, share, left=left, color=colour, edgecolor="white", linewidth=0.3)
                left += share
            axis.text(101, place, f"{len(counts[key])} of {total}", va="center", fontsize=9)
        axis.set_yticks(range(len(results)), list(results))
        axis.set_xlim(0, 122)
        axis.set_xticks(range(0, 101, 25))
        axis.set_xlabel("% of the answers; each piece is one output")
        axis.set_title(f"distinct outputs, {title}", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.suptitle(f"One prompt at temperature 0 amid random company: {about['model']}, "
                    f"{about['machine']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def about_of(args, servers):
    versions = {"ropeway": machine.version_of(args.ropeway)}
    if args.llama_server:
        versions["llama-server"] = machine.version_of(args.llama_server)
    if args.openvino:
        versions["openvino-genai"] = machine.version_of(sys.executable,
                                                        str(HERE / "sameness_openvino.py"))
    return {"machine": machine.describe()["machine"], "model": pathlib.Path(args.model).name,
            "prompt": args.prompt, "output_tokens": args.output_tokens, "versions": versions,
            "commands": {name: machine.command_text(c) for name, c in servers.items() if c}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--openvino", action="store_true", help="bench/requirements.txt has it")
    parser.add_argument("--only", nargs="+", help="these contestants alone")
    parser.add_argument("--asks", type=int, default=1000)
    parser.add_argument("--peer-seconds", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=10, help="engines of Ropeway's in-process run")
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prompt", default="Once upon a time, in a village high up in the mountains, "
                        "there lived an old woman who")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--keep", default=None, help="folder of the raw counts; what is there already "
                        "is not asked again")
    args = parser.parse_args()

    servers = contestants(args)
    results, failed = {}, []
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(args.keep or folder)
        raw.mkdir(parents=True, exist_ok=True)
        for name, server in servers.items():
            path = raw / f"{name.replace(' ', '-').replace(',', '')}.json"
            done = path.with_suffix(".done.json")
            if not done.exists() and (not args.only or name in args.only):
                try:
                    counts = ask(args, name, server, str(path))
                except RuntimeError as error:
                    failed.append(f"{name}: {error}")
                    continue
                done.write_text(json.dumps(counts, indent=2), encoding="utf-8")
            if done.exists():
                results[name] = json.loads(done.read_text(encoding="utf-8"))
    if failed or not results:
        print("\n".join(failed) or "nothing was asked", file=sys.stderr)
    if not results:
        return 1
    rows = [row_of(name, counts) for name, counts in results.items()]
    about = about_of(args, servers)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "sameness.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["machine", "model"] + list(rows[0]))
        writer.writeheader()
        writer.writerows({"machine": about["machine"], "model": about["model"], **r} for r in rows)
    text = report(about, rows, results)
    (out / "sameness.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    if not plot(about, results, out / "sameness.png"):
        print("No plot: matplotlib is not installed (bench/requirements.txt).")
    ours = [row for row in rows if row["contestant"].startswith("ropeway")]
    return 1 if failed or any(r["distinct"] != 1 or r["distinct_with_logprobs"] != 1 for r in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
