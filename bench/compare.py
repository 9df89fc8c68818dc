#!/usr/bin/env python3
"""Ropeway beside its peers: same model, same threads, alternating rounds, medians.

Three parts, each of which writes PART.csv (one line per system, round and shape), PART.md (the
targets and the metrics) and PART.png to the folder --out:
  http    ropeway serve and llama-server, 16 users and 1 user (http_part.py)
  engine  engines alone: ropeway, OpenVINO GenAI, llama.cpp (engine_part.py)
  steps   the time of ropeway's decode steps against sequences and context (step_part.py)

usage: compare.py --ropeway P --step-bench P --model FILE.gguf [peers...] [--only PART...]

Every piece (one system, one round) is a process of its own of at most about 90 seconds, begun by
the words of --prefix where that is given. With --append the CSV goes on where it ended; --report
measures nothing and writes tables and plots anew from the CSV files. A peer that is not named is left
out.
"""
import argparse
import datetime
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile

import compare_plot
import compare_report
import engine_part
import http_part
import machine
import step_part
from ropeway_bench import servers

PARTS = {"http": http_part, "engine": engine_part, "steps": step_part}


def version(args, command):
    """Of a system."""
    if command[0] == sys.executable:
        return servers.version_of(*command[:2])
    if pathlib.Path(command[0]).name.startswith("llama"):
        own = servers.version_of(args.llama_server or command[0])
        return f"{args.llama_version}, {own}" if args.llama_version else own
    return f"ropeway {servers.version_of(args.ropeway)}"


def measure_piece(args):
    """The rows of the one piece that --piece names, as JSON on standard output."""
    part, name, round_number = args.piece[0], args.piece[1], int(args.piece[2])
    model, command = PARTS[part].systems(args)[name]
    about = {"date": str(datetime.date.today()), **machine.describe(), "system": name,
             "model": pathlib.Path(model).name, "version": version(args, command),
             "command": servers.command_text(command), "round": round_number}
    others = servers.Others()
    rows = PARTS[part].run(args, command, round_number)
    about["others_cpu_share"] = round(others.share(), 4)
    json.dump([about | row for row in rows], sys.stdout)


def undisturbed_piece(args, words, part, name, round_number):
    """The rows of a piece. Where other processes took part of the machine it is measured anew, twice
    at most; what was disturbed is never kept, and then there are none."""
    for _ in range(3):
        rows = run_piece(args, words, part, name, round_number)
        share = rows[0]["others_cpu_share"]
        if share <= args.max_others:
            return rows
        print(f"{part} round {round_number} {name}: other processes took {100 * share:.1f} % of the "
              "CPUs", flush=True)
    return []


def run_piece(args, words, part, name, round_number):
    """The rows of a piece, in a process of its own."""
    command = shlex.split(args.prefix) + [sys.executable, *words, "--piece", part, name,
                                          str(round_number)]
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdout=output) as process:
            try:
                code = process.wait()
            except BaseException:  # We are told to end: so is the piece, which ends its programs.
                process.terminate()
                raise
        output.seek(0)
        text = output.read()
    if code != 0:
        raise SystemExit(f"{part}, {name}, round {round_number}: exit code {code}")
    return json.loads(text)


def run_part(args, words, part):
    """All rounds of a part; the CSV is whole after every piece. Returns the pieces that are missing from
    it, because they were disturbed each time."""
    path = args.out / f"{part}.csv"
    rows = compare_report.read(path) if args.append and path.exists() else []
    names = [n for n in PARTS[part].systems(args) if n in args.systems or not args.systems]
    missing = []
    done = {n: max((r["round"] for r in rows if r["system"] == n), default=0) for n in names}
    for round_number in range(1, args.rounds + 1):
        for name in names:
            number = done[name] + round_number
            piece = undisturbed_piece(args, words, part, name, number)
            if not piece:
                missing.append(f"{part} round {number} {name}")
                continue
            for row in piece:
                rows.append(row)
                print(f"{part} round {number} {name:16} {PARTS[part].line(row)}, barrier "
                      f"{row['barrier_ns']} ns, others {100 * row['others_cpu_share']:.1f} % of the CPUs",
                      flush=True)
            compare_report.write(path, rows)
    return missing


def report(args, part):
    """Writes the part's table and plot."""
    path = args.out / f"{part}.csv"
    if not path.exists():
        return
    rows = compare_report.read(path)
    if not rows:
        return
    text = compare_report.table(part, rows)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print("\n" + text)
    if not compare_plot.draw(part, rows, path.with_suffix(".png")):
        print("No plot: matplotlib is not installed (bench/requirements.txt).")
    if args.embed:
        compare_report.embed_all(args.embed, part, rows)


def number_of(kind, least, most, what):
    """A converter for argparse that also checks the range."""
    def convert(text):
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected {what}, not '{text}'")
        return number
    return convert


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    for name in ("ropeway", "step-bench", "model"):
        parser.add_argument(f"--{name}", default="")
    for name in ("engine-bench", "llama-server", "llama-batched-bench", "q4-0-model", "llama-version"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--openvino", action="store_true", help="with OpenVINO GenAI")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--systems", nargs="+", default=[], help="these only, by their names")
    parser.add_argument("--rounds", default=3,
                        type=number_of(int, 1, 1000, "a whole number from 1 to 1000"))
    parser.add_argument("--requests", type=int, default=64, help="of many users over HTTP")
    parser.add_argument("--users", type=int, nargs="+", default=[16, 1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"))
    parser.add_argument("--append", action="store_true", help="keep what the CSV files hold")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--max-others", default=0.03,
                        type=number_of(float, 0, 1, "a share from 0 to 1"),
                        help="the share of the CPUs that other processes may take meanwhile")
    parser.add_argument("--no-report", action="store_true", help="write the CSV files only")
    parser.add_argument("--prefix", default="", help="a command that runs each piece")
    parser.add_argument("--embed", metavar="ROOT", help="renew the tables in this checkout's pages")
    parser.add_argument("--piece", nargs=3, metavar=("PART", "SYSTEM", "ROUND"),
                        help=argparse.SUPPRESS)
    words = [str(pathlib.Path(__file__).resolve())] + sys.argv[1:]
    args = parser.parse_args()

    if not args.report and not (args.ropeway and args.step_bench and args.model):
        parser.error("--ropeway, --step-bench and --model are needed, except with --report")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if args.piece:
        measure_piece(args)
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    missing = []
    for part in args.only:
        if not args.report:
            missing += run_part(args, words, part)
        if not args.no_report:
            report(args, part)
    if missing:
        print(f"Missing, for other processes took more than {100 * args.max_others:.1f} % of the CPUs "
              f"three times (--max-others): {'; '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
