# SPDX-License-Identifier: Apache-2.0
"""A validator for the part of JSON Schema (draft 2020-12) that docs/json.schema.json and `trivet isa cmdq --json-schema`
use. An unknown keyword is an error."""

import re

TYPES = {"string": str, "array": list, "object": dict, "boolean": bool, "null": type(None)}
IGNORED = {"$schema", "title", "description", "default", "x-trivet", "$defs", "if", "then"}


def has_type(value, name):
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(value, schema, root, path="$"):
    """The violations, as texts."""
    if schema is True:
        return []
    if schema is False:
        return ["%s is not allowed" % path]
    found = []
    for keyword, rule in schema.items():
        if keyword not in IGNORED:
            found += RULES[keyword](value, rule, root, path, schema)
    if "if" in schema and not errors(value, schema["if"], root, path):
        found += errors(value, schema["then"], root, path)
    return found


def check_type(value, rule, _root, path, _schema):
    names = rule if isinstance(rule, list) else [rule]
    return [] if any(has_type(value, n) for n in names) else ["%s is %.60r, not %s" % (path, value, rule)]


def check_reference(value, rule, root, path, _schema):
    return errors(value, root["$defs"][rule[len("#/$defs/"):]], root, path)


def check_properties(value, rule, root, path, _schema):
    if not isinstance(value, dict):
        return []
    return [e for k, s in rule.items() if k in value for e in errors(value[k], s, root, "%s.%s" % (path, k))]


def check_additional(value, rule, root, path, schema):
    if not isinstance(value, dict):
        return []
    others = [k for k in value if k not in schema.get("properties", {}) and not any(re.search(p, k) for p in schema.get("patternProperties", {}))]
    return [e for k in others for e in errors(value[k], rule, root, "%s.%s" % (path, k))]


def check_patterns(value, rule, root, path, _schema):
    if not isinstance(value, dict):
        return []
    return [e for p, s in rule.items() for k in value if re.search(p, k) for e in errors(value[k], s, root, "%s.%s" % (path, k))]


def check_required(value, rule, _root, path, _schema):
    return ["%s.%s is missing" % (path, k) for k in rule if isinstance(value, dict) and k not in value]


def check_items(value, rule, root, path, _schema):
    if not isinstance(value, list):
        return []
    return [e for i, v in enumerate(value) for e in errors(v, rule, root, "%s[%d]" % (path, i))]


def check_any(value, rule, root, path, _schema):
    tried = [errors(value, s, root, path) for s in rule]
    return [] if any(not t for t in tried) else min(tried, key=len)


def check_all(value, rule, root, path, _schema):
    return [e for s in rule for e in errors(value, s, root, path)]


def check_not(value, rule, root, path, _schema):
    return [] if errors(value, rule, root, path) else ["%s is %.60r" % (path, value)]


def is_same(a, b):
    """Equality of JSON: true is not 1."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def limit(kind, holds, wording):
    """A keyword that bounds values of type `kind`."""
    def check(value, rule, _root, path, _schema):
        return ["%s is %.60r, %s %s" % (path, value, wording, rule)] if has_type(value, kind) and not holds(value, rule) else []
    return check


RULES = {
    "patternProperties": check_patterns, "not": check_not,
    "minimum": limit("number", lambda v, r: v >= r, "below"), "maximum": limit("number", lambda v, r: v <= r, "above"),
    "exclusiveMinimum": limit("number", lambda v, r: v > r, "not above"),
    "minLength": limit("string", lambda v, r: len(v) >= r, "shorter than"),
    "pattern": limit("string", lambda v, r: re.search(r, v), "which does not match"),
    "type": check_type, "$ref": check_reference, "properties": check_properties, "additionalProperties": check_additional,
    "required": check_required, "items": check_items, "anyOf": check_any, "allOf": check_all,
    "const": lambda v, r, _root, path, _s: [] if is_same(v, r) else ["%s is %.60r, not %r" % (path, v, r)],
    "enum": lambda v, r, _root, path, _s: [] if any(is_same(v, x) for x in r) else ["%s is %.60r, not one of %s" % (path, v, r)],
}
