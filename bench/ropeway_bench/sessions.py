"""Chats of several turns: what it brings to keep their state between turns.

Starts the servers itself, one after the other, on a machine that should do nothing else.
"""
import json
import re
import time

from ropeway_bench import BenchError, load, plot, report, servers
from ropeway_bench.metrics import ratio
from ropeway_bench.report import Column, Verdict
from ropeway_bench.suite import real, timing, whole

TITLE = "Chats of several turns"
CHATS, DIALOGUES, POOL, RESTART = "chats", "dialogues", "pool", "restart"
STATEFUL, STATELESS, LLAMA, SERVER = "stateful", "stateless", "llama-server", "server"
ALL, THIRD, THIRD_ALONE = "all in the pool", "a third in the pool, disk", "a third in the pool, no disk"
PREFILL, NEXT_TURN = "full prefill", "next turn after a restart"
POOL_FACTOR = 3      # More conversations than the pool holds.
POOL_TURNS = 4       # After the history.
TEMPLATE_TOKENS = 16  # That a chat template adds to a turn, at most.
# Here every block is asked for again, and writing one costs a tenth of computing it: the default rate is for
# blocks that are rarely asked for.
POOL_WRITE_RATE = "200MiB/s"
LEAST_DISK = 256 << 20
SHORT_ANSWER = "I see."
NEXT_MESSAGE, NEXT_ANSWER = 20, 16  # Tokens of the turn after a restart.
# A disk tier has settled when it wrote nothing for so long.
QUIET_SECONDS, MOST_SETTLE_SECONDS = 2, 120
# A token each in nearly every vocabulary.
WORDS = """time year people way day man thing woman life child world school state family group hand part case week company
system program question work number night point home water room mother area money story fact month lot right study book
eye job word business issue side kind head house service friend father power hour game line end member law car city name
team""".split()

COLUMNS = [Column("turns", "turns"), Column("failed", "failed"), Column("turns/s", "turns_per_s", 1, 2),
           Column("output tok/s", "output_tok_per_s", 1, 1), Column("TTFT p50 s", "ttft_p50_s", 1, 3),
           Column("TTFT p90 s", "ttft_p90_s", 1, 3), Column("prompt tokens", "prompt_tokens"),
           Column("prefilled", "prefilled_tokens"), Column("cached %", "cached_share", 100, 1),
           Column("from the pool %", "pool_share", 100, 1), Column("from disk %", "disk_share", 100, 1),
           Column("wall s", "wall_s", 1, 1), Column("disk settled after s", "settle_s", 1, 1), *report.OTHERS]


def add_flags(parser):
    parser.add_argument("--mode", choices=("stateful", "stateless", "compare"), default="compare",
                        help="with the caches on, with --prefix-caching off, or both")
    parser.add_argument("--part", choices=("chats", "pool", "restart", "all"), default="all",
                        help="pool: more conversations than the KV cache holds; restart: the turn after one")
    parser.add_argument("--users", type=whole(1, 1000), default=6, help="that chat at once; three times in pool")
    parser.add_argument("--turns", type=whole(1, 100), default=8, help="of each conversation")
    parser.add_argument("--conversations", type=whole(1, 1000), default=1, help="of each user, one after the other")
    parser.add_argument("--think-time", type=real(0, 3600), default=0.0,
                        help="mean seconds from an answer to the next message, exponentially distributed")
    parser.add_argument("--request-interval", type=real(0, 3600), default=0.5,
                        help="seconds between the first messages of two users")
    parser.add_argument("--duration", type=real(0, 86400), default=0.0,
                        help="no message is sent after so many seconds; 0: no limit")
    parser.add_argument("--first-tokens", type=whole(4, 100000), default=1500,
                        help="median of first messages; log-normal, cut off at a quarter and at four times that")
    parser.add_argument("--input-tokens", type=whole(4, 100000), default=100, help="median of later messages")
    parser.add_argument("--output-tokens", type=whole(4, 100000), default=80, help="median of answers")
    parser.add_argument("--spread", type=real(0, 2), default=0.5, help="standard deviation of the lengths' logarithms")
    parser.add_argument("--dialogues", metavar="FILE", default="",
                        help='chats of a file: lines of {"history": [{"user": ..., "bot": ...}, ...]} (MT-Bench-101)')
    parser.add_argument("--history-tokens", type=whole(4, 100000), default=1500, help="pool: before what is measured")
    parser.add_argument("--restart-tokens", type=whole(4, 100000), default=4000, help="restart: the first message")
    parser.add_argument("--restart-chats", type=whole(1, 1000), default=4, help="restart: so many chats")


def make_quick(args):
    args.users, args.restart_chats = min(args.users, 3), min(args.restart_chats, 2)


def prepare(suite):
    args = suite.args
    if args.base_url and args.part in (POOL, RESTART):
        raise BenchError("--part: pool and restart start servers of their own, which --base-url excludes")
    if args.dialogues:
        read_dialogues(args.dialogues)


# Conversations: {"turns": [{"user", "max_tokens", maybe "assistant": what the history says}], maybe "first_turn"}.


def words(rng, count):
    return " ".join(rng.choices(WORDS, k=max(1, count)))


def turn(rng, tokens, answer_tokens, assistant=None):
    said = {"user": words(rng, tokens), "max_tokens": answer_tokens}
    return said if assistant is None else said | {"assistant": assistant}


def random_chat(args, number, turns, first_tokens):
    rng = load.random_of("chat", args.seed, number, turns)

    def draw(median):
        return load.log_normal(rng, median, args.spread, median / 4, 4 * median)

    return {"turns": [turn(rng, draw(args.input_tokens if i else first_tokens), draw(args.output_tokens))
                      for i in range(turns)]}


def chat_with_history(args, number):
    """A long first message that was answered shortly, and further turns."""
    rng = load.random_of("history", args.seed, number)
    chat = random_chat(args, number, POOL_TURNS, args.input_tokens)
    return {"turns": [turn(rng, args.history_tokens, 1, SHORT_ANSWER), *chat["turns"]]}


def restarted_chat(args, number):
    rng = load.random_of("restart", args.seed, number)
    return {"turns": [turn(rng, args.restart_tokens, NEXT_ANSWER, SHORT_ANSWER), turn(rng, NEXT_MESSAGE, NEXT_ANSWER)]}


def read_dialogues(path):
    """Answers have as many tokens as the file's have bytes / 4; the history of later turns is the file's."""
    found = []
    try:
        with open(path, encoding="utf-8") as file:
            for line in filter(str.strip, file):
                found.append({"turns": [{"user": said["user"], "assistant": said["bot"],
                                         "max_tokens": max(1, -(-len(said["bot"].encode()) // 4))}
                                        for said in json.loads(line)["history"]]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"--dialogues: {path} holds no dialogues: {error}") from error
    if not found or not all(chat["turns"] for chat in found):
        raise BenchError(f"--dialogues: {path} holds no dialogues")
    return found


def first_turns(chats):
    return [{"turns": chat["turns"][:1]} for chat in chats]


def later_turns(chats):
    return [chat | {"first_turn": 1} for chat in chats]


def tokens_of(chat):
    """An estimate: a random word is a token, of other texts four bytes are."""
    return TEMPLATE_TOKENS + sum(max(len(said["user"].split()), len(said["user"].encode()) // 4) + said["max_tokens"]
                                 + TEMPLATE_TOKENS for said in chat["turns"])


# Measuring.


def measure(suite):
    part = CHATS if suite.args.base_url else suite.args.part
    for name, function in ((CHATS, measure_chats), (POOL, measure_pool), (RESTART, measure_restart)):
        if part in (name, "all"):
            function(suite)


def talk(suite, server, where, chats, users, count=True, **fields):
    """Plays the chats; with `count`, their metrics are added."""
    what = suite.load(conversations=chats, users=users, **fields)
    before = server.page()
    with timing(where):
        run = suite.put(server, what)
    if count:
        add_sessions(suite.metrics, where, run)
        suite.metrics.add(where, **servers.cache_metrics(server, before), command=server.command)


def measure_chats(suite):
    args = suite.args
    count = args.users * args.conversations
    if args.dialogues:
        dialogues = read_dialogues(args.dialogues)
        chats = [dialogues[i % len(dialogues)] for i in range(count)]
        what = "dialogues of a file, answers as long as the file's"
    else:
        chats = [random_chat(args, i, args.turns, args.first_tokens) for i in range(count)]
        what = (f"{args.turns} turns; first messages, later ones and answers log-normal, medians {args.first_tokens}, "
                f"{args.input_tokens} and {args.output_tokens} tokens, spread {args.spread:g}")
    text = (f"{args.users} users, {args.conversations} conversation{'' if args.conversations == 1 else 's'} each of "
            f"{what}; think time {args.think_time:g} s, users begin {args.request_interval:g} s apart, "
            + (f"no message after {args.duration:g} s, " if args.duration else "") + f"seed {args.seed}")
    starts = {STATEFUL: suite.ropeway, STATELESS: lambda: suite.ropeway("--prefix-caching", "off"),
              LLAMA: lambda: suite.llama(args.users, max(map(tokens_of, chats)), 1024), SERVER: suite.given}
    names = [SERVER] if args.base_url else [name for name, other in ((STATEFUL, "stateless"), (STATELESS, "stateful"))
                                            if args.mode != other]
    names += [LLAMA] if suite.has_llama and not args.base_url else []
    for name in names:
        for where in suite.measuring(DIALOGUES if args.dialogues else CHATS, name):
            with starts[name]() as server:
                talk(suite, server, where, chats, args.users, think_time=args.think_time,
                     user_interval=args.request_interval, duration=args.duration)
                suite.metrics.add(where, load=text)


def measure_pool(suite):
    """Three times as many chats, in a pool that holds all of them or a third."""
    args = suite.args
    users = POOL_FACTOR * args.users
    chats = [chat_with_history(args, i) for i in range(users)]
    size = sum(map(tokens_of, chats)) * kv_bytes_per_token(suite)
    text = (f"{users} users, each with a history of {args.history_tokens} tokens; {POOL_TURNS} turns, think time "
            f"{args.think_time:g} s")
    with servers.disk_folder(args.disk_path) as disk:
        third = ["--kv-cache-size", size // POOL_FACTOR]
        # All: room for half-empty blocks too, and for those of chats that ended and are kept.
        systems = {ALL: ["--kv-cache-size", size + size // 4],
                   THIRD: [*third, "--kv-disk-path", disk, "--kv-disk-size", max(LEAST_DISK, 4 * size),
                           "--kv-disk-write-rate", POOL_WRITE_RATE],
                   THIRD_ALONE: third}
        for name, flags in systems.items():
            for where in suite.measuring(POOL, name) if not (args.quick and name == THIRD_ALONE) else ():
                with suite.ropeway(*flags) as server:
                    talk(suite, server, where, first_turns(chats), users, count=False)
                    suite.metrics.add(where, settle_s=settle(server), load=text)
                    talk(suite, server, where, later_turns(chats), users, think_time=args.think_time)


def measure_restart(suite):
    """The next turn of chats whose server was stopped and started again."""
    chats = [restarted_chat(suite.args, i) for i in range(suite.args.restart_chats)]
    with servers.disk_folder(suite.args.disk_path) as disk:
        for where in suite.measuring(RESTART, PREFILL):
            with suite.ropeway("--kv-disk-path", disk) as server:
                talk(suite, server, where, first_turns(chats), 1)
                suite.metrics.add(where, settle_s=settle(server))
        for where in suite.measuring(RESTART, NEXT_TURN):
            with suite.ropeway("--kv-disk-path", disk) as server:
                talk(suite, server, where, later_turns(chats), 1)


def kv_bytes_per_token(suite):
    """Of the model, in f16: two values of two bytes for each row of the K and V matrices."""
    text = suite.inspect()
    rows = sum(int(match[1]) for match in re.finditer(r"\.attn_k\.weight\s+\S+\s+\[\d+, (\d+)\]", text))
    if not rows:
        raise BenchError(f"--model: {suite.model} has no attn_k matrices")
    return 4 * rows


def settle(server):
    """Waits until the disk tier has written what it was given; says how long that took."""
    begin = last_change = time.monotonic()
    written = None
    while time.monotonic() - last_change < QUIET_SECONDS and time.monotonic() - begin < MOST_SETTLE_SECONDS:
        now = server.page().sum("ropeway_kv_disk_written_bytes_total")
        if now != written:
            written, last_change = now, time.monotonic()
        time.sleep(0.2)
    return last_change - begin


def add_sessions(metrics, where, run):
    """Metrics of all turns, and of each turn at x = 1, 2, ..."""
    good = [r for r in run.records if r.ok]
    for number in (None, *sorted({r.turn for r in good})):
        records = [r for r in good if number in (None, r.turn)]
        at = where if number is None else where.at(number + 1)
        metrics.add(at, turns=len(records), prefilled_tokens=sum(r.prefilled for r in records))
        metrics.add_distribution(at, "ttft", [r.ttft for r in records if r.ttft is not None])
    tells_cached = any(r.cached_tokens is not None for r in good)
    metrics.add(where, failed=len(run.records) - len(good), prompt_tokens=sum(r.input_tokens for r in good),
                cached_tokens=sum(r.cached_tokens or 0 for r in good) if tells_cached else None, wall_s=run.wall_s,
                turns_per_s=ratio(len(good), run.wall_s),
                output_tok_per_s=ratio(sum(r.output_tokens for r in good), run.wall_s),
                generator_cpu_share=run.cpu_share)


# Reporting.


def over(metrics, title, part, a, b, metric, form, target, at_most=False, xs=("", "")):
    x, y = metrics.median(part, a, metric, xs[0]), metrics.median(part, b, metric, xs[1])
    return Verdict(title, ratio(x, y), target, report.shown(form, x, y), at_most)


def verdicts(metrics):
    found = []
    rate, seconds = "{:.2f} / {:.2f} turns/s", "{:.3f} / {:.3f} s"
    if metrics.systems(CHATS):
        last = max(metrics.xs(CHATS, "ttft_p50_s"), key=int, default="1")
        found += [over(metrics, "chats: turns/s, stateful over stateless", CHATS, STATEFUL, STATELESS, "turns_per_s", rate,
                       2.5),
                  over(metrics, f"chats: TTFT of turn {last} over turn 1, stateful", CHATS, STATEFUL, STATEFUL,
                       "ttft_p50_s", seconds, 1.5, True, (last, "1"))]
    if metrics.systems(POOL):
        found.append(over(metrics, "pool: turns/s, a third of the chats in the pool and disk over all in the pool", POOL,
                          THIRD, ALL, "turns_per_s", rate, 0.8))
    if metrics.systems(RESTART):
        found.append(over(metrics, "restart: TTFT of the next turn over a full prefill", RESTART, NEXT_TURN, PREFILL,
                          "ttft_p50_s", seconds, 0.2, True))
    return found


def report_text(metrics, _args):
    text = report.verdict_table(verdicts(metrics))
    for part in (CHATS, DIALOGUES, POOL, RESTART):
        table = report.system_table(metrics, part, COLUMNS)
        if table and part != RESTART:
            ttft = report.cross_table(metrics, part, "turn", Column("Median TTFT by turn, seconds:", "ttft_p50_s", 1, 3))
            prefilled = report.cross_table(metrics, part, "turn",
                                           Column("Tokens prefilled by turn, all users:", "prefilled_tokens"))
            table += f"\n{ttft}\n{prefilled}"
        text += report.section(part, table)
    return text


def draw(axes, metrics):
    plot.metric_bars(axes[0], metrics, CHATS, "turns_per_s", "chats: turns/s")
    plot.metric_lines(axes[1], metrics, CHATS, "ttft_p50_s", "chats: median TTFT, s", "turn")
    plot.metric_bars(axes[2], metrics, POOL, "turns_per_s", "three times the chats that fit: turns/s")
    plot.metric_bars(axes[3], metrics, RESTART, "ttft_p50_s", "TTFT, s")
