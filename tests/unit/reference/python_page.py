"""The page of `import loadbook as lb`: its verbs by what they are for, and the objects that they return."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from docstrings import doc_of, markdown, table

import loadbook
from loadbook import notebook
from loadbook.notebook.compare import Displayable
from loadbook.report.page import Page

HEAD = """# In Python: `import loadbook as lb`

The verbs of a cell, and what they return. Every object shows itself as a table or picture in a notebook and as text
in a terminal; a wrong name lists the right ones. Units are seconds, bytes and per second; changes are ratios minus 1.
[explore](../explore.md) shows them at work. Errors are `UsageError` (a wrong name or argument), `DataError` (kept
data that cannot be used) and their like of `loadbook.core.errors`; each says what to do next."""
GROUPS = {
    "loadbook.notebook.live_run": "Run",
    "loadbook.notebook": "Explore",
    "loadbook.report": "Pages of reports",
    "loadbook.analyses": "Pages of reports",
}
FIRST = ("studies", "load", "run")  # what one begins with; the others follow in alphabetical order
ORDER = ("Explore", "Run", "Pages of reports")
PAGES = "What notebooks call: one line a cell. A page is an object whose methods are the sections, in any order."


def page() -> str:
    """Return the page."""
    parts = [
        HEAD,
        *_verbs(),
        "## Objects",
        *(part for found in _displayable_classes() for part in _class_page(found)),
        *_pages(),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _verbs() -> Iterator[str]:
    for group in ORDER:
        yield f"## {group}"
        yield PAGES if group == ORDER[-1] else ""
        for name in _names():
            if _group(loadbook._VERBS[name]) == group:
                verb = getattr(loadbook, name)
                yield f"### lb.{name}\n\n```python\nlb.{signature(name, verb)}\n```\n\n{markdown(doc_of(verb))}"


def _names() -> list[str]:
    return sorted(loadbook._VERBS, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))


def _group(module: str) -> str:
    return next(group for start, group in GROUPS.items() if module.startswith(start))


def signature(name: str, function: Any) -> str:
    """Return "name(a: str, b: int = 3) -> Run", without `self`."""
    found = inspect.signature(function)
    given = [str(p).replace("'", "") if p.default is p.empty else _with_default(p) for p in found.parameters.values()]
    back = str(found.return_annotation).replace("'", "")
    back = back.removeprefix("pd.")
    displayed = [text for text in given if text != "self"]
    line = f"{name}({', '.join(displayed)}) -> {back}"
    return line if len(line) <= WIDE else f"{name}(\n    {_comma_lines(displayed)},\n) -> {back}"


WIDE = 108  # letters of a line that a code host shows whole


def _comma_lines(parts: list[str]) -> str:
    return ",\n    ".join(parts)


def _with_default(parameter: inspect.Parameter) -> str:
    displayed = "..." if callable(parameter.default) else repr(parameter.default)
    return f"{parameter.name}: {parameter.annotation} = {displayed}"


def _displayable_classes() -> list[type[Displayable]]:
    """Return the objects that verbs return, and those that these return, in the order in which one meets them."""
    for module in pkgutil.iter_modules(notebook.__path__):
        importlib.import_module(f"{notebook.__name__}.{module.name}")
    known = {kind.__name__: kind for kind in Displayable.__subclasses__()}
    met: list[type[Displayable]] = []
    ways = [getattr(loadbook, name) for name in _names()]
    while ways:
        kind = known.get(_returned(ways.pop(0)))
        if kind and kind not in met:
            met.append(kind)
            ways += [value for _, value in _public(kind)]
    return met


def _returned(way: Any) -> str:
    """Return the name of the class that a function, a method or an attribute gives."""
    function = getattr(way, "fget", None) or getattr(way, "func", None) or way
    return str(getattr(function, "__annotations__", {}).get("return", "")).strip("'").rpartition(".")[2]


def _class_page(kind: type[Displayable]) -> Iterator[str]:
    """Yield heading and docstring of an object, its attributes, its methods."""
    doc, own = doc_of(kind), list(_public(kind))
    facts = [[f"`.{name}`", doc_of(value).summary] for name, value in own if not inspect.isfunction(value)]
    printed = {part for names in doc.entries("Attributes") for part in names.split(", ")}
    yield f"### {kind.__name__}\n\n{markdown(doc)}"
    yield table(["attribute", "is"], [row for row in facts if row[0].strip("`.") not in printed])
    methods = [(name, value) for name, value in own if inspect.isfunction(value)]
    if any(doc_of(value).sections or doc_of(value).text for _, value in methods) and len(methods) < LONG:
        for name, value in methods:
            displayed = f"```python\n.{signature(name, value)}\n```"
            yield f"#### {kind.__name__}.{name}\n\n{displayed}\n\n{markdown(doc_of(value))}"
    else:
        yield _short(methods)


LONG = 12  # methods of which each is a row, not a part of its own


def _short(methods: list[tuple[str, Any]]) -> str:
    rows = [[f"`.{re.sub(' -> .*', '', signature(name, value))}`", _in_a_row(value)] for name, value in methods]
    return table(["method", "does"], rows)


def _in_a_row(value: Any) -> str:
    doc = doc_of(value)
    return f"{doc.summary} {doc.text}".strip()


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, (property, cached_property))):
            yield name, value


def _pages() -> Iterator[str]:
    """Yield a table of sections for every kind of page, the common one first."""
    yield "## Sections of pages"
    verbs = [getattr(loadbook, name) for name in _names() if name.endswith("_page")]
    others = [getattr(importlib.import_module(verb.__module__), _returned(verb)) for verb in verbs]
    for kind in dict.fromkeys([Page, *_below(Page), *others]):
        own = [(name, value) for name, value in _public(kind) if _shows(value)]
        like = ", ".join(base.__name__ for base in kind.__bases__ if issubclass(base, Page))
        title = f"### {kind.__name__}\n\n{doc_of(kind).summary}"
        yield f"{title} Besides what every {like} has:" if like and own else title
        yield table(["section", "shows"], [[f"`.{name}()`", doc_of(value).summary] for name, value in own])


def _shows(value: Any) -> bool:
    """Tell whether a method is a section: it takes nothing, and returns a block."""
    if not inspect.isfunction(value):
        return False
    found = inspect.signature(value)
    return list(found.parameters) == ["self"] and str(found.return_annotation).strip("'") == "Block"


def _below(kind: type) -> Iterator[type]:
    ours = [one for one in kind.__subclasses__() if one.__module__.startswith("loadbook.")]
    for one in sorted(ours, key=lambda one: one.__name__):
        yield one
        yield from _below(one)
