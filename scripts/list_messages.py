#!/usr/bin/env python3
"""list_messages.py [--files] [ROOT]: prints what the program may say to people, one message a line.

It reads the strings in the sources of src/ and joins those that make one message: what stands between them is
printed as {expression}. Strings without two words (names, keys, formats) are left out, and so are tests.
--files prints FILE:LINE in front of each message; without it two lists can be compared with diff.
"""

import argparse
import pathlib
import re

# Raw strings, comments, strings and characters of C++, so that a quote in one is not taken for another.
TOKENS = re.compile(r'R"(?P<tag>[^ ()\\\n]{0,16})\((?P<raw>.*?)\)(?P=tag)"'
                    r'|(?P<comment>//[^\n]*|/\*.*?\*/)'
                    r'|"(?P<text>(?:[^"\\\n]|\\.)*)"'
                    r"|(?<![0-9A-Za-z])'(?:[^'\\\n]|\\.)+'", re.DOTALL)
ESCAPES = {"n": "\\n", "t": "\\t", '"': '"', "\\": "\\"}


def plain(text):
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found.group(1), found.group(0)), text)


def joins(between):
    """The expression between two strings of one message, or None where the second starts another message."""
    between = between.strip()
    if not between:
        return ""
    for sign in ("+", "<<"):
        if between == sign:
            return ""
        if between.startswith(sign) and between.endswith(sign):
            middle = between[len(sign):-len(sign)].strip()
            if ";" not in middle and len(middle) < 200 and middle.count("(") == middle.count(")"):
                return "{" + " ".join(middle.split()) + "}"
    return None


def messages(text):
    """Yields (line, message) for each message of one file."""
    current, start, end = None, 0, 0
    for found in TOKENS.finditer(text):
        if found.group("comment") is not None:
            if current is not None and not text[end:found.start()].strip():
                end = found.end()
            continue
        piece = found.group("raw")
        if piece is None:
            piece = found.group("text")
        if piece is None:
            continue
        piece = plain(piece)
        middle = joins(text[end:found.start()]) if current is not None else None
        if middle is None:
            if current is not None:
                yield start, current
            current, start = piece, text.count("\n", 0, found.start()) + 1
        else:
            current += middle + piece
        end = found.end()
    if current is not None:
        yield start, current


def is_message(text):
    words = re.findall(r"(?<![\w-])[A-Za-z][a-z']+(?![\w-])", re.sub(r"\{.*?\}", "", text))
    return len(words) >= 2 and " " in text.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    arguments = parser.parse_args()
    for path in sorted((arguments.root / "src").rglob("*")):
        if path.suffix not in (".cc", ".h") or path.stem.endswith("_test") or path.name.startswith("test_"):
            continue
        text = re.sub(r"^\s*#include[^\n]*", "", path.read_text(), flags=re.MULTILINE)
        for line, message in messages(text):
            if is_message(message):
                place = f"{path.relative_to(arguments.root)}:{line}: " if arguments.files else ""
                print(place + " ".join(message.split("\n")).strip())


if __name__ == "__main__":
    main()
