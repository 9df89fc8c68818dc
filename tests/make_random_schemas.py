#!/usr/bin/env python3
"""make_random_schemas.py SEED COUNT: prints random schemas, one a line: {name, schema}.

Each is made of a few keywords, which may contradict each other, with small numbers and few names, so that what each
keyword rules out is met often. schemas_test.py walks them.
"""
import json
import random
import sys

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
NAMES = ("a", "b", "c", "é")
VALUES = ("a", "b", "", 0, 1, 1.0, 2, -1, 1.5, True, False, None, [], [1], {}, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1})
FORMATS = ("date", "date-time", "time", "uuid", "email", "ipv4")
PATTERNS = ("^[a-c]{2,3}$", "^(a|bb)*$", "^\\d+$", "^[^a]$", "^a.c$", "b", "^a", "a$")


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, of, least=1, most=3):
        return [self.random.choice(of) for _ in range(self.random.randint(least, most))]

    def maybe(self, schema, keyword, make, chance=0.3):
        if self.random.random() < chance:
            schema[keyword] = make()

    def count(self):
        return self.random.randint(0, 3)

    def bound(self):
        return self.random.choice((self.random.randint(-20, 20), self.random.randint(-200, 2000) / 10))

    def schema(self, depth):
        """Any schema."""
        kinds = [self.of_type, self.of_type, self.values, self.reference]
        if depth > 0:
            kinds += [self.union, self.union, self.wrapped]
        schema = self.random.choice(kinds)(depth)
        self.maybe(schema, "title", lambda: "T", 0.1)
        return schema

    def of_type(self, depth):
        kind = self.random.choice(TYPES if depth > 0 else TYPES[:5])
        schema = {}
        self.maybe(schema, "type", lambda: kind if self.random.random() < 0.8 else sorted({kind, *self.some(TYPES, 1, 2)}), 0.9)
        getattr(self, f"add_{kind}")(schema, depth)
        return schema

    def add_null(self, schema, depth):
        pass

    def add_boolean(self, schema, depth):
        pass

    def add_number(self, schema, depth):
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            self.maybe(schema, keyword, self.bound, 0.15)

    add_integer = add_number

    def add_string(self, schema, depth):
        self.maybe(schema, "minLength", self.count)
        self.maybe(schema, "maxLength", lambda: self.random.randint(0, 6))
        self.maybe(schema, "pattern", lambda: self.random.choice(PATTERNS), 0.1)
        self.maybe(schema, "format", lambda: self.random.choice(FORMATS), 0.1)

    def add_array(self, schema, depth):
        self.maybe(schema, "items", lambda: self.child(depth), 0.8)
        self.maybe(schema, "prefixItems", lambda: [self.child(depth) for _ in range(self.random.randint(1, 3))], 0.2)
        self.maybe(schema, "minItems", self.count)
        self.maybe(schema, "maxItems", self.count)
        self.maybe(schema, "uniqueItems", lambda: self.random.random() < 0.7, 0.2)

    def add_object(self, schema, depth):
        self.maybe(schema, "properties", lambda: {name: self.child(depth) for name in self.some(NAMES, 0, 4)}, 0.8)
        self.maybe(schema, "required", lambda: sorted(set(self.some(list(schema.get("properties") or NAMES), 0, 3))), 0.5)
        self.maybe(schema, "additionalProperties", lambda: self.child(depth))
        self.maybe(schema, "propertyNames", lambda: self.random.choice(
            ({"enum": self.some(NAMES)}, {"maxLength": 1}, {"minLength": 1}, True)), 0.1)
        self.maybe(schema, "minProperties", self.count, 0.2)
        self.maybe(schema, "maxProperties", self.count, 0.2)

    def child(self, depth):
        return self.random.choice((True, False, {})) if self.random.random() < 0.1 else self.schema(depth - 1)

    def values(self, depth):
        schema = {"const": self.random.choice(VALUES)} if self.random.random() < 0.4 else {"enum": self.some(VALUES, 1, 4)}
        self.maybe(schema, "type", lambda: self.random.choice(TYPES), 0.2)
        return schema

    def reference(self, depth):
        schema = {"$ref": self.random.choice(("#/$defs/a", "#/$defs/b", "#"))}
        self.maybe(schema, "type", lambda: sorted(set(self.some(TYPES))), 0.1)
        return schema

    def union(self, depth):
        keyword = self.random.choice(("anyOf", "oneOf"))
        schema = {keyword: [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]}
        self.maybe(schema, "type", lambda: sorted(set(self.some(TYPES, 1, 5))), 0.3)
        return schema

    def wrapped(self, depth):
        schema = {"allOf": [self.schema(depth - 1)]}
        self.maybe(schema, "type", lambda: sorted(set(self.some(TYPES))), 0.15)
        return schema

    def root(self):
        schema = self.schema(3)
        return {**schema, "$defs": {"a": self.schema(2), "b": self.schema(1)}}


def schemas(seed, count):
    maker = Maker(seed)
    return [json.dumps({"name": f"random {seed} {i}", "schema": maker.root()}, ensure_ascii=False) for i in range(count)]


if __name__ == "__main__":
    print("\n".join(schemas(int(sys.argv[1]), int(sys.argv[2]))))
