#!/usr/bin/env python3
"""check_layers.py [ROOT]: holds every #include against the table of rooms, and with it every room's
DEPS in CMake and the table in docs/architecture.md.

Prints one line for each arrow that is not allowed, each cycle and each unknown room; exit code 1
if there is one. A file named x_test.cc, or test_x.{h,cc}, is a test: it may include any
room, and only tests may include it.

A cycle is one of units. A unit is a header and its source, x.h and x.cc. A header of include/ropeway belongs
to the source of its name that includes it first: include/ropeway/engine.h to src/engine/engine.cc. A room that
includes it must be allowed the source's room, too.
"""

import pathlib
import re
import sys

# The rooms (docs/architecture.md), lowest first, and what each may include besides itself and
# include/ropeway. An entry with a slash opens one header only.
ALLOWED = {
    "base": [],
    "net": ["base"],
    "answer": ["base"],
    "core": ["base"],
    "tokenizer": ["base"],
    "grammar": ["base", "core", "answer", "tokenizer"],
    "kernels": ["base"],
    "gpu": ["base", "kernels"],
    "model": ["base", "core", "kernels/number_types.h"],
    "sampling": ["base", "core", "kernels"],
    "kvcache": ["base", "core"],
    "policy": ["base", "core"],
    "scheduler": ["base", "core", "policy", "kvcache"],
    "executor": ["base", "core", "kernels", "gpu", "model", "sampling"],
    "store": ["base"],
    "service": ["base", "core", "scheduler", "store"],
    "engine": ["base", "core", "answer", "tokenizer", "grammar", "kernels", "gpu", "model", "kvcache", "policy", "scheduler",
               "executor", "store", "service"],
    "http": ["base", "net"],  # Of net only what compiles Asio.
    "api": ["base", "core", "net", "http/http_error.h"],  # The gateway's library, which programs link, holds it.
    "server": ["base", "core", "net", "http", "api", "store", "service"],
    "gateway": ["base", "core", "net", "api", "policy", "scheduler", "store", "service"],
    "flags": ["base"],
    "loadgen": ["base", "flags", "net"],
    "hub": ["base", "core", "net"],
    "cli": ["base", "core", "tokenizer", "model", "executor", "store", "service", "engine", "net", "http", "api",
            "server", "gateway", "flags", "hub"],
}
PUBLIC = "include"  # include/ropeway: includes no room; open to every room that may include its source's.
WIRING = "main"  # src/main.cc: the only program file that may include every room.
OUTSIDE = ["sim", "bench", "tests", "examples", "fuzz", "python"]  # May include anything; no room includes them.

SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".inc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*(?:include|import)[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# A row of the table in docs/architecture.md: room, what it is, its arrows.
DOCUMENTED = re.compile(r"^\| `src/(\w+)/` \|.*\| ([^|]*) \|$", re.MULTILINE)
ROOM_DEPS = re.compile(r"ropeway_room\(\s*(\w+)([^)]*)\)")


def is_test(path):
    return path.stem.endswith("_test") or path.name.startswith("test_")


def room_of(path):
    """The room (or PUBLIC, WIRING or an outside folder) that `path`, relative to the root, is in. An
    outside folder's name ends in a slash."""
    parts = path.parts
    if parts[0] in OUTSIDE:
        return parts[0] + "/"
    if parts[0] != "src":
        return parts[0]
    if parts == ("src", "main.cc"):
        return WIRING
    return parts[1] if len(parts) > 2 else str(path)


def find_cycle(arrows):
    """One cycle in the graph {node: nodes} as a list that ends where it starts, or None."""
    done, trail = set(), []

    def visit(node):
        if node in trail:
            return trail[trail.index(node):] + [node]
        if node in done:
            return None
        trail.append(node)
        for following in sorted(arrows.get(node, ())):
            cycle = visit(following)
            if cycle:
                return cycle
        trail.pop()
        done.add(node)
        return None

    for node in sorted(arrows):
        cycle = visit(node)
        if cycle:
            return cycle
    return None


class Tree:
    """The sources of one checkout and the arrows between them."""

    def __init__(self, root):
        self.root = root
        self.files = sorted(
            p.relative_to(root)
            for folder in ["src", PUBLIC] + OUTSIDE
            for p in (root / folder).rglob("*")
            if p.suffix in SUFFIXES
        )
        self.known = set(self.files)

    def resolve(self, source, quote, name):
        """The file of ours that this #include means, relative to the root; None for a library's."""
        bases = [pathlib.Path("src"), pathlib.Path(PUBLIC), pathlib.Path()]
        if quote == '"':
            bases.insert(0, source.parent)
        for base in bases:
            path = pathlib.Path(*_normal((base / name).parts))
            if path in self.known:
                return path
        return None

    def arrows(self):
        """Yields (source, target or None, the name as written)."""
        for source in self.files:
            text = COMMENT.sub("", (self.root / source).read_text(errors="replace"))
            for quote, name in INCLUDE.findall(text):
                yield source, self.resolve(source, quote, name), name

    def units(self):
        """{file: its unit}, which is a path without suffix."""
        units = {path: str(path.with_suffix("")) for path in self.files}
        begun = set()
        for source, target, _ in self.arrows():
            if (source not in begun and target and target.stem == source.stem
                    and room_of(target) == PUBLIC != room_of(source)):
                units[target] = units[source]
            begun.add(source)
        return units


def _normal(parts):
    result = []
    for part in parts:
        if part == ".." and result:
            result.pop()
        elif part != ".":
            result.append(part)
    return result


def arrow_error(source, target, unit):
    """Why the file `source` may not include the file `target`, which is part of `unit`, or None."""
    here, there = room_of(source), room_of(target)
    if is_test(target) and not is_test(source) and not here.endswith("/"):
        return "only tests may include a test's file"
    if here == there or here.endswith("/"):
        return None
    if there.endswith("/"):
        return f"nothing in src or include may include {there}"
    if here == PUBLIC:
        return "include/ropeway includes no room"
    if here == WIRING or is_test(source):
        return None
    inside = "/".join(target.parts[1:])
    if there == PUBLIC:
        there = room_of(pathlib.Path(unit + ".cc"))
    if there in (PUBLIC, here) or there in ALLOWED.get(here, ()) or inside in ALLOWED.get(here, ()):
        return None
    return f"{here} may include only: {', '.join(ALLOWED.get(here, [])) or 'include/ropeway'}"


def check(root):
    """All that is wrong in the checkout at `root`, one line each."""
    problems = []
    cycle = find_cycle({room: {d.split("/")[0] for d in deps} for room, deps in ALLOWED.items()})
    if cycle:
        problems.append("cycle in the table of rooms: " + " -> ".join(cycle))

    tree = Tree(root)
    for source in tree.files:
        room = room_of(source)
        if source.parts[0] == "src" and room not in ALLOWED and room != WIRING:
            problems.append(f"{source}: no room of the table")

    units, graph = tree.units(), {}
    for source, target, name in tree.arrows():
        if target is None:
            if name.split("/")[0] in list(ALLOWED) + ["ropeway"] + OUTSIDE:
                problems.append(f"{source}: includes {name}, which does not exist")
            continue
        arrow = units[source], units[target]
        if arrow[0] != arrow[1]:
            graph.setdefault(arrow[0], set()).add(arrow[1])
        error = arrow_error(source, target, units[target])
        if error:
            problems.append(f"{source}: includes {target}: {error}")
    cycle = find_cycle(graph)
    if cycle:
        problems.append("cycle: " + " -> ".join(cycle))

    return problems + differences(root)


def differences(root):
    """Where the build and docs/architecture.md say other arrows than the table, one line each."""
    said = []  # (file, room, the arrows that it has there)
    for lists in sorted((root / "src").glob("*/CMakeLists.txt")):
        for room, rest in ROOM_DEPS.findall(lists.read_text()):
            deps = re.search(r"\bDEPS\b((?:\s+[a-z]\w*)*)", rest)
            headers = [d for d in ALLOWED.get(room, ()) if "/" in d]  # Not linked.
            said.append((lists.relative_to(root), room, (deps.group(1).split() if deps else []) + headers))
    architecture = root / "docs/architecture.md"
    if architecture.exists():
        rows = dict(DOCUMENTED.findall(architecture.read_text()))
        said += [(architecture.relative_to(root), room, rows.get(room, "").replace("\u2013", "").split())
                 for room in ALLOWED]
    problems = []
    for file, room, arrows in said:
        allowed = set(ALLOWED.get(room, ()))
        problems += [f"{file}: {room} may not depend on {arrow}" for arrow in sorted(set(arrows) - allowed)]
        problems += [f"{file}: {room} lacks {arrow}" for arrow in sorted(allowed - set(arrows))]
    return problems


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    problems = check(root.resolve())
    problems += [f"the table has a room {room}, src/ has none" for room in ALLOWED
                 if not (root / "src" / room).is_dir()]
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
