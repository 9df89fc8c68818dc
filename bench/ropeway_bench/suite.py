"""What all benchmarks share: flags, servers to start, rounds, and the files that they write."""
import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from ropeway_bench import BenchError, load, pictures, plot, report, servers
from ropeway_bench.metrics import ABOUT, Metrics, Where

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTEMPTS = 3  # To measure while other processes leave the machine alone.
# The first model of the registry in the program.
DEFAULT_MODEL = re.search(r'"file": "(.+?)\.gguf"', (ROOT / "src/hub/registry.cc").read_text(encoding="utf-8"))[1]


class Parser(argparse.ArgumentParser):
    """Reports what is wrong in one sentence, with exit code 1."""

    def error(self, message):
        self.exit(1, f"ropeway-bench: {message}\n")


def _checked(kind, least, most, what):
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {what} from {least} to {most}, not '{text}'")
        return value
    return convert


def whole(least, most):
    """A converter for argparse."""
    return _checked(int, least, most, "a whole number")


def real(least, most):
    return _checked(float, least, most, "a number")


def counts(most):
    """Of a list such as 1,2,16."""
    def convert(text):
        values = [int(word) if word.isascii() and word.isdigit() else 0 for word in text.split(",")]
        if not all(a < b for a, b in zip([0, *values], values)) or values[-1] > most:
            raise argparse.ArgumentTypeError(f"expected rising whole numbers from 1 to {most}, with commas "
                                             f"between, not '{text}'")
        return values
    return convert


def duration(text):
    """Of 500ms, 0.5s or 2 (seconds): seconds."""
    match = re.fullmatch(r"([0-9.]+)(ms|s)?", text)
    try:
        return float(match[1]) / (1000 if match[2] == "ms" else 1)
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"expected a duration such as 500ms or 2s, not '{text}'") from None


def milliseconds(seconds):
    """As ropeway's flags take a duration."""
    return f"{round(1000 * seconds)}ms"


def resolve_model(name):
    """The path of a model file, or of a fetched model by its name."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    for path in (pathlib.Path(name), cache / "ropeway/models" / name, cache / "ropeway/models" / f"{name}.gguf"):
        if path.is_file():
            return str(path)
    raise BenchError(f"--model: no file and no fetched model '{name}' (./run fetches the default one)")


def program(name, given):
    """The path of `ropeway` or `ropeway-bench`: from the flag, the environment, or a build."""
    named = given or os.environ.get(name.upper().replace("-", "_"))
    builds = [ROOT / "build" / kind / name for kind in ("release", "dev")]
    found = named or next((str(path) for path in builds if path.exists()), "")
    if not found:
        raise BenchError(f"{name} is not built: scripts/build.sh release builds it")
    return found


def output_of(*command):
    """What a program of ours prints."""
    reply = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if reply.returncode:
        raise BenchError(reply.stderr.strip().removeprefix("ropeway: ") or f"{command[0]} failed")
    return reply.stdout


def add_flags(parser):
    """The flags of every benchmark."""
    group = parser.add_argument_group("servers")
    group.add_argument("--ropeway", metavar="PROGRAM", default="", help="default: of a build in this checkout")
    group.add_argument("--ropeway-bench", metavar="PROGRAM", default="", help="likewise")
    group.add_argument("--base-url", metavar="URL", default="", help="measure this server; none is started")
    group.add_argument("--model", "-m", metavar="FILE", default=DEFAULT_MODEL,
                       help="GGUF file, or the name of a .gguf file in ~/.cache/ropeway/models")
    group.add_argument("--threads", "-t", type=whole(0, 1024), default=0,
                       help="compute threads of each server (default: the physical cores)")
    group.add_argument("--llama-server", metavar="PROGRAM", default="", help="measured as well")
    group.add_argument("--disk-path", metavar="FOLDER", default="", help="where the disk tiers lie meanwhile")
    group.add_argument("--timeout", type=real(0.001, 86400), default=600, help="seconds for one answer")
    group = parser.add_argument_group("what is measured")
    group.add_argument("--system", metavar="NAME", action="append", default=[],
                       help="only this one, by its name in the report; may be repeated")
    group.add_argument("--rounds", type=whole(1, 100), default=1, help="medians over the rounds count")
    group.add_argument("--quick", action="store_true", help="ropeway only, with less of everything")
    group.add_argument("--seed", type=whole(0, 2**63 - 1), default=1, help="of texts, lengths and times")
    group.add_argument("--max-others", type=real(0, 1), default=1.0, metavar="SHARE",
                       help="measure anew, twice at most, what other processes disturbed by taking more than this share "
                       "of the CPUs; it is never kept")
    group = parser.add_argument_group("results")
    group.add_argument("--out", metavar="FOLDER", type=pathlib.Path,
                       help="write NAME.csv, NAME.md and NAME.png to this folder")
    group.add_argument("--append", action="store_true", help="add to the metrics that --out holds")
    group.add_argument("--report", action="store_true", help="measure nothing: report what --out holds")
    group.add_argument("--embed", metavar="ROOT", default="", help="renew the tables and pictures in the pages of this checkout")


class Suite:
    """A run of one benchmark: starts servers, puts load on them, keeps metrics."""

    def __init__(self, name, args, needs_model=True):
        self.args = args
        self.path = args.out / f"{name}.csv" if args.out else None
        self.known = set()  # Systems that could be measured.
        self.missing = []   # What could not be measured, because it was disturbed each time.
        if (args.report or args.append) and not self.path:
            raise BenchError(f"--{'report' if args.report else 'append'} needs --out: the folder of the metrics")
        old = self.path and (args.report or (args.append and self.path.exists()))
        self.metrics = Metrics.read(self.path) if old else Metrics()
        if args.report:
            return
        if self.path:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.with_suffix(".new").touch()
                self.path.with_suffix(".new").unlink()
            except OSError as error:
                raise BenchError(f"--out: {error}") from error
        self.model = "" if args.base_url or not needs_model else resolve_model(args.model)
        about = Where(ABOUT)
        self.metrics.add(about, date=servers.today(), machine=servers.machine_text(),
                         isa=servers.instruction_set(servers.cpuinfo(), os.environ))
        self.program = program("ropeway", args.ropeway)
        self.metrics.add(about, version=f"ropeway {servers.version_of(self.program).removeprefix('ropeway ')}")
        if args.llama_server:
            self.metrics.add(about, version=f"llama-server: {servers.version_of(args.llama_server)}")
        self.threads = args.threads or servers.physical_cores()

    @property
    def has_llama(self):
        return bool(self.args.llama_server) and not self.args.quick

    def inspect(self):
        """What `ropeway inspect` says of the model."""
        return output_of(self.program, "inspect", self.model)

    def worker(self, *words):
        """What `ropeway-bench` with these words prints."""
        return output_of(program("ropeway-bench", self.args.ropeway_bench), *words)

    def replay(self, lines, *flags):
        """(the run, what is printed) of `ropeway-bench replay` over requests, a dict each."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            path = load.write_lines(folder / "requests.jsonl", lines)
            text = self.worker("replay", path, *flags, "--records", folder / "records.jsonl")
            return load.read_records(folder / "records.jsonl"), text

    def ropeway(self, *flags, key="", model="", patience=servers.START_PATIENCE):
        """Starts `ropeway serve`. `key`: one of the API keys that the flags name. `model`: another file. `patience`: seconds
        that the start may take."""
        port = servers.free_port()
        return servers.Server([self.program, "serve", "--model", model or self.model, "--threads",
                               self.threads, "--port", port, *flags], port, key=key, patience=patience)

    def llama(self, slots, slot_tokens, unit=256, flags=(), model="", patience=servers.START_PATIENCE):
        """Starts llama-server; a slot's tokens are rounded up to a multiple of `unit`. `model`, `patience`: as above."""
        port = servers.free_port()
        context = slots * ((slot_tokens + unit - 1) // unit * unit)
        return servers.Server([self.args.llama_server, "-m", model or self.model, "-np", slots, "-c",
                               context, "-t", self.threads, "--port", port, *flags], port, patience=patience)

    def given(self):
        """The server of --base-url."""
        return servers.Server(url=self.args.base_url)

    def wants(self, system):
        self.known.add(system)
        return not self.args.system or system in self.args.system

    def measuring(self, part, system, number=0, virtual=False):
        """Yields one Where: round `number` (0: the next) of a system in a part; nothing if --system names others. When
        its metrics are added they are saved; or they are dropped, and it comes again, where --max-others says so and time
        is not virtual."""
        if not self.wants(system):
            return
        where = Where(part, system, number or self.metrics.rounds(part, system) + 1)
        for _ in range(ATTEMPTS):
            print(f"{where} ...", file=sys.stderr, flush=True)
            others = servers.Others()
            yield where
            share = others.share()
            if virtual or share <= self.args.max_others:
                self.metrics.add(where, others_cpu_share=share)
                self.save()
                return
            self.drop(where, f"other processes took {100 * share:.1f} % of the CPUs")
        self.missing.append(str(where))

    def drop(self, where, why):
        """Forgets what was measured; the report says so."""
        self.metrics.drop(where)
        self.metrics.add(Where(ABOUT, round=where.round), not_kept=f"{where}: {why}")
        self.save()
        print(f"{where} is not kept: {why}", file=sys.stderr, flush=True)

    def save(self):
        if self.path:
            self.metrics.write(self.path)

    def load(self, requests=(), **fields):
        return load.Load(list(requests), **({"seed": self.args.seed, "timeout": self.args.timeout} | fields))

    def start(self, server, what):
        return load.Running(self.program, server, what)

    def put(self, server, what, may_fail=False):
        """The Run of a load. `may_fail`: requests may be rejected."""
        run = self.start(server, what).wait()
        return run if may_fail else load.check(run)

    def beside(self, server, background, lead, foreground):
        """(Run, Run): the foreground begins `lead` seconds after the background, which ends with it."""
        running = self.start(server, background)
        try:
            time.sleep(lead)
            front = self.put(server, foreground)
        finally:
            running.stop()
            back = running.wait()
        return load.check(back), front


@contextlib.contextmanager
def timing(where):
    """Says on standard error when what is timed begins and ends, so that a script can keep the machine quiet."""
    print(f"{where}: timing begins", file=sys.stderr, flush=True)
    yield
    print(f"{where}: timing is over", file=sys.stderr, flush=True)


def run(name, module, words):
    """The benchmark `name` with a command line; the exit code."""
    parser = Parser(prog=f"ropeway bench {name}", description=module.__doc__, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_flags(parser)
    add_flags(parser)
    args = parser.parse_args(words)
    try:
        if args.quick:
            module.make_quick(args)
        suite = Suite(name, args, getattr(module, "NEEDS_MODEL", True))
        if not args.report:
            if hasattr(module, "prepare"):
                module.prepare(suite)
            if not args.quick:
                print("This takes up to an hour and wants an idle machine; --quick takes minutes.", file=sys.stderr,
                      flush=True)
            for _ in range(args.rounds):
                module.measure(suite)
            unknown = [system for system in args.system if system not in suite.known]
            if unknown:
                raise BenchError(f"--system: expected one of {', '.join(sorted(suite.known))}, not '{unknown[0]}'")
        text = report.head(module.TITLE, suite.metrics) + module.report_text(suite.metrics, args)
    except (BenchError, OSError) as error:
        print(f"ropeway-bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ropeway-bench: interrupted", file=sys.stderr)
        return 1
    print(text, end="")
    if suite.path:
        suite.path.with_suffix(".md").write_text(text, encoding="utf-8")
        if not plot.draw(name, module.draw, suite.metrics, suite.path.with_suffix(".png"),
                         getattr(module, "PANELS", 4)):
            print("No plot: matplotlib is not installed (bench/requirements.txt).", file=sys.stderr)
    if args.embed:
        report.embed(args.embed, module.embeds(suite.metrics) if hasattr(module, "embeds") else {})
        pictures.draw(args.embed)
    if suite.missing:
        print(f"ropeway-bench: disturbed each time, and so missing: {'; '.join(suite.missing)}", file=sys.stderr)
        return 1
    return module.exit_code(suite.metrics) if hasattr(module, "exit_code") else 0
