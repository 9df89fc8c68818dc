"""Reads what stands before a GGUF file's tensors. (Of a large vocabulary the package gguf makes an object for each
token, which takes seconds.)"""
import struct

STRING, ARRAY = 8, 9
FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class GgufReader:
    """Takes values from a file's bytes, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, version, self.num_tensors, self.num_entries = self.numbers("4sIQQ")
        assert magic == b"GGUF" and version in (2, 3), (magic, version)

    def numbers(self, form):
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def text(self):
        length, = self.numbers("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.numbers(FORMS[kind])[0]
        kind, count = self.numbers("IQ")
        if kind in FORMS:
            return list(self.numbers(f"{count}{FORMS[kind]}"))
        return [self.value(kind) for _ in range(count)]

    def metadata(self):
        """Each key's value and the position where its bytes end."""
        found = {}
        for _ in range(self.num_entries):
            key = self.text()
            found[key] = self.value(*self.numbers("I")), self.at
        return found
