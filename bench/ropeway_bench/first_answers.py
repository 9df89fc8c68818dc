"""The first answers of models that anyone can fetch, as a newcomer sees them: how long the download and the first
answer take, and what the models say to 20 plain questions at several settings of sampling.

The default model and its sampling settings (src/hub/registry.cc) follow from what it finds. A model without a chat
template gets each question as a text that its answer completes. What counts as right is a pattern, which knows no
style: the page shows the answers.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from ropeway_bench import BenchError, plot, report
from ropeway_bench.report import Column
from ropeway_bench.suite import timing, whole

TITLE = "First answers"
DOWNLOAD, FIRST, ANSWERS = "download", "first answer", "answers"
PANELS = 2
NEEDS_MODEL = False
MODELS = ("smollm2-135m", "gemma3-270m")
STOPS = ["\n\n", "\nQuestion"]  # Where a completed text goes on to the next question.
NO_TEMPLATE = "It has no chat template"
GRAM = 4  # Words that count as repeated where they come again.


@dataclasses.dataclass(frozen=True)
class Question:
    """`expected`: a regular expression that a right answer has somewhere."""
    text: str
    expected: str

    def is_answered_by(self, answer):
        return re.search(self.expected, answer, re.IGNORECASE) is not None


QUESTIONS = (
    Question("What is the capital of France?", r"\bParis\b"),
    Question("How many legs does a spider have?", r"\b(8|eight)\b"),
    Question("What colour is the sky on a clear day?", r"\bblue\b"),
    Question("What is 7 plus 5?", r"\b(12|twelve)\b"),
    Question("Which planet is called the red planet?", r"\bMars\b"),
    Question("Who wrote Romeo and Juliet?", r"\bShakespeare\b"),
    Question("What do bees make?", r"\bhoney\b"),
    Question("What is the opposite of hot?", r"\bcold\b"),
    Question("At how many degrees Celsius does water boil?", r"\b100\b"),
    Question("Name a fruit that is yellow.", r"\b(banana|lemon|pineapple|mango|quince|pear)s?\b"),
    Question("What is the largest ocean on Earth?", r"\bPacific\b"),
    Question("What is 'good morning' in French?", r"\bbonjour\b"),
    Question("Why is the sea salty?", r"\b(minerals?|rocks?|rivers?|dissolv\w+|sodium)\b"),
    Question("Write one sentence about a cable car in the mountains.", r"\bcable (car|way)s?\b"),
    Question("How many days does a week have?", r"\b(7|seven)\b"),
    Question("Which gas do plants take from the air?", r"\b(carbon dioxide|CO2|CO₂)\b"),
    Question("Give me three tips for sleeping better.", r"\b(bed\w*|screens?|caffeine|dark|quiet|schedule|relax\w*)\b"),
    Question("What is the first month of the year?", r"\bJanuary\b"),
    Question("Is a whale a fish or a mammal?", r"\bmammal\b"),
    Question("How do you say 'hello' in Spanish?", r"\bhola\b"),
)
SAMPLING = {
    "as it comes": (),
    "greedy": ("--temperature", "0"),
    "greedy, penalty 1.1": ("--temperature", "0", "--repetition-penalty", "1.1"),
    "0.2, top_p 0.9": ("--temperature", "0.2", "--top-p", "0.9"),
    "0.2, top_p 0.9, penalty 1.1": ("--temperature", "0.2", "--top-p", "0.9", "--repetition-penalty", "1.1"),
    "0.7, top_p 0.9, min_p 0.05": ("--temperature", "0.7", "--top-p", "0.9", "--min-p", "0.05"),
}

COUNTS = [Column("right", "right"), Column("ended by itself", "ended"), Column("repeated %", "repeated", 100, 1),
          Column("tokens each", "tokens", 1, 0)]
TIMES = {DOWNLOAD: [Column("MB", "bytes", 1e-6), Column("download s", "seconds", 1, 1)],
         FIRST: [Column("until its first word s", "first_text_s", 1, 2), Column("until its end s", "whole_s", 1, 2)]}


def add_flags(parser):
    parser.add_argument("--name", metavar="NAME", action="append", default=[],
                        help=f"of a model, as `ropeway run` takes it; may be repeated (default: {', '.join(MODELS)})")
    parser.add_argument("--cached", action="store_true", help="use fetched models; no download is timed")
    parser.add_argument("--questions", type=whole(1, len(QUESTIONS)), default=len(QUESTIONS), help="so many of them")
    parser.add_argument("--max-tokens", type=whole(1, 10000), default=128, help="of each answer")


def make_quick(args):
    args.cached, args.questions, args.max_tokens = True, min(args.questions, 4), min(args.max_tokens, 32)


def measure(suite):
    for name in suite.args.name or MODELS:
        with contextlib.ExitStack() as stack:
            environment = dict(os.environ)
            if not suite.args.cached:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ropeway-bench-"))
                environment["XDG_CACHE_HOME"] = folder
                measure_download(suite, name, environment)
            measure_model(suite, name, environment)


def call(suite, environment, *words):
    """What `ropeway` with these words prints."""
    reply = subprocess.run([suite.program, *map(str, words)], capture_output=True, text=True, check=False,
                           env=environment)
    if reply.returncode:
        raise BenchError((reply.stderr.strip().splitlines() or ["ropeway failed"])[-1].removeprefix("ropeway: "))
    return reply.stdout


def measure_download(suite, name, environment):
    """Into an empty folder of models."""
    for where in suite.measuring(DOWNLOAD, name):
        begin = time.monotonic()
        path = pathlib.Path(call(suite, environment, "models", "pull", name).strip())
        seconds = time.monotonic() - begin
        files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
        suite.metrics.add(where, seconds=seconds, bytes=sum(file.stat().st_size for file in files),
                          command=f"ropeway models pull {name}")


def measure_model(suite, name, environment):
    verdict = subprocess.run([suite.program, "inspect", name], capture_output=True, text=True, check=False,
                             env=environment)
    if verdict.returncode:
        raise BenchError((verdict.stderr or verdict.stdout).strip().splitlines()[-1].removeprefix("ropeway: "))
    raw = NO_TEMPLATE in verdict.stdout
    for where in suite.measuring(FIRST, name):
        with timing(where):
            measure_first(suite, name, environment, raw, where)
    for variant, flags in SAMPLING.items():
        for where in suite.measuring(ANSWERS, f"{name}, {variant}"):
            measure_answers(suite, name, environment, (raw, flags), where)


def prompt_of(question, raw):
    return f"Question: {question.text}\nAnswer:" if raw else question.text


def run_words(suite, name, raw):
    words = ["run", "--model", name, "--threads", suite.threads, "--max-tokens", suite.args.max_tokens]
    return words + (["--raw", *(word for stop in STOPS for word in ("--stop", stop))] if raw else [])


def measure_first(suite, name, environment, raw, where):
    """From the command's start: the model is loaded, too."""
    words = [*run_words(suite, name, raw), "--temperature", 0, prompt_of(QUESTIONS[0], raw)]
    begin = time.monotonic()
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
            [suite.program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env=environment) as process:
        first = process.stdout.read(1)
        first_text = time.monotonic() - begin
        answer = (first + process.stdout.read()).decode(errors="replace")
        code = process.wait()
        whole_s = time.monotonic() - begin
        errors.seek(0)
        if code:
            raise BenchError(errors.read().decode(errors="replace").strip().removeprefix("ropeway: "))
    suite.metrics.add(where, first_text_s=first_text, whole_s=whole_s, answer=answer.strip(),
                      command=f"ropeway run --model {name}{' --raw' if raw else ''} --temperature 0 "
                              f"--max-tokens {suite.args.max_tokens}")


def measure_answers(suite, name, environment, how, where):
    """`how`: whether texts are completed, and the flags of sampling. Each question of a round has a seed of its own."""
    raw, flags = how
    questions = QUESTIONS[:suite.args.questions]
    with tempfile.TemporaryDirectory(prefix="ropeway-bench-") as folder:
        prompts, answers = pathlib.Path(folder, "prompts.jsonl"), pathlib.Path(folder, "answers.jsonl")
        prompts.write_text("".join(json.dumps({"prompt": prompt_of(question, raw), "seed": where.round * 1000 + number})
                                   + "\n" for number, question in enumerate(questions)), encoding="utf-8")
        call(suite, environment, *run_words(suite, name, raw), *flags, "--prompts", prompts, "--output", answers)
        lines = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    if len(lines) != len(questions):
        raise BenchError(f"{name} answered {len(lines)} of {len(questions)} questions")
    found = [values_of(questions[line["index"] - 1], line) for line in lines]
    for line, values in zip(lines, found):
        suite.metrics.add(where.at(line["index"]), answer=line["text"].strip(), **values)
    sums = {metric: sum(values[metric] for values in found) for metric in found[0]}
    suite.metrics.add(where, right=sums["right"], ended=sums["ended"], repeated=sums["repeated"] / len(found),
                      tokens=sums["tokens"] / len(found), command=f"ropeway run {' '.join(flags)}".strip(),
                      load=f"{len(questions)} questions")


def values_of(question, line):
    return {"right": int(question.is_answered_by(line["text"])), "ended": int(line["finish_reason"] == "stop"),
            "repeated": repeated(line["text"]), "tokens": line["completion_tokens"]}


def repeated(text):
    """The share of its sequences of four words that it said before."""
    words = text.lower().split()
    grams = [tuple(words[i:i + GRAM]) for i in range(len(words) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


# The report.


def models_of(metrics):
    return list(dict.fromkeys(system.rpartition(f", {variant}")[0] for system in metrics.systems(ANSWERS)
                              for variant in SAMPLING if system.endswith(f", {variant}")))


def merit(metrics, system):
    """What the better of two systems has more of: right answers, ends, and fewer repetitions."""
    values = [metrics.median(ANSWERS, system, metric) or 0 for metric in ("right", "ended", "repeated")]
    return values[0], values[1], -values[2]


def best(metrics, model):
    """The system of a model, with the sampling that suits it best."""
    return max((system for system in metrics.systems(ANSWERS) if system.startswith(f"{model}, ")),
               key=lambda system: merit(metrics, system))


def answers_of(metrics, system):
    """{number of the question: answer} of the last round."""
    return {int(row["x"]): row["value"] for row in metrics.rows
            if (row["part"], row["system"], row["metric"]) == (ANSWERS, system, "answer") and row["x"]}


def answers_text(metrics):
    """Each question with the answer of each model at its best."""
    systems = [best(metrics, model) for model in models_of(metrics)]
    answers = {system: answers_of(metrics, system) for system in systems}
    text = ""
    for number in sorted({number for found in answers.values() for number in found}):
        question = QUESTIONS[number - 1]
        text += f"\n**{question.text}**\n\n"
        for system in systems:
            answer = answers[system].get(number, "")
            mark = "" if question.is_answered_by(answer) else " (not what was expected)"
            text += f"- {system}{mark}: {' '.join(answer.split()) or '(nothing)'}\n"
    return text


def times_text(metrics):
    return "".join(table + "\n" for part, columns in TIMES.items()
                   if (table := report.system_table(metrics, part, columns)))


def report_text(metrics, _args):
    text = times_text(metrics) + report.system_table(metrics, ANSWERS, COUNTS)
    ranked = sorted(models_of(metrics), key=lambda model: merit(metrics, best(metrics, model)), reverse=True)
    if ranked:
        text += (f"\nMost answers are right with: {best(metrics, ranked[0])}. At its best, each model says "
                 "(white space is joined):\n")
    return text + answers_text(metrics)


def embeds(metrics):
    return {"first-answers": times_text(metrics) + report.system_table(metrics, ANSWERS, COUNTS)}


def draw(axes, metrics):
    plot.metric_bars(axes[0], metrics, ANSWERS, "right", "right answers")
    plot.metric_bars(axes[1], metrics, FIRST, "first_text_s", "until the first word, s")
