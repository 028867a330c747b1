"""The pages of what files may say: every key of a study and of a hosts file, from the models that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import refused
from docstrings import doc_of, plain, table
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from loadbook.batch.file import BatchSpec
from loadbook.core.validity_rules import RULE_INFO
from loadbook.hosts.inventory import HostsFile
from loadbook.study.limits import ValidityLimits
from loadbook.study.model import Study

FILLED_IN = {"config_text", "plan_text"}  # by loadbook, from the files that stand beside a study

STUDY = """# Every key of a study file

Made from the models that read the file: nothing else may stand there. [study-file](../study-file.md) explains the same
with examples."""
HOSTS = """# Every key of a hosts file

Generated from the models that read the file. [hosts](../hosts.md) explains them, with three machines as an example.
Names, users, ports and keys are usually in `~/.ssh/config`."""
BATCH = """# Every key of a batch file

Made from the models that read the file; `loadbook batch FILE` takes it."""
PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$": "name",
    r"^[a-z][a-z0-9_]{0,40}$": "small name",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "file name",
    r"^[A-Za-z0-9][A-Za-z0-9.-]{0,253}:[0-9]{1,5}$": "host:port",
    r"^[A-Za-z0-9_:][A-Za-z0-9._:%-]{0,252}$": "host name or address",
    r"^[A-Za-z0-9_][A-Za-z0-9._@+-]{0,63}$": "user name",
    r"^[\x20-\x7e]*$": "printable text",
    r"^/[!-~]*$": "path without blanks",
    r"^all|[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$": "CPU numbers",
}
LEVEL = ["string", "integer", "number", "boolean"]
NAME = "A **name** is letters, digits, `.`, `_` and `-`, at most 63 of them."
WORDS = f"""\
{NAME} A **small name** begins with a small letter and has small letters, digits and `_`, at most 41. A **level** is a
text, a number, `true` or `false`. An unknown key, a wrong type and a name that there is not are refused, all at once,
each with its key path; `loadbook plan` says so and touches no host."""


def study_page() -> str:
    """Return the page of a study file."""
    return f"{_page([STUDY, WORDS], Study, 'At the top')}\n{refused.section()}\n"


def hosts_page() -> str:
    """Return the page of a hosts file."""
    return _page([HOSTS, NAME], HostsFile, "Above the hosts")


def batch_page() -> str:
    """Return the page of a batch file."""
    return _page([BATCH], BatchSpec, "Above the entries")


def _page(head: list[str], model: type[BaseModel], top: str) -> str:
    sections = dict(_sections(model))
    parts = [*head]
    for kind, path in sections.items():
        parts += [f"## {f'`{path}`' if path else top}", _said(kind), _table(kind, sections)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """Yield every model that a file may hold with the heading of its table in TOML, outer ones first."""
    yield model, path
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        if inner is not None:
            many = "dict" in str(field.annotation)
            below = f"{path.strip('[]')}.{name}".lstrip(".") + (f".{_one_of(name)}" if many else "")
            lists = "tuple" in str(field.annotation)
            yield from _sections(inner, f"[[{below}]]" if lists else f"[{below}]")


def _one_of(name: str) -> str:
    return name.removesuffix("s").upper()


def _model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model(part))), None)


def _said(kind: type[BaseModel]) -> str:
    doc = doc_of(kind)
    return plain(" ".join(filter(None, [doc.summary, doc.text])))


def _table(kind: type[BaseModel], sections: dict[type[BaseModel], str]) -> str:
    whole = next((path for one, path in sections.items() if issubclass(one, kind) and one is not kind), None)
    if whole:
        return f"Its keys are those of [`{whole}`](#{_anchor(whole)}), as far as they are about one."
    schema = kind.model_json_schema(by_alias=True)
    rows = []
    for name, field in kind.model_fields.items():
        key = field.alias or name
        if name in FILLED_IN:
            continue
        inner = _model(field.annotation)
        allowed = f"[table](#{_anchor(sections[inner])})" if inner else values(schema["properties"][key], schema)
        rows.append(
            [
                f"`{key}`",
                allowed,
                _default(field),
                meaning(kind, name),
            ]
        )
    return table(["key", "values", "default", "means"], rows)


def _anchor(path: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", path.lower())


def meaning(kind: type[BaseModel], name: str) -> str:
    """Return what a key means: what its model's docstring or its field says, of a threshold its gates, too."""
    key = kind.model_fields[name].alias or name
    docs = (doc_of(one).of(key) for one in kind.__mro__ if issubclass(one, BaseModel))
    printed = next(filter(None, docs), "") or kind.model_fields[name].description or ""
    of = [f"`{gate.name}`" for gate in RULE_INFO.values() if kind is ValidityLimits and name in gate.thresholds]
    return f"{printed.rstrip('.')} ({', '.join(of)})" if of else printed.rstrip(".")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or value is None or value in ((), {}) or isinstance(value, BaseModel):
        return ""
    return f"`{toml(value)}`"


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def values(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return what a JSON schema allows, in words."""
    if "$ref" in schema:
        return values(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if [one.get("type") for one in schema.get("anyOf", ())] == LEVEL:
        return "level"
    if "anyOf" in schema:
        given = [values(one, whole) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(given))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{toml(one)}`" for one in schema.get("enum", [schema.get("const")]))
    return KINDS.get(schema.get("type", ""), lambda *_: "any value")(schema, whole)


def _number(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{kind}, {_plain(low)} to {_plain(high)}"
    printed = [f"from {_plain(low)}" if low is not None else "", f"above {_plain(above)}" if above is not None else ""]
    printed += [
        f"up to {_plain(high)}" if high is not None else "",
        f"below {_plain(below)}" if below is not None else "",
    ]
    return ", ".join([kind, *filter(None, [" ".join(filter(None, printed))])])


def _plain(number: float) -> str:
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"


def _text(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    pattern = schema.get("pattern")
    if pattern in PATTERNS:
        return PATTERNS[pattern]
    if pattern:
        return f"text like `{pattern}`"
    longest = schema.get("maxLength")
    return f"text, at most {longest:,} characters" if longest else "text"


def _list(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"{len(schema['prefixItems'])} of: {values(schema['prefixItems'][0], whole)}"
    least, most = schema.get("minItems"), schema.get("maxItems")
    number = f", {least or 0} to {most}" if most else f", at least {least}" if least else ""
    return f"list of: {values(schema.get('items', {}), whole)}{number}"


def _object(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    inner = schema.get("additionalProperties")
    found = [*schema.get("patternProperties", {}).values()] or ([inner] if isinstance(inner, dict) else [])
    return f"table of: {values(found[0], whole)}" if found else "table"


KINDS = {
    "integer": _number, "number": _number, "string": _text, "array": _list, "object": _object,
    "boolean": lambda schema, whole: "`true`, `false`",
}  # fmt: skip
