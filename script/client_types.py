"""Writes the types of the messages of the live channel for TypeScript and Python, from schemas/asyncapi.json, into
clients/ of this checkout, or of the folder that the first argument names.
"""

import argparse
import json
import keyword
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar

ROOT = Path(__file__).parent.parent
MADE = "Made by script/client_types.py of schemas/asyncapi.json."
COLUMNS = 120
INDENTED = "\n  "
Schema = dict[str, Any]

document = json.loads((ROOT / "schemas/asyncapi.json").read_text())
schemas: dict[str, Schema] = document["components"]["schemas"]


def name_of(reference: Schema) -> str:
    return reference["$ref"].rpartition("/")[2]


def messages() -> list[str]:
    """The names of the messages that the service sends."""
    operations = document["operations"]
    sent = operations["sendLiveOdds"]["messages"] + operations["receiveLiveOddsRequest"]["reply"]["messages"]
    components = document["components"]["messages"]
    return sorted(name_of(components[name_of(message)]["payload"]) for message in sent)


def fields(schema: Schema) -> list[tuple[str, Schema, bool]]:
    """Name, schema, and whether it is required; the required ones first, in the order of the wire."""
    required = schema.get("required", [])
    others = [name for name in schema["properties"] if name not in required]
    return [(name, schema["properties"][name], name in required) for name in [*required, *others]]


class Types:
    """Writes types in the order in which they are needed."""

    scalars: ClassVar = {
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
        "null": "null",
    }
    one_of, list_of = "{}", "{}[]"

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    def text(self, schema: Schema, parent: str, field: str) -> str:
        """The type of a field, after writing those that it names."""
        if "allOf" in schema:
            return self.text(schema["allOf"][0], parent, field)
        if "$ref" in schema:
            name, schema = name_of(schema), schemas[name_of(schema)]
            if "properties" in schema or "enum" in schema:
                return self.named(name, schema)
        if "properties" in schema:
            return self.named(parent + field.removesuffix("s").capitalize(), schema)
        if "const" in schema or "enum" in schema:
            return self.one_of.format(self.union(schema.get("enum", [schema.get("const")])))
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if kinds == ["array"]:
            return self.list_of.format(self.text(schema["items"], parent, field))
        return " | ".join(dict.fromkeys(self.scalars[kind] for kind in kinds))

    def named(self, name: str, schema: Schema) -> str:
        if name not in self.written:
            text = self.record(name, schema) if "properties" in schema else self.alias(name, schema)
            self.written[name] = text
        return name

    def all(self) -> str:
        groups: dict[str, list[str]] = {"RaceMessage": [], "ServiceMessage": []}
        for name in messages():
            self.named(name, schemas[name])
            groups["RaceMessage" if "prev_seq" in schemas[name]["properties"] else "ServiceMessage"].append(name)
        groups["Message"] = list(groups)
        events = [schemas[name]["properties"]["event"]["const"] for name in groups["RaceMessage"]]
        events.remove("quote")  # `markets` choose it.
        self.named("RaceEvent", {"enum": events, "description": "A kind of messages about races."})
        return self.file(list(self.written.values()), {name: " | ".join(parts) for name, parts in groups.items()})


class TypeScript(Types):
    def union(self, values: list[Any]) -> str:
        return " | ".join(map(json.dumps, values))

    def comment(self, schema: Schema, indent: str = "") -> str:
        text = schema.get("description", "")
        if len(line := f"{indent}/** {text} */") <= COLUMNS:
            return line
        lines = wrap(text, COLUMNS - len(indent) - 3)
        return "\n".join([f"{indent}/**", *[f"{indent} * {line}" for line in lines], f"{indent} */"])

    def declared(self, name: str, parts: str) -> str:
        is_short = len(f"export type {name} = {parts};") <= COLUMNS
        return f"export type {name} ={' ' if is_short else INDENTED}{parts};\n"

    def alias(self, name: str, schema: Schema) -> str:
        return f"{self.comment(schema)}\n{self.declared(name, self.union(schema['enum']))}"

    def record(self, name: str, schema: Schema) -> str:
        lines = [self.comment(schema), f"export interface {name} {{"]
        for field, of_field, is_required in fields(schema):
            text = self.text(of_field, name, field)
            if text.endswith("[]") and "|" in text:
                text = f"({text[:-2]})[]"
            comment = [self.comment(of_field, "  ")] if "description" in of_field else []
            lines += [*comment, f"  {field}{'' if is_required else '?'}: {text};"]
        return "\n".join([*lines, "}\n"])

    def file(self, types: list[str], groups: dict[str, str]) -> str:
        unions = [self.declared(name, parts) for name, parts in groups.items()]
        return "\n".join([f"// {MADE}\n", *types, *unions])


class Python(Types):
    scalars: ClassVar = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    one_of, list_of = "Literal[{}]", "list[{}]"

    def union(self, values: list[Any]) -> str:
        return ", ".join("True" if value is True else json.dumps(value) for value in values)

    def comment(self, schema: Schema, indent: str = "") -> list[str]:
        lines = wrap(schema.get("description", ""), COLUMNS - len(indent) - 2)
        return [f"{indent}# {line}" for line in lines]

    def alias(self, name: str, schema: Schema) -> str:
        return "\n".join([*self.comment(schema), f"{name} = Literal[{self.union(schema['enum'])}]\n"])

    def record(self, name: str, schema: Schema) -> str:
        # A field that is a keyword needs the other syntax.
        is_class = not any(keyword.iskeyword(field) for field in schema["properties"])
        indent, quote, end = ("    ", "", "") if is_class else (" " * 8, '"', ",")
        lines = []
        for field, of_field, is_required in fields(schema):
            text = self.text(of_field, name, field)
            text = text if is_required else f"{quote}NotRequired[{text}]{quote}"
            line = f"{indent}{quote}{field}{quote}: {text}{end}"
            if len(line) > COLUMNS and text.startswith("list["):
                line = f"{indent}{field}: list[\n{indent}    {text[5:-1]}\n{indent}]"
            lines += [*self.comment(of_field, indent), line]
        if is_class:
            return "\n".join([*self.comment(schema), f"class {name}(TypedDict):", *lines, ""])
        start = f'{name} = TypedDict(\n    "{name}",\n    {{'
        return "\n".join([*self.comment(schema), start, *lines, "    },\n)\n"])

    def file(self, types: list[str], groups: dict[str, str]) -> str:
        imports = [
            f'"""The messages of the live channel. {MADE}"""\n',
            "from __future__ import annotations\n",
            "from typing import TYPE_CHECKING, Literal, TypedDict\n",
            "if TYPE_CHECKING:\n    from typing_extensions import NotRequired\n",
        ]
        unions = [f"{name} = {parts}\n" for name, parts in groups.items()]
        return "\n\n".join(["\n".join(imports), *types, "".join(unions)])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", default=ROOT, type=Path)
    clients = arguments.parse_args().folder / "clients"
    for path, types in [("js/messages.d.ts", TypeScript()), ("python/src/railbird/messages.py", Python())]:
        file = clients / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(types.all())
