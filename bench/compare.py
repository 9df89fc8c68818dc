#!/usr/bin/env python3
"""Ropeway and llama-server side by side: same GGUF file, same threads, alternating rounds, medians.

Every round starts each contestant anew, warms it up, and drives it with the closed-loop generator
(bench_load: 90 random prompt tokens, 64 output tokens, streamed, greedy, end tokens ignored). Writes
bench/results/NAME.csv (one line per contestant, users and round) and NAME.md (the table).

usage: compare.py --ropeway P --llama-server P --load P --step-bench P --model FILE.gguf
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time
import urllib.request

PORT = 8397
FIGURES = ["output_tok_s", "ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "latency_p50_s"]


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", text).group(1)
    flags = re.search(r"flags\s*:\s*(.*)", text).group(1).split()
    isa = "AVX-512 VNNI" if "avx512_vnni" in flags else "AVX2" if "avx2" in flags else "neither"
    return f"{model}, {os.cpu_count()} CPUs, {isa}"


def wait_healthy(process, seconds=120):
    for _ in range(seconds * 10):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1) as reply:
                if reply.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server was not ready in time")


def load(args, users, requests, seed):
    command = [args.load, "--port", str(PORT), "--users", str(users), "--requests", str(requests),
               "--seed", str(seed)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    if reply.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {reply.stdout} {reply.stderr}")
    return json.loads(reply.stdout)


def peak_rss_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) / 1024


def barrier_ns(args):
    """The machine's barrier time just now: host placements differ, and so do all figures."""
    reply = subprocess.run([args.step_bench, "--barrier"], capture_output=True, text=True, check=True)
    return float(reply.stdout.split()[0])


def run_round(args, name, command, round_number, rows):
    barrier = barrier_ns(args)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_healthy(process)
        load(args, 2, 4, seed=900 + round_number)
        for users, requests in ((16, args.requests), (1, max(4, args.requests // 10))):
            figures = load(args, users, requests, seed=round_number * 10 + users)
            row = {"contestant": name, "round": round_number, "users": users,
                   "barrier_ns": round(barrier), "peak_rss_mb": round(peak_rss_mb(process.pid), 1),
                   **figures}
            rows.append(row)
            print(f"round {round_number} {name:20} users {users:2}: "
                  f"{figures['output_tok_s']:7.1f} tok/s, TTFT p50 {figures['ttft_p50_s']:.3f} s, "
                  f"in {figures['input_tokens']} out {figures['output_tokens']}, generator "
                  f"{100 * figures['generator_cpu_share']:.1f} % of a core, barrier {barrier:.0f} ns",
                  flush=True)
    finally:
        process.terminate()
        process.wait(timeout=60)


def median_rows(rows, contestants):
    for name in contestants:
        for users in (16, 1):
            of = [r for r in rows if r["contestant"] == name and r["users"] == users]
            yield name, users, {f: statistics.median(r[f] for r in of)
                                for f in FIGURES + ["peak_rss_mb", "barrier_ns"]}


def table(args, rows, commands, version):
    medians = {(n, u): m for n, u, m in median_rows(rows, commands)}
    out = [f"# Side by side, {datetime.date.today()}", "",
           f"- machine: {cpu_name()}, Linux {platform.release()}",
           f"- model: {pathlib.Path(args.model).name}; 90 tokens in, 64 out; {args.rounds} rounds, "
           f"alternating; medians",
           f"- llama-server: {version}"]
    out += [f"- `{name}`: `{' '.join(pathlib.Path(c).name if '/' in c else c for c in command)}`"
            for name, command in commands.items()]
    out += ["", "| contestant | users | output tok/s | TTFT p50 s | TTFT p99 s | ITL p50 ms | "
            "ITL p99 ms | peak RSS MB | barrier ns |", "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (name, users), m in medians.items():
        out.append(f"| {name} | {users} | {m['output_tok_s']:.1f} | {m['ttft_p50_s']:.3f} | "
                   f"{m['ttft_p99_s']:.3f} | {1e3 * m['itl_p50_s']:.2f} | {1e3 * m['itl_p99_s']:.2f} | "
                   f"{m['peak_rss_mb']:.0f} | {m['barrier_ns']:.0f} |")
    out.append("")
    for users in (16, 1):
        best = max(medians[n, users]["output_tok_s"] for n in commands if n != "ropeway")
        ratio = medians["ropeway", users]["output_tok_s"] / best
        out.append(f"{users} user{'s' if users > 1 else ''}: {ratio:.2f}x the better llama-server's "
                   f"output tokens/s.")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("ropeway", "llama-server", "load", "step-bench", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--name", default="llama-server")
    args = parser.parse_args()

    threads = str(args.threads)
    llama = [args.llama_server, "-m", args.model, "-np", "16", "-c", "16384", "-t", threads, "--port",
             str(PORT)]
    commands = {
        "ropeway": [args.ropeway, "serve", "--model", args.model, "--threads", threads, "--port",
                    str(PORT)],
        "llama-server": llama,
        "llama-server -kvu": llama + ["-kvu"],
    }
    version = subprocess.run([args.llama_server, "--version"], capture_output=True, text=True,
                             check=False)
    version = next((line for line in (version.stdout + version.stderr).splitlines()
                    if line.startswith("version")), "unknown version")
    rows = []
    for round_number in range(1, args.rounds + 1):
        for name, command in commands.items():
            run_round(args, name, command, round_number, rows)

    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"{args.name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["machine"] + list(rows[0]))
        writer.writeheader()
        writer.writerows({"machine": cpu_name(), **row} for row in rows)
    text = table(args, rows, commands, version)
    (out / f"{args.name}.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
