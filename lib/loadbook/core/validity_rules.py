"""The registry of validity rules, from validity_rules.toml: titles, evidence, levels, advice.

Doubts of load generators and problems of files have entries, too. The rules themselves are in `loadbook.validity`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal, NamedTuple

RuleSource = Literal["trial", "run", "tool", "file"]


class RuleInfo(NamedTuple):
    """A validity rule as readers see it; `why` and `remedy` continue a sentence and have no full stop.

    `level` is a text on when it is invalid, doubt or note; of a tool's doubt it is the level itself.
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


_FILE = files("loadbook.core").joinpath("validity_rules.toml")
RULE_INFO = {
    name: RuleInfo(name, **entry | {"thresholds": tuple(entry.get("thresholds", ()))})
    for name, entry in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
# rules that are applied to every trial or run; the others have a hit only where a tool or a file has a problem
EVALUATED_RULES = tuple(info.name for info in RULE_INFO.values() if info.by in ("trial", "run"))


def rule_title(name: str) -> str:
    """Return a rule's title; of an unknown name the name as words."""
    return RULE_INFO[name].title if name in RULE_INFO else name.replace("-", " ").replace("_", " ").capitalize()


def lower_first(title: str) -> str:
    """Return a title for the middle of a sentence; abbreviations (CPU) keep their capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def rule_advice(name: str) -> str:
    """Return the end of a rule's message: why it matters (a tool's doubt has its own reason) and the remedy."""
    info = RULE_INFO.get(name)
    if info is None or info.by == "file":
        return ""
    return f"; {info.remedy}." if info.by == "tool" else f": {info.why}; {info.remedy}."
