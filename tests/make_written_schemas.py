#!/usr/bin/env python3
"""make_written_schemas.py: prints 156 schemas, one a line: {name, schema}.

They are written as people write them for structured output, each for a feature of JSON Schema or a use. A few use what no
grammar can hold, or what is not supported. The output is kept in tests/data/schemas/written.jsonl, which schemas_test.py
reads.
"""
import json

CASES = {}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
S, I, N, B, NULL = ({"type": kind} for kind in ("string", "integer", "number", "boolean", "null"))


def case(name, schema):
    assert name not in CASES, name
    CASES[name] = schema


def strict(**properties):
    """As OpenAI's strict mode wants objects: closed, and everything required."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def loose(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def array(items, **more):
    return {"type": "array", "items": items, **more}


def enum(*values, **more):
    return {"type": "string", "enum": list(values), **more}


def optional(schema):
    return {"anyOf": [schema, NULL], "default": None}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def text(description="", **more):
    return {"type": "string", **({"description": description} if description else {}), **more}


def scalars():
    case("string", S)
    case("integer", I)
    case("number", N)
    case("boolean", B)
    case("null", NULL)
    case("any", {})
    case("any, as true", True)
    case("a list of types", {"type": ["string", "integer", "null"]})
    case("nullable by a list of types", loose(["name"], name={"type": ["string", "null"]}))
    case("annotations only", {"title": "Answer", "description": "Anything.", "examples": [1, "a"], "$comment": "none"})
    case("a string with all annotations", {"type": "string", "title": "T", "description": "D", "default": "d",
                                           "examples": ["e"], "deprecated": True, "readOnly": True, "writeOnly": False})


def lengths():
    case("maxLength", text(maxLength=20))
    case("maxLength of 0", text(maxLength=0))
    case("minLength", text(minLength=1))
    case("minLength and maxLength", text(minLength=2, maxLength=8))
    case("minLength equal to maxLength", text(minLength=4, maxLength=4))
    case("a tweet", strict(text=text(maxLength=280), tags=array(text(maxLength=30), maxItems=5)))
    case("minItems and maxItems", array(I, minItems=2, maxItems=4))
    case("exactly three items", array(N, minItems=3, maxItems=3))
    case("maxItems of 0", array(S, maxItems=0))
    case("minProperties of a map", {"type": "object", "additionalProperties": I, "minProperties": 1})
    case("maxProperties of a map", {"type": "object", "additionalProperties": S, "maxProperties": 3})
    case("minProperties with required ones", {**loose(["a", "b"], a=I, b=I), "minProperties": 2})
    case("a haiku", strict(lines=array(text(minLength=1, maxLength=60), minItems=3, maxItems=3)))


def values():
    case("enum of strings", enum("red", "green", "blue"))
    case("enum without type", {"enum": ["yes", "no"]})
    case("enum of one", enum("only"))
    case("enum of numbers", {"type": "integer", "enum": [1, 2, 3, 5, 8]})
    case("enum of mixed types", {"enum": ["auto", 0, 1.5, True, None]})
    case("enum with objects", {"enum": [{"x": 1}, {"x": 2, "y": [1, 2]}]})
    case("enum with quotes and escapes", enum("say \"hi\"", "back\\slash", "new\nline", "tab\t", "ünïcödé", "😀"))
    case("enum with prefixes of each other", enum("a", "ab", "abc", "abcd"))
    case("enum of an empty string", enum("", "x"))
    case("enum of 200 values", enum(*(f"code-{i:03d}" for i in range(200))))
    case("const string", {"const": "fixed"})
    case("const with type", {"type": "string", "const": "v1"})
    case("const number", {"const": 42})
    case("const object", {"const": {"kind": "a", "list": [1, None, "x"]}})
    case("const null", {"const": None})
    case("nullable enum", {"anyOf": [enum("low", "high"), NULL]})
    case("nullable enum by type", {"type": ["string", "null"], "enum": ["low", "high", None]})
    case("sentiment", strict(sentiment=enum("positive", "negative", "neutral"), confidence=enum("low", "medium", "high")))


def ranges():
    case("minimum 0", {"type": "integer", "minimum": 0})
    case("percent", {"type": "integer", "minimum": 0, "maximum": 100})
    case("a rating", strict(stars={"type": "integer", "minimum": 1, "maximum": 5}, review=S))
    case("a score", strict(score={"type": "number", "minimum": 0, "maximum": 1}))
    case("exclusiveMinimum", {"type": "integer", "exclusiveMinimum": 0})
    case("exclusive bounds of numbers", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10})
    case("negative range", {"type": "integer", "minimum": -50, "maximum": -10})
    case("range around zero", {"type": "integer", "minimum": -273, "maximum": 1000})
    case("coordinates", strict(lat={"type": "number", "minimum": -90, "maximum": 90},
                               lon={"type": "number", "minimum": -180, "maximum": 180}))
    case("optional age", loose(["name"], name=S, age={"anyOf": [{"type": "integer", "minimum": 0, "maximum": 150}, NULL]}))


def patterns():
    case("a digit pattern", text(pattern="^[0-9]{5}$"))
    case("an identifier", text(pattern="^[a-z_][a-z0-9_]*$"))
    case("a phone number", text(pattern="^\\+?[0-9]{3}-[0-9]{4}$"))
    case("a currency code", text(pattern="^[A-Z]{3}$"))
    case("a version", text(pattern="^v?[0-9]+\\.[0-9]+\\.[0-9]+$"))
    case("alternatives in a pattern", text(pattern="^(cat|dog|bird)s?$"))
    case("a colour", strict(colour=text(pattern="^#[0-9a-fA-F]{6}$")))
    case("a slug", strict(slug=text(pattern="^[a-z0-9]+(-[a-z0-9]+)*$"), title=S))
    case("a licence plate", strict(plate=text(pattern="^[A-Z]{1,3} [A-Z]{1,2} [0-9]{1,4}$")))
    case("a list of patterns", array(text(pattern="^T[0-9]{4}$"), maxItems=3))


def formats():
    for name in ("date", "date-time", "time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri", "base64"):
        case(f"format {name}", text(format=name))
    case("an appointment", strict(title=S, start=text(format="date-time"), attendees=array(text(format="email"))))
    case("a birthday", loose(["name"], name=S, birthday=optional(text(format="date"))))
    case("a page", strict(url=text(format="uri", minLength=1, maxLength=2083), file=text(format="path")))
    case("a record with an id", strict(id=text(format="uuid"), created_at=text(format="date-time"), name=S))


def objects():
    case("one required property", loose(["a"], a=S))
    case("only optional properties", loose(a=S, b=I, c=B))
    case("some required", loose(["b"], a=S, b=I, c=B))
    case("required in another order", loose(["c", "a"], a=S, b=I, c=B))
    case("closed", {**loose(["a"], a=S, b=I), "additionalProperties": False})
    case("open by true", {**loose(["a"], a=S), "additionalProperties": True})
    case("no type but properties", {"properties": {"a": S}, "required": ["a"]})
    case("no properties", {"type": "object"})
    case("empty properties, closed", {"type": "object", "properties": {}, "additionalProperties": False})
    case("a map of strings", {"type": "object", "additionalProperties": S})
    case("a map of lists of objects", {"type": "object", "additionalProperties": array(strict(x=N, y=N))})
    case("a map in an object", strict(labels={"type": "object", "additionalProperties": S}, name=S))
    case("keys of a list", {"type": "object", "propertyNames": {"enum": ["en", "de", "fr"]}, "additionalProperties": S})
    case("keys with a length", {"type": "object", "propertyNames": {"maxLength": 8}, "additionalProperties": I})
    case("odd keys", strict(**{"first name": S, "e-mail": S, "größe": N, "a\"b": I, "$ref": S, "": S}))
    case("40 optional properties", loose(**{f"field_{i}": S for i in range(40)}))
    case("60 required properties", strict(**{f"q{i}": {"type": ["integer", "null"]} for i in range(60)}))
    case("objects in objects, 12 deep", deep(12))
    case("any value in an object", strict(name=S, value={}))
    case("defaults", loose(size={"type": "integer", "default": 3}, colour=enum("red", "blue", default="red")))


def deep(levels):
    return strict(value=I) if levels == 0 else strict(inner=deep(levels - 1))


def arrays():
    case("list of strings", array(S))
    case("list of lists", array(array(I)))
    case("a matrix of 2 by 2", array(array(N, minItems=2, maxItems=2), minItems=2, maxItems=2))
    case("list without items", {"type": "array"})
    case("list of mixed types", array({"anyOf": [S, N, B]}))
    case("tuple", {"type": "array", "prefixItems": [S, I], "minItems": 2, "maxItems": 2})
    case("tuple, closed by items", {"type": "array", "prefixItems": [S, I, B], "items": False, "minItems": 3})
    case("tuple with a tail", {"type": "array", "prefixItems": [S], "items": I})
    case("a set of an enum", array(enum("a", "b", "c", "d"), uniqueItems=True))
    case("a set of up to two values", array(enum("x", "y", "z"), uniqueItems=True, minItems=1, maxItems=2))
    case("list of objects", array(strict(name=S, quantity=I)))
    case("at least one object", strict(items=array(loose(["id"], id=I, note=S), minItems=1)))


def unions():
    case("anyOf of scalars", {"anyOf": [S, I]})
    case("anyOf of objects", {"anyOf": [strict(ok=B), strict(error=S)]})
    case("anyOf in a property", strict(value={"anyOf": [N, S, array(N)]}))
    case("type beside anyOf", {"type": "object", "anyOf": [strict(a=I), strict(b=I)]})
    case("oneOf by type", {"oneOf": [S, I, array(S)]})
    case("oneOf by tag", {"oneOf": [strict(kind={"const": "circle"}, r=N), strict(kind={"const": "square"}, side=N)]})
    case("discriminator", {
        "$defs": {"Cat": loose(["kind", "lives"], kind={"const": "cat"}, lives=I),
                  "Dog": loose(["kind"], kind={"const": "dog"}, breed=S)},
        "oneOf": [ref("Cat"), ref("Dog")],
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}}})
    case("oneOf by an enum tag", {"oneOf": [strict(op=enum("add", "sub"), by=I), strict(op=enum("reset"))]})
    case("nested unions", {"anyOf": [{"anyOf": [S, NULL]}, {"oneOf": [I, B]}]})
    case("allOf of one", {"allOf": [strict(a=S)], "description": "Wrapped."})
    case("allOf of a reference with a default", {"$defs": {"Level": enum("a", "b")},
                                                 **loose(level={"allOf": [ref("Level")], "default": "a"})})
    case("a result or an error", strict(result={"anyOf": [strict(status={"const": "ok"}, data=array(S)),
                                                          strict(status={"const": "error"}, message=S)]}))


def references():
    case("$defs", {"$defs": {"Point": strict(x=N, y=N)}, **strict(start=ref("Point"), end=ref("Point"))})
    case("definitions", {"$schema": DRAFT_7, "definitions": {"P": strict(x=N)}, **strict(p={"$ref": "#/definitions/P"})})
    case("a reference at the root", {"$defs": {"A": strict(name=S)}, "$ref": "#/$defs/A"})
    case("a reference with a description", {"$defs": {"A": strict(n=I)}, **strict(a={**ref("A"), "description": "An A."})})
    case("type beside $ref", {"$defs": {"A": strict(n=I)}, **strict(a={"type": "object", **ref("A")})})
    case("a reference to a property", strict(a=text(maxLength=5), b={"$ref": "#/properties/a"}))
    case("linked list", {"$defs": {"Node": strict(value=I, next={"anyOf": [ref("Node"), NULL]})}, **ref("Node")})
    case("tree", {"$defs": {"Tree": strict(name=S, children=array(ref("Tree")))}, **ref("Tree")})
    case("tree by #", strict(name=S, children=array({"$ref": "#"})))
    case("mutual recursion", {"$defs": {"A": loose(b=ref("B"), n=I), "B": loose(a=ref("A"), s=S)}, **ref("A")})
    case("expressions", {"$defs": {"E": {"anyOf": [N, strict(op=enum("+", "-", "*"), left=ref("E"), right=ref("E"))]}},
                         **strict(expression=ref("E"))})
    case("a page of widgets", {"$defs": {
        "Widget": strict(type=enum("div", "button", "field"), label=S, children=array(ref("Widget")),
                         attributes=array(strict(name=S, value=S)))}, **ref("Widget")})


def uses():
    case("chain of thought", strict(steps=array(strict(explanation=S, output=S)), final_answer=S))
    case("entities", strict(people=array(S), places=array(S), dates=array(S)))
    case("an invoice", strict(number=S, date=text(format="date"), total={"type": "number", "minimum": 0},
                              lines=array(strict(text=S, quantity=I, price=N), minItems=1)))
    case("a recipe", strict(title=S, servings=I, ingredients=array(strict(name=S, amount=N, unit=enum("g", "ml", "piece"))),
                            steps=array(S)))
    case("a resume", loose(["name", "experience"], name=S, email=optional(S), skills=array(S),
                           experience=array(loose(["company", "title"], company=S, title=S, years=optional(I)))))
    case("moderation", strict(is_violating=B, category={"anyOf": [enum("violence", "sexual", "self_harm"), NULL]},
                              explanation={"anyOf": [S, NULL]}))
    case("arguments of get_weather", strict(location=text("City and country."), units=enum("celsius", "fahrenheit")))
    case("arguments of search", {"$schema": DRAFT_7, **loose(
        ["query"], query=text("What to look for."), limit={"type": "integer", "default": 10}, filters=loose(
            site=S, after=S, safe={"type": "boolean", "default": True}))})
    case("arguments of a database query", strict(
        table=enum("orders", "users"), columns=array(enum("id", "status", "created_at")), conditions=array(strict(
            column=S, operator=enum("=", ">", "<", "!="), value={"anyOf": [S, N, strict(column_name=S)]})),
        order_by=enum("asc", "desc")))
    case("no arguments", strict())
    case("a plan", {"$schema": DRAFT_2020, "title": "Plan", **strict(goal=S, tasks=array(strict(
        id=I, title=S, depends_on=array(I), status=enum("todo", "doing", "done")), minItems=1, maxItems=8))})
    case("a quiz", strict(question=S, options=array(S, minItems=4, maxItems=4), answer={"enum": [0, 1, 2, 3]}))
    case("a translation", strict(language=text(pattern="^[a-z]{2}$"), text=S, alternatives=array(S, maxItems=3)))
    case("a graph", strict(nodes=array(strict(id=I, label=S)), edges=array(strict(source=I, target=I, label=optional(S)))))


def unsupported():
    case("multipleOf", {"type": "integer", "multipleOf": 5})
    case("not", {"type": "string", "not": {"const": ""}})
    case("if and then", {**loose(["a"], a=B, b=S), "if": {"properties": {"a": {"const": True}}}, "then": {"required": ["b"]}})
    case("contains", array(I, contains={"const": 1}))
    case("a set of strings", array(S, uniqueItems=True))
    case("patternProperties", {"type": "object", "patternProperties": {"^x-": S}, "additionalProperties": False})
    case("dependentRequired", {**loose(card=S, address=S), "dependentRequired": {"card": ["address"]}})
    case("allOf of two", {"allOf": [loose(["a"], a=S), loose(["b"], b=I)]})
    case("lookahead", text(pattern="^(?=.*[0-9])[a-z0-9]{4,8}$"))


def main():
    for write in (scalars, lengths, values, ranges, patterns, formats, objects, arrays, unions, references, uses, unsupported):
        write()
    for name, schema in CASES.items():
        print(json.dumps({"name": name, "schema": schema}, ensure_ascii=False))


if __name__ == "__main__":
    main()
