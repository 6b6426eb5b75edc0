"""Compares our documents with the published ones, rule by rule, and checks that every
difference is in the table of docs/compatibility.md with its reason, and no other.

Called by `cargo xtask published`.
"""

import argparse
import fnmatch
import json
import re
import sys
from pathlib import Path

import yaml

# Published documents, by ours.
PUBLISHED = {
    "fspiop": [
        "fspiop-rest-v1.1-openapi3-snippets.yaml", "fspiop-rest-v2.0-openapi3-snippets.yaml"],
    "admin": ["central-ledger-swagger.json"],
}
# Members of a schema that are compared, beside those of its structure.
LEAVES = ("type", "pattern", "minLength", "maxLength", "minItems", "maxItems")


class Document:
    """The rules of a document, by operation."""

    def __init__(self, path):
        text = Path(path).read_text()
        self.root = json.loads(text) if str(path).endswith(".json") else yaml.safe_load(text)

    def resolve(self, value):
        while isinstance(value, dict) and "$ref" in value:
            at = self.root
            for name in value["$ref"].removeprefix("#/").split("/"):
                at = at[name]
            value = at
        return value

    def operations(self):
        """Rules by `METHOD /path`: each is a name with what it says."""
        for path, item in self.root["paths"].items():
            shared = item.get("parameters", [])
            for method in ("get", "put", "post", "patch", "delete"):
                if method not in item:
                    continue
                name = f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"
                yield name, dict(self.rules(item[method], shared))

    def rules(self, operation, shared):
        for status in operation["responses"]:
            yield f"status {status}", "answered"
        for parameter in map(self.resolve, [*shared, *operation.get("parameters", [])]):
            if parameter["in"] == "path":
                continue
            if parameter["in"] == "body":
                # Swagger 2.0.
                yield from self.members("body", parameter["schema"], "required")
                continue
            need = "required" if parameter.get("required") else "optional"
            yield f"{parameter['in']} {parameter['name']}", need
        body = self.resolve(operation.get("requestBody"))
        if body:
            entry = next(iter(body["content"].values()))
            yield from self.members("body", entry["schema"], "required")

    def members(self, name, schema, need):
        schema = self.resolve(schema)
        for part in schema.get("allOf", []):
            schema = self.resolve(part) | schema
        yield name, need
        for leaf in LEAVES:
            if leaf in schema:
                yield f"{name} {leaf}", portable(schema[leaf])
        if schema.get("additionalProperties") is False:
            yield f"{name} closed", "yes"
        if "enum" in schema:
            yield f"{name} values", set(map(str, schema["enum"]))
        required = schema.get("required", [])
        for member, inner in schema.get("properties", {}).items():
            need = "required" if member in required else "optional"
            yield from self.members(f"{name}.{member}", inner, need)
        if "items" in schema:
            yield from self.members(f"{name}[]", schema["items"], "optional")


def portable(value):
    """The same pattern in the same words."""
    if not isinstance(value, str):
        return value
    return value.replace("[\\d]", "[0-9]").replace("\\d", "[0-9]").replace("9-_]", "9_-]")


def differences(ours, theirs):
    """Lines that say what differs, from the published document to ours."""
    ours, theirs = dict(ours.operations()), dict(theirs.operations())
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours:
            yield f"{name}: not in ours"
        elif name not in theirs:
            yield f"{name}: only in ours"
        else:
            yield from rule_differences(name, ours[name], theirs[name])


def rule_differences(operation, ours, theirs):
    for rule in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(rule), theirs.get(rule)
        if here == there:
            continue
        # Rules inside a member that only one side has are implied by that difference.
        member = rule.split(" ")[0]
        outer = member if " " in rule else re.sub(r"(\[\]|\.[A-Za-z]+)$", "", rule)
        is_inside = rule.startswith("body") and outer != rule
        if is_inside and (outer in ours) != (outer in theirs):
            continue
        if isinstance(here, set) and isinstance(there, set):
            change = [f"+{one}" for one in sorted(here - there)]
            change += [f"-{one}" for one in sorted(there - here)]
            yield f"{operation}: {rule}: {' '.join(change)}"
        elif there is None:
            yield f"{operation}: {rule}: {shown(here)} only in ours"
        elif here is None:
            yield f"{operation}: {rule}: {shown(there)} not in ours"
        else:
            yield f"{operation}: {rule}: {shown(there)} is {shown(here)} in ours"


def shown(value):
    return "a list" if isinstance(value, set) else str(value)


def listed(path, name):
    """Patterns of the table of one of our documents, each with its reason."""
    text = Path(path).read_text()
    begin, end = f"<!-- differences of {name}: begin -->", f"<!-- differences of {name}: end -->"
    table = text.split(begin)[1].split(end)[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 and cells[0].startswith("`"):
            yield cells[0].strip("`").replace("\\|", "|"), cells[1]


def fits(line, pattern):
    """Whether a line is of a pattern, in which only the star is special."""
    escaped = re.sub(r"([\[\]?])", r"[\1]", pattern)
    return fnmatch.fnmatchcase(line, escaped)


def check(name, options):
    """Whether the table of one of our documents says what differs, and nothing else."""
    ours = Document(Path(options.ours, f"{name}.json"))
    found = {}
    for published in PUBLISHED[name]:
        for line in differences(ours, Document(Path(options.published, published))):
            found.setdefault(line, []).append(published)
    if options.print:
        for line, documents in found.items():
            print(f"{line} ({', '.join(documents)})")
    rows = dict(listed(options.list, name))
    unlisted = [line for line in found if not any(fits(line, row) for row in rows)]
    stale = [row for row in rows if not any(fits(line, row) for line in found)]
    silent = [row for row, reason in rows.items() if not reason]
    for line in unlisted:
        print(f"not in {options.list}: {line}")
    for row in stale:
        print(f"in {options.list}, but no difference: {row}")
    for row in silent:
        print(f"in {options.list} without a reason: {row}")
    print(f"{name}: {len(found)} differences in {len(rows)} rows")
    return not (unlisted or stale or silent)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True, help="directory of our documents")
    parser.add_argument("--published", required=True, help="directory of the published ones")
    parser.add_argument("--list", required=True, help="the file with the tables")
    parser.add_argument("--print", action="store_true", help="print every difference")
    options = parser.parse_args()
    good = [check(name, options) for name in PUBLISHED]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
