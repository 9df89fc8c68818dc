"""`ropeway serve` beside llama-server on the same file, by the number of users: the README's picture.

As http, without llama-server's own format, and with more numbers of users. Run it on a machine that should do nothing else.
"""
import dataclasses

from ropeway_bench import http

TITLE = "Over HTTP, by users"
PANELS = http.PANELS
prepare, measure = http.prepare, http.measure
COMPARISON = dataclasses.replace(http.COMPARISON, targets=tuple(t for t in http.TARGETS if t.peers == http.SAME))
verdicts, embeds = COMPARISON.verdicts, COMPARISON.embeds
report_text, draw = COMPARISON.report_text, COMPARISON.draw


def add_flags(parser):
    http.add_flags(parser)
    parser.set_defaults(users=[1, 4, 16, 32])


def make_quick(args):
    http.make_quick(args)
    args.users = [1, 4]
