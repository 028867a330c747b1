"""Every gate by name, from gates.toml beside this file: what readers call it, what it reads, what to do about it.

Rules (loadbook/gates/) add what was seen. Doubts that tools raise and files that cannot be read have names here too.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal, NamedTuple

RuleSource = Literal["trial", "run", "tool", "file"]


class RuleInfo(NamedTuple):
    """A gate as readers see it; `why` and `remedy` continue a sentence and carry no full stop.

    `level` says in words when it is invalid, doubt or note; of a tool's doubt it is the level itself.
    `thresholds` are keys of a study's [validity].
    """

    name: str
    by: RuleSource
    title: str
    signal: str
    level: str
    why: str
    remedy: str
    thresholds: tuple[str, ...] = ()


def _read() -> dict[str, RuleInfo]:
    text = files("loadbook.core").joinpath("validity_rules.toml").read_text(encoding="utf-8")
    rules = tomllib.loads(text)
    return {
        name: RuleInfo(name, **entry | {"thresholds": tuple(entry.get("thresholds", ()))})
        for name, entry in rules.items()
    }


RULE_INFO = _read()
# gates that look at every trial or run; the others speak only when something is wrong
EVALUATED_RULES = tuple(info.name for info in RULE_INFO.values() if info.by in ("trial", "run"))


def rule_title(name: str) -> str:
    """Return a gate's title; a name that is no gate's is made readable."""
    return RULE_INFO[name].title if name in RULE_INFO else name.replace("-", " ").replace("_", " ").capitalize()


def lower_first(title: str) -> str:
    """Return a title as it stands inside a sentence; abbreviations (CPU) keep their capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def rule_advice(name: str) -> str:
    """Return how a gate's sentences end, after what was seen: why it matters and what to do; a tool says why itself."""
    info = RULE_INFO.get(name)
    if info is None or info.by == "file":
        return ""
    return f"; {info.remedy}." if info.by == "tool" else f": {info.why}; {info.remedy}."
