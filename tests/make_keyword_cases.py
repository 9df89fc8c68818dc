#!/usr/bin/env python3
"""make_keyword_cases.py: prints cases of JSON Schema's keywords, one a line: {name, schema, texts: [[text, verdict]...]}.

The verdict is that of Python's jsonschema, with the formats that it can check: true or false, "notjson", "dup" (a key is
twice in an object), or "oracle" with the error of a schema that jsonschema itself cannot use. The output is kept in
tests/data/schemas/keywords.jsonl, which src/grammar/schema_ebnf_test.cc reads.
"""
import json

import jsonschema

CASES = []  # (name, schema, texts)


def text(value):
    return json.dumps(value)


def case(name, schema, *values):
    """Strings are JSON texts, other values are written as JSON."""
    CASES.append((name, schema, [value if isinstance(value, str) else text(value) for value in values]))


# Forms.
case("type string", {"type": "string"}, text("a"), "1", "null")
case("type integer", {"type": "integer"}, "1", "1.0", "1e2", "1.5", text("1"), "-0", "01", "1E+2")
case("type number", {"type": "number"}, "1.5", "-1e-3", '"x"', "01", "1.", "1e5", "1E5", "+1", ".5")
case("type boolean", {"type": "boolean"}, "true", "1")
case("type null", {"type": "null"}, "null", "0")
case("type list", {"type": ["string", "null"]}, "null", text("a"), "1")
case("type list+minimum", {"type": ["integer", "string"], "minimum": 5}, "4", "5", text("a"))
case("enum", {"enum": ["a", 1, None, {"k": [1]}]}, text("a"), "1", "null", '{"k":[1]}', '{"k": [1]}', text("b"), "1.0")
case("enum+type", {"type": "string", "enum": ["a", 1]}, text("a"), "1")
case("enum+minLength", {"type": "string", "enum": ["a", "abc"], "minLength": 2}, text("a"), text("abc"))
case("const", {"const": {"a": [1, 2]}}, '{"a":[1,2]}', '{"a": [1, 2]}', '{"a":[1,3]}')
case("const+type", {"type": "string", "const": 5}, "5")
case("const float", {"const": 1.5}, "1.5", "1.50", "2")
case("const bigint", {"const": 12345678901234567890}, "12345678901234567890", "12345678901234567168", "1.2345678901234567e+19")
case("const unicode", {"const": "é\n\""}, '"é\\n\\""', '"\\u00e9\\n\\""', '"e"')
case("enum float", {"enum": [0.1, 1e300, -0.0]}, "0.1", "1e300", "1e+300", "0", "0.2")
case("allOf one", {"allOf": [{"type": "string", "maxLength": 2}]}, text("ab"), text("abc"))
case("allOf two", {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}, {"a": 1, "b": 2}, {"a": 1}, "5")
case("allOf+siblings", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "allOf": [{"required": ["b"]}]}, {"a": 1}, {"a": 1, "b": 1}, {"b": 1}, {"a": "x", "b": 1})
case("anyOf", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, text("a"), "1", "null")
case("anyOf+siblings", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]}, {"a": 1, "b": 1}, {"a": 1}, {"b": 1}, {"a": "x", "b": 1}, "5")
case("anyOf+sibling type", {"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^x"}]}, text("ab"), text("a"), "5")
case("oneOf disjoint", {"oneOf": [{"type": "string"}, {"type": "integer"}]}, text("a"), "1", "null")
case("oneOf overlap", {"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 5}]}, "1", "7")
case("oneOf objects const tag", {"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k", "x"], "additionalProperties": False}, {"type": "object", "properties": {"k": {"const": "b"}, "y": {"type": "string"}}, "required": ["k", "y"], "additionalProperties": False}]}, {"k": "a", "x": 1}, {"k": "b", "y": "s"}, {"k": "a", "y": "s"})
case("not", {"type": "string", "not": {"const": "a"}}, text("a"), text("b"))
case("not alone", {"not": {"type": "string"}}, text("a"), "1")
case("if then else", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, {"a": 1, "b": 2}, {"a": 2})
case("dependentRequired", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}}, {"a": 1}, {"a": 1, "b": 2}, {"b": 1})
case("dependentSchemas", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, {"a": 1, "b": 2}, {"b": 1})
case("dependencies(old)", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependencies": {"a": ["b"]}}, {"a": 1}, {"a": 1, "b": 2})
# References.
D = {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}}
case("$ref recursion", {**D, "$ref": "#/$defs/n"}, {"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": None}}, {"v": 1}, {"v": 1, "next": {"v": "x", "next": None}})
case("$ref #", {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#"}}, "v": {"type": "integer"}}, "required": ["v"], "additionalProperties": False}, {"v": 1}, {"c": [{"v": 1}], "v": 2}, {"c": [{"v": "x"}], "v": 2})
case("$ref+siblings", {"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "maxLength": 2}, text("ab"), text("abc"))
case("$ref ptr escape", {"$defs": {"a/b": {"type": "string"}}, "$ref": "#/$defs/a~1b"}, text("x"), "1")
case("$ref pct", {"$defs": {"a b": {"type": "string"}}, "$ref": "#/$defs/a%20b"}, text("x"), "1")
case("$ref array index", {"prefixItems": [{"type": "string"}], "items": {"$ref": "#/prefixItems/0"}, "type": "array"}, ["a", "b"], ["a", 1])
case("$anchor", {"$defs": {"s": {"$anchor": "S", "type": "string"}}, "$ref": "#S"}, text("x"), "1")
case("$id ref", {"$id": "http://x/y", "$defs": {"s": {"$id": "z", "type": "string"}}, "$ref": "z"}, text("x"), "1")
case("$dynamicRef", {"$dynamicAnchor": "n", "type": "object", "properties": {"c": {"$dynamicRef": "#n"}}, "additionalProperties": False}, {"c": {}}, {"c": 1})
case("$ref self loop", {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})
case("$ref mutual loop", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})
case("$ref anyOf left loop", {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}}, "$ref": "#/$defs/a"}, text("x"), "1")
case("$ref missing", {"$ref": "#/$defs/zz"}, "1")
case("$ref infinite object", {"$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "additionalProperties": False}}, "$ref": "#/$defs/a"}, "{}")
case("definitions", {"definitions": {"s": {"type": "string"}}, "$ref": "#/definitions/s"}, text("x"), "1")
# Objects.
P = {"a": {"type": "integer"}, "b": {"type": "string"}}
case("properties order", {"type": "object", "properties": P, "required": ["a", "b"], "additionalProperties": False}, {"a": 1, "b": "x"}, {"b": "x", "a": 1}, {"a": 1}, {"a": 1, "b": "x", "c": 1}, {"a": "1", "b": "x"})
case("required not in properties", {"type": "object", "required": ["z"]}, {"z": 1}, {}, {"y": 1})
case("required not in properties, closed", {"type": "object", "properties": P, "required": ["z"], "additionalProperties": False}, {"a": 1}, {"a": 1, "z": 1})
case("required w/o type", {"required": ["z"]}, {}, "1", {"z": 1})
case("properties w/o type", {"properties": P}, "5", {"a": 1}, {"a": "x"})
case("addl false", {"type": "object", "properties": P, "additionalProperties": False}, {"a": 1, "b": "x"}, {}, {"c": 1})
case("addl true dup typed", {"type": "object", "properties": P, "additionalProperties": True}, '{"a":1,"b":"x","a":"str"}', '{"z":1,"a":"str"}', {"a": 1, "z": [1]}, {"z": 1, "a": 2})
case("addl schema", {"type": "object", "properties": P, "additionalProperties": {"type": "boolean"}}, {"a": 1, "z": True}, {"a": 1, "z": 5}, {"a": True})
case("addl default, prop via additional", {"type": "object", "properties": P}, {"a": "x"}, {"b": "x", "a": "y"}, {"q": 1, "a": "y"}, {"q": 1})
case("duplicate keys closed", {"type": "object", "properties": P, "additionalProperties": False}, '{"a":1,"a":2}')
case("duplicate keys any", {"type": "object"}, '{"a":1,"a":2}')
case("patternProperties", {"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False}, {"x_a": 1}, {"x_a": "s"}, {"y": 1})
case("patternProperties+addl default", {"type": "object", "patternProperties": {"^x_": {"type": "integer"}}}, {"x_a": 1}, {"x_a": "s"}, {"y": "s"})
case("patternProperties unanchored", {"type": "object", "patternProperties": {"x": {"type": "integer"}}, "additionalProperties": False}, {"axb": 1}, {"axb": "s"}, {"y": 1})
case("patternProperties+properties", {"type": "object", "properties": P, "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False}, {"a": 1, "x_b": 2}, {"a": "s"}, {"x_b": "s"})
case("propertyNames", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, {"ab": 1}, {"AB": 1})
case("propertyNames maxLength", {"type": "object", "propertyNames": {"maxLength": 2}}, {"ab": 1}, {"abc": 1})
case("propertyNames+properties", {"type": "object", "properties": {"ABC": {"type": "integer"}}, "propertyNames": {"maxLength": 2}}, {"ABC": 1}, {"ab": 1})
case("minProperties", {"type": "object", "minProperties": 2}, {"a": 1}, {"a": 1, "b": 2})
case("minProperties dup", {"type": "object", "minProperties": 2}, '{"a":1,"a":2}')
case("maxProperties", {"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, {"a": 1})
case("minProperties+properties", {"type": "object", "properties": P, "minProperties": 1, "additionalProperties": False}, {}, {"a": 1})
case("maxProperties+properties", {"type": "object", "properties": P, "maxProperties": 1, "additionalProperties": False}, {"a": 1, "b": "x"}, {"a": 1})
case("unevaluatedProperties", {"type": "object", "properties": P, "unevaluatedProperties": False}, {"a": 1}, {"z": 1})
case("unevaluatedProperties+allOf", {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}], "unevaluatedProperties": False}, {"a": 1}, {"z": 1})
case("property false", {"type": "object", "properties": {"a": False}}, {}, {"a": 1}, {"b": 1})
case("property true", {"type": "object", "properties": {"a": True}, "required": ["a"], "additionalProperties": False}, {"a": [1]}, {})
case("false schema", False, "1")
case("true schema", True, "1")
case("empty schema", {}, "1", '{"a":[1,"x"]}')
# Arrays.
case("items", {"type": "array", "items": {"type": "integer"}}, [1, 2], ["a"], [])
case("items no type", {"items": {"type": "integer"}}, [1], ["a"], "5")
case("prefixItems", {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, [1, "a"], ["a"], [1], [1, "a", 2], [])
case("prefixItems open", {"type": "array", "prefixItems": [{"type": "integer"}]}, [1], [1, "z"], ["a"], [])
case("items array(old)", {"type": "array", "items": [{"type": "integer"}]}, [1], ["a"])
case("minItems", {"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1], [1, 2])
case("maxItems", {"type": "array", "items": {"type": "integer"}, "maxItems": 1}, [1, 2], [1])
case("maxItems 0", {"type": "array", "maxItems": 0}, [], [1])
case("min/max no type", {"minItems": 2}, [1], [1, 2])
case("uniqueItems", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 1], [1, 2])
case("uniqueItems false", {"type": "array", "items": {"type": "integer"}, "uniqueItems": False}, [1, 1])
case("contains", {"type": "array", "contains": {"const": 5}}, [1], [5])
case("minContains", {"type": "array", "contains": {"const": 5}, "minContains": 2}, [5, 1], [5, 5])
case("maxContains", {"type": "array", "contains": {"const": 5}, "maxContains": 1}, [5, 5], [5])
case("unevaluatedItems", {"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": False}, [1], [1, 2])
# Strings.
case("minLength", {"type": "string", "minLength": 2}, text("a"), text("ab"))
case("maxLength", {"type": "string", "maxLength": 2}, text("ab"), text("abc"))
case("maxLength escapes", {"type": "string", "maxLength": 1}, '"\\n"', '"\\u0041"', '"\\ud83d\\ude00"', '"😀"', '"\\u0041b"', '"\\n\\n"')
case("minLength escapes", {"type": "string", "minLength": 2}, '"\\n"', '"\\u0041"', '"\\ud83d\\ude00"', '"😀"')
case("maxLength ctrl", {"type": "string", "maxLength": 5}, '"a\nb"', '"a\tb"', '"a\x00b"', '"a\x1fb"', text("ab"))
case("minLength ctrl", {"type": "string", "minLength": 1}, '"a\nb"', text("ab"))
case("string ctrl", {"type": "string"}, '"a\nb"', '"a\x00b"', '"a\x7fb"', text("ab"))
case("string escapes", {"type": "string"}, '"\\q"', '"\\u12"', '"\\u0041"', '"\\/"', '"\\ud83d"', '"\\ude00"')
case("any string ctrl", {}, '"a\nb"', '"\\q"')
case("minLength no type", {"minLength": 2}, text("a"), text("ab"))
case("pattern anchored", {"type": "string", "pattern": "^[a-z]+$"}, text("ab"), text("AB"), text(""))
case("pattern unanchored", {"type": "string", "pattern": "[a-z]+"}, text("ab"), text("1ab2"), text("AB"))
case("pattern ^ only", {"type": "string", "pattern": "^ab"}, text("ab"), text("abc"), text("xab"))
case("pattern $ only", {"type": "string", "pattern": "ab$"}, text("ab"), text("xab"), text("abx"))
case("pattern dot", {"type": "string", "pattern": "^.$"}, text("a"), '"\\n"', '"\n"', '"""', '"\\"', text("é"), '"\\u0041"')
case("pattern \\d \\w \\s", {"type": "string", "pattern": "^\\d\\w\\s$"}, text("1a "), text("aa "), '"1a\\t"', '"1a\t"')
case("pattern neg class", {"type": "string", "pattern": "^[^a]$"}, text("b"), text("a"), '"""', '"\\"', '"\n"', '"\\n"', '"\x00"')
case("pattern quote", {"type": "string", "pattern": "^\"$"}, text('"'), '"""')
case("pattern backslash", {"type": "string", "pattern": "^\\\\$"}, text("\\"), '"\\"')
case("pattern alternation anchors", {"type": "string", "pattern": "^a|b$"}, text("a"), text("ax"), text("xb"), text("b"), text("x"))
case("pattern lookahead", {"type": "string", "pattern": "^(?=.*x)[a-z]+$"}, text("ax"), text("ab"))
case("pattern neg lookahead", {"type": "string", "pattern": "^(?!a)[a-z]+$"}, text("ab"), text("ba"))
case("pattern \\b", {"type": "string", "pattern": "^\\bab\\b$"}, text("ab"), text("x"))
case("pattern backref", {"type": "string", "pattern": "^(a|b)\\1$"}, text("aa"), text("ab"))
case("pattern \\p{L}", {"type": "string", "pattern": "^\\p{L}+$"}, text("ab"), text("1"), text("é"))
case("pattern case flag", {"type": "string", "pattern": "^(?i)ab$"}, text("AB"), text("ab"))
case("pattern lazy", {"type": "string", "pattern": "^a+?b$"}, text("aab"), text("a"))
case("pattern unicode esc", {"type": "string", "pattern": "^\\u00e9$"}, text("é"), '"é"', text("e"))
case("pattern bad", {"type": "string", "pattern": "("}, text("("))
case("pattern {2,3}", {"type": "string", "pattern": "^a{2,3}$"}, text("a"), text("aa"), text("aaaa"))
case("pattern+maxLength", {"type": "string", "pattern": "^a+$", "maxLength": 2}, text("aa"), text("aaa"))
case("pattern+format", {"type": "string", "pattern": "^a+$", "format": "date"}, text("aa"), text("2020-01-01"))
case("pattern no type", {"pattern": "^a$"}, text("b"), text("a"), "1")
case("pattern mid ^", {"type": "string", "pattern": "a^b"}, text("ab"), text("a^b"))
WORDS = [text(word) for word in ("", "a", "ab", "a1", "1a", "foo", "xfoox", "a-b", "a.b@c", "é", "日本", "٤", "a\n", "a\u2028", '"', "\\", "\x01", "\x1c", "\xa0", "12-34", "abcabc", "😀")]
for pattern in ("", "^$", "foo", "^foo", "foo$", "^\\d+$", "^\\D+$", "^\\w+$", "^\\W+$", "^\\s*$", "^\\S+$", "^[^\\s]$", "^[^\\w]+$", "^.+$", "^[^a]*$", "^(abc){2}$", "^(a|b|)+$", "^\\d{2}-\\d{2}$", "\\.", "[\\\\\"]", "^[\\x00-\\x1f]$", "^\\w+@\\w+$|^a", "^[\\u4e00-\\u9fff]+$"):
    case(f"pattern {pattern}", {"type": "string", "pattern": pattern}, *WORDS)
case("pattern+implied lengths", {"type": "string", "pattern": "^[a-z]{1,3}$", "minLength": 1, "maxLength": 3}, *WORDS)
FORMATS = {"date": ["2024-02-29", "2023-02-29", "2024-13-01", "x"], "time": ["12:00:00Z", "25:00:00Z", "12:00:60Z", "12:00:00"], "date-time": ["2024-01-01T00:00:00Z", "2024-02-31T00:00:00Z", "x", "2024-01-01T24:00:00Z"], "email": ["a@b.c", "x"], "ipv4": ["1.2.3.4", "1.2.3.400", "x"], "ipv6": ["::1", "1::2::3", "x"], "uuid": ["12345678-1234-1234-1234-123456789012", "x"], "uri": ["http://a/b", "x"], "hostname": ["a.b", "-a", "x y"], "duration": ["P1D", "x", "P"], "json-pointer": ["/a", "a"], "regex": ["a", "("], "idn-email": ["x"], "uri-reference": ["a", "\\\\"], "unknown-format": ["x"], "relative-json-pointer": ["0", "x"], "uri-template": ["{a}", "{"]}
for name, values in FORMATS.items():
    case("format " + name, {"type": "string", "format": name}, *[text(value) for value in values], '"\n"')
DATES = [f"{year}-{month:02}-{day:02}" for year in (1000, 1900, 1999, 2000, 2023, 2024, 2100) for month in (0, 1, 2, 4, 12, 13) for day in (0, 1, 28, 29, 30, 31, 32)]
TIMES = ["00:00:00Z", "23:59:59.123456+23:59", "12:30:00-05:30", "24:00:00Z", "12:60:00Z", "12:00:60Z", "12:00:00", "12:00:00+24:00", "1:00:00Z"]
case("format date, more", {"type": "string", "format": "date"}, *[text(date) for date in DATES])
case("format time, more", {"type": "string", "format": "time"}, *[text(time) for time in TIMES])
case("format date-time, more", {"type": "string", "format": "date-time"}, *[text(date + "T" + TIMES[i % len(TIMES)]) for i, date in enumerate(DATES)])
case("format ipv4, more", {"type": "string", "format": "ipv4"}, *[text(each) for each in ("0.0.0.0", "255.255.255.255", "249.250.199.99", "256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "٤.2.3.4")])
case("format uuid, more", {"type": "string", "format": "uuid"}, *[text(each) for each in ("ABCDEF01-2345-6789-abcd-ef0123456789", "12345678123412341234123456789012", "g2345678-1234-1234-1234-123456789012", "12345678-1234-1234-1234-12345678901")])
case("format email, more", {"type": "string", "format": "email"}, *[text(each) for each in ("first.last+tag@mail-host.example.com", "a@b", "@b.co", "a@@b.co", "a.b.co")])
case("format+maxLength", {"type": "string", "format": "date", "maxLength": 5}, text("2024-01-01"))
case("format+lengths it has", {"type": "string", "format": "date", "minLength": 10, "maxLength": 10}, text("2024-01-01"), text("x"))
case("format ipv6, more", {"type": "string", "format": "ipv6"}, *[text(each) for each in ("::", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:2:3:4:5:6:7", "12345::", ":::", "::1.2.3.4")])
# No draft has these: any string is valid.
for name in ("binary", "directory-path", "file-path", "password", "path"):
    case("format " + name, {"type": "string", "format": name}, text(""), text("/a b\u0000é"), "1")
    case(f"format {name}+lengths", {"type": "string", "format": name, "minLength": 2, "maxLength": 3}, text("a"), text("ab"), text("abcd"))
for name in ("uuid1", "uuid3", "uuid4", "uuid5"):
    case("format " + name, {"type": "string", "format": name}, text(f"12345678-1234-{name[4]}234-8234-123456789012"), text("x"))
for name in ("base64", "base64url"):
    case("format " + name, {"type": "string", "format": name}, text(""), text("AA=="), text("Zm9v"), text("A"))
case("contentEncoding", {"type": "string", "contentEncoding": "base64"}, text("!!"))
# Numbers.
case("minimum int", {"type": "integer", "minimum": 5}, "4", "5", "-1", "1000")
case("maximum int", {"type": "integer", "maximum": 5}, "6", "5", "-7")
case("exclusive int", {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, "0", "1", "9", "10")
case("minimum num", {"type": "number", "minimum": 0.5}, "0.4", "0.5", "0.50", "5e-1", "1", "4e-1", "1e-5", "1e10", "0.45")
case("maximum num", {"type": "number", "maximum": 1}, "1.5", "1", "1.0", "1e5", "-3", "1e0")
case("range num", {"type": "number", "minimum": 0, "maximum": 1}, "1.0", "1.5", "0", "0.999999999", "2e0", "-0.1", "-0", "-0.0")
case("excl num", {"type": "number", "exclusiveMinimum": 0}, "0", "0.0", "1", "0.0001", "0e5")
case("num range int+float", {"type": "number", "minimum": -1.5, "maximum": 2.25}, "-1.5", "-1.6", "2.25", "2.26", "2.3", "-1.55")
case("minimum tiny", {"type": "number", "minimum": 1e-9}, "0", "1e-9", "0.000000001", "0.0000000001")
case("min huge num", {"type": "number", "minimum": 1e20}, "1", "100000000000000000000", "99999999999999999999")
case("multipleOf int", {"type": "integer", "multipleOf": 3}, "3", "4", "0", "-6")
case("multipleOf int big", {"type": "integer", "multipleOf": 5000}, "3", "5000")
case("multipleOf range", {"type": "integer", "multipleOf": 3, "minimum": 0, "maximum": 10}, "3", "4", "12")
case("multipleOf half-range", {"type": "integer", "multipleOf": 3, "minimum": 0}, "3", "4")
case("multipleOf num", {"type": "number", "multipleOf": 0.5}, "0.5", "0.3")
case("minimum no type", {"minimum": 5}, "4", "5")
case("int minimum frac", {"type": "integer", "minimum": 0.5}, "0", "1")
case("integer 64-bit", {"type": "integer", "maximum": 9223372036854775807}, "9223372036854775807", "9223372036854775808")
INTEGERS = [str(near) for bound in (-1000, -100, -37, -1, 0, 5, 42, 100, 999, 2**53) for near in range(bound - 2, bound + 3)]
for least, most in ((-100, 100), (0, 5), (5, 42), (-37, -1), (42, 42), (99, 1000), (-1000, 999), (-0.5, 41.5), (0, 2**53)):
    case(f"integers {least} to {most}", {"type": "integer", "minimum": least, "maximum": most}, *INTEGERS, "-0", "1.0", "1e1")
    case(f"integers above {least}, below {most + 3}", {"type": "integer", "exclusiveMinimum": least, "exclusiveMaximum": most + 3}, *INTEGERS)
    case(f"integers from {least}", {"type": "integer", "minimum": least}, *INTEGERS)
    case(f"integers to {most}", {"type": "integer", "maximum": most}, *INTEGERS)
NUMBERS = [
    sign + number + more
    for sign in ("", "-")
    for number in ("0", "0.0", "0.1", "0.3", "0.5", "0.49", "0.7", "1", "2.25", "19.99", "100", "0.00000000000001")
    for more in ("", "0" if "." in number else ".0", ("" if "." in number else ".") + "00000000000001")
] + ["0.50000000000000001", "0.49999999999999999", "0.49999999999999999999", "0.30000000000000004", "0.30000000000000001", "5e-1", "1e0"]
for least, most in ((0, 1), (-0.5, 0.5), (0.1, 0.3), (0.30000000000000004, 19.99), (-100, -0.7), (0.5, 0.5), (1e-9, 2.25), (-1e-20, 1e15)):
    case(f"numbers {least} to {most}", {"type": "number", "minimum": least, "maximum": most}, *NUMBERS)
    case(f"numbers above {least}", {"type": "number", "exclusiveMinimum": least}, *NUMBERS)
    case(f"numbers below {most}", {"type": "number", "exclusiveMaximum": most}, *NUMBERS)
case("draft4 exclusiveMinimum", {"type": "integer", "minimum": 5, "exclusiveMinimum": True}, "5", "6")
case("nullable (OpenAPI)", {"type": "string", "nullable": True}, "null", text("a"))
case("nullable false", {"type": ["string", "null"], "nullable": False}, "null", text("a"), "1")
case("nullable property", {"type": "object", "properties": {"a": {"enum": [1, 2], "nullable": True}}}, {}, {"a": 1}, {"a": None})
case("nullable beside $ref", {"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "nullable": True}, text("a"), "null")
case("unknown keyword", {"type": "string", "frobnicate": 1}, text("a"))
case("bad type", {"type": "strin"}, text("a"))
case("required not array", {"type": "object", "required": "a"}, "{}")
case("minLength negative", {"type": "string", "minLength": -1}, text("a"))
case("minLength float", {"type": "string", "minLength": 2.0}, text("a"), text("ab"))
case("format not string", {"type": "string", "format": 5}, text("a"))
case("default/examples", {"type": "string", "default": 5, "examples": [1]}, text("a"))


def without_repeated_keys(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("dup")
    return dict(pairs)


def verdict(schema, value_text):
    try:
        value = json.loads(value_text, object_pairs_hook=without_repeated_keys)
    except ValueError as error:
        return "dup" if str(error) == "dup" else "notjson"
    try:
        # FormatChecker() has other drafts' formats, too: the times of draft 3.
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        return jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid(value)
    except Exception as error:  # pylint: disable=broad-except
        return "oracle: " + type(error).__name__


if __name__ == "__main__":
    for case_name, case_schema, texts in CASES:
        verdicts = [[each, verdict(case_schema, each)] for each in texts]
        print(json.dumps({"name": case_name, "schema": case_schema, "texts": verdicts}, ensure_ascii=False))
