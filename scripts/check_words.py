#!/usr/bin/env python3
"""check_words.py [ROOT]: fails where a comment in C++ has a word or a turn of phrase that reads badly.

Each line of WORDS says what to write instead. It prints one line for each find, as FILE:LINE. Where such a
word is right, as "who" is of people, add the line to EXCEPTIONS with the reason.
"""

import pathlib
import re
import sys

FOLDERS = ("src", "include", "sim", "bench", "fuzz", "examples", "tests")

# A pattern, without regard to case, and what to write instead.
WORDS = [
    (r"likewise", "say it again in full: each comment stands for itself"),
    (r"as (is|are|do|does|for) the (next|last)( \w+)?", "say it at each member, or once in a heading"),
    (r"guarded by \w*mu(tex)?_?", "write GUARDED_BY(mutex) at each member"),
    (r"(?<!all )(?<!any )(?<!both )(?<!each )(?<!most )(?<!none )(?<!some )of which", "make it a sentence"),
    (r"who|whoever|whom|nobody|somebody", "name the request, thread, client or server: these are no people"),
    (r"(is|are|was|be) gone on with", "write: is resumed"),
]

# A file, and a text in one of its comments that may stay.
EXCEPTIONS = [
    ("src/core/block_name.h", "an attacker who finds a collision"),  # A person.
]

TOKENS = re.compile(r'R"([^ ()\\\n]{0,16})\(.*?\)\1"'  # Raw strings, strings and characters: no comments.
                    r'|"(?:[^"\\\n]|\\.)*"'
                    r"|(?<![0-9A-Za-z])'(?:[^'\\\n]|\\.)+'"
                    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", re.DOTALL)


def comments(text):
    """Yields (line, comment); line comments below each other are one comment of several lines."""
    last, lines = 0, []
    for found in TOKENS.finditer(text):
        if found.lastgroup not in ("line", "block"):
            continue
        line = text.count("\n", 0, found.start()) + 1
        if lines and line != last + 1:
            yield last - len(lines) + 1, lines
            lines = []
        parts = [part.strip().lstrip("/*").strip() for part in found.group().split("\n")]
        lines = lines + parts
        last = line + len(parts) - 1
    if lines:
        yield last - len(lines) + 1, lines


def finds(name, text, used):
    """What is wrong in one file. Adds to `used` the exceptions that it needs."""
    for first, lines in comments(text):
        joined = " ".join(lines)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        for pattern, advice in WORDS:
            for found in re.finditer(rf"\b(?:{pattern})\b", joined, re.IGNORECASE):
                excepted = [(file, phrase) for file, phrase in EXCEPTIONS if file == name and any(
                    place.start() <= found.start() and found.end() <= place.end()
                    for place in re.finditer(re.escape(phrase), joined))]
                used.update(excepted)
                if not excepted:
                    at = first + sum(start <= found.start() for start in starts) - 1
                    yield f'{name}:{at}: "{found.group()}": {advice}'


def check(root):
    """What is wrong in the tree, as lines to print."""
    used, wrong = set(), []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                name = path.relative_to(root).as_posix()
                wrong += finds(name, path.read_text(encoding="utf-8"), used)
    wrong += [f'{file}: the exception "{phrase}" is not needed' for file, phrase in EXCEPTIONS
              if (file, phrase) not in used]
    return wrong


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    wrong = check(root)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
