#!/usr/bin/env python3
"""Ropeway and llama-server side by side: same GGUF file, same threads, alternating rounds, medians.

Every round starts each contestant anew, warms it up, and drives it with `ropeway bench serve`: a
closed loop of 16 users and then of one; random prompts, streamed, greedy, end tokens ignored. Writes
to the folder --out: NAME.csv (one line per contestant, users and round), NAME.md (the table) and
NAME.png (the same as bars, where matplotlib is installed: bench/requirements.txt).

usage: compare.py --ropeway P --step-bench P --model FILE.gguf [--llama-server P]

Without --llama-server it measures Ropeway alone.
"""
import argparse
import csv
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import compare_report

PORT = 8397
# Threads of `ropeway serve` that do HTTP, tokenizing and detokenizing.
SERVICE_THREADS = re.compile(r"ropeway-(io|front|output)$")


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"model name\s*:\s*(.*)", text).group(1)
    flags = re.search(r"flags\s*:\s*(.*)", text).group(1).split()
    isa = "AVX-512 VNNI" if "avx512_vnni" in flags else "AVX2" if "avx2" in flags else "neither"
    return f"{model}, {os.cpu_count()} CPUs, {isa}, Linux {platform.release()}"


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


def load_command(args, users, requests, seed):
    return [args.ropeway, "bench", "serve", "--base-url", f"http://127.0.0.1:{PORT}", "--users",
            str(users), "--num-prompts", str(requests), "--input-tokens", str(args.input_tokens),
            "--output-tokens", str(args.output_tokens), "--seed", str(seed), "--no-progress"]


def load(args, users, requests, seed):
    """The figures of one run, as `bench serve --json` has them."""
    with tempfile.NamedTemporaryFile(suffix=".json") as summary:
        command = load_command(args, users, requests, seed) + ["--json", summary.name]
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
        figures = json.load(summary) if reply.returncode == 0 else None
    if figures is None or figures["all"]["failed"]:
        raise RuntimeError(f"{' '.join(command)}:\n{reply.stdout}{reply.stderr}")
    if figures["all"]["requests_with_estimated_tokens"]:
        raise RuntimeError(f"the server does not count tokens:\n{reply.stdout}")
    return figures["all"]


def thread_seconds(pid):
    """CPU seconds so far of the process's threads whose names match SERVICE_THREADS; None where no
    name does. Nanoseconds where the kernel counts them (schedstat), else its clock ticks."""
    total = None
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if not SERVICE_THREADS.match((task / "comm").read_text(encoding="utf-8").strip()):
                continue
            if (task / "schedstat").exists():
                seconds = int((task / "schedstat").read_text(encoding="utf-8").split()[0]) * 1e-9
            else:
                # utime and stime; the name before them may hold spaces, but ends with ')'.
                fields = (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:  # It ended just now.
            continue
        total = (total or 0) + seconds
    return total


def service_share(before, after, output_tokens):
    """The service threads' share of the machine, as it were at 1,000 streamed tokens/s."""
    if before is None or after is None:
        return None
    return (after - before) / output_tokens * 1000 / os.cpu_count()


def peak_rss_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) / 1024


def barrier_ns(args):
    """The machine's barrier time just now: host placements differ, and so do all figures."""
    reply = subprocess.run([args.step_bench, "--barrier"], capture_output=True, text=True, check=True)
    return float(reply.stdout.split()[0])


def measure(args, process, users, requests, seed):
    """One row of figures."""
    before = thread_seconds(process.pid)
    f = load(args, users, requests, seed)
    row = {"requests": f["succeeded"], "duration_s": f["duration_s"],
           "input_tokens": f["input_tokens"], "output_tokens": f["output_tokens"],
           "requests_per_s": f["requests_per_s"], "output_tok_s": f["output_tokens_per_s"]}
    for metric in ("ttft", "itl", "tpot", "e2e"):
        for figure in ("mean", "p50", "p90", "p99"):
            row[f"{metric}_{figure}_s"] = f[f"{metric}_s"][figure]
    share = service_share(before, thread_seconds(process.pid), f["output_tokens"])
    row["service_share_at_1000_tok_s"] = "" if share is None else share
    row["generator_cpu_share"] = f["generator_cpu_share"]
    row["peak_rss_mb"] = peak_rss_mb(process.pid)
    return row


def run_round(args, name, command, round_number, rows):
    barrier = barrier_ns(args)
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_healthy(process)
        load(args, 2, 4, seed=900 + round_number)
        for users in args.users:
            requests = args.requests if users > 1 else max(4, args.requests // 10)
            row = {"contestant": name, "round": round_number, "users": users,
                   "barrier_ns": round(barrier),
                   **measure(args, process, users, requests, round_number * 10 + users)}
            rows.append(row)
            print(f"round {round_number} {name:17} users {users:2}: {row['output_tok_s']:7.1f} tok/s, "
                  f"TTFT p50 {row['ttft_p50_s']:.3f} s, in {row['input_tokens']} out "
                  f"{row['output_tokens']}, generator {100 * row['generator_cpu_share']:.2f} % of "
                  f"the CPUs, barrier {barrier:.0f} ns", flush=True)
    finally:
        process.terminate()
        process.wait(timeout=60)


def version_of(program):
    """The first line of --version that names one (llama-server prints others before it)."""
    reply = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = (reply.stdout + reply.stderr).splitlines()
    return next((line for line in lines if re.search(r"\d", line) and "version" in line),
                lines[0] if lines else "unknown version")


def contestants(args):
    """{name: command line}."""
    threads = str(args.threads)
    commands = {"ropeway": [args.ropeway, "serve", "--model", args.model, "--threads", threads,
                            "--port", str(PORT)]}
    if args.llama_server:
        llama = [args.llama_server, "-m", args.model, "-np", "16", "-c", "16384", "-t", threads,
                 "--port", str(PORT)]
        commands |= {"llama-server": llama, "llama-server -kvu": llama + ["-kvu"]}
    return commands


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("ropeway", "step-bench", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=64, help="of a round with many users")
    parser.add_argument("--users", type=int, nargs="+", default=[16, 1])
    parser.add_argument("--input-tokens", type=int, default=90)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--name", default="llama-server")
    args = parser.parse_args()

    commands = contestants(args)
    rows = []
    for round_number in range(1, args.rounds + 1):
        for name, command in commands.items():
            run_round(args, name, command, round_number, rows)

    lines = dict(commands)
    lines["load generator"] = load_command(args, args.users[0], args.requests, "ROUND")
    about = {"machine": cpu_name(), "model": pathlib.Path(args.model).name,
             "input_tokens": args.input_tokens, "output_tokens": args.output_tokens,
             "rounds": args.rounds, "commands": lines,
             "versions": {n: version_of(p) for n, p in (("ropeway", args.ropeway),
                                                       ("llama-server", args.llama_server)) if p}}
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"{args.name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["machine"] + list(rows[0]))
        writer.writeheader()
        writer.writerows({"machine": about["machine"], **row} for row in rows)
    text = compare_report.table(about, rows)
    (out / f"{args.name}.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    if not compare_report.plot(about, rows, out / f"{args.name}.png"):
        print("No plot: matplotlib is not installed (bench/requirements.txt).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
