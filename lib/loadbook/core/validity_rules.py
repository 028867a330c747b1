"""Registry of validity rules, read from validity_rules.toml: titles, evidence, levels, advice.

It also has entries for doubts of load generators and problems of files. `loadbook.validity` implements the rules.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal, NamedTuple

RuleSource = Literal["trial", "run", "tool", "file"]


class RuleInfo(NamedTuple):
    """Description of a validity rule; `why` and `remedy` continue a sentence and have no full stop.

    `by` is what is judged: a trial, a run, a tool's output or a file. `signal` is the evidence that the rule reads.
    `level` describes when a trial is invalid, doubtful or only noted; for a tool's doubt it is the level itself.
    `thresholds` are keys in [validity] of a study file.
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
# rules that are applied to every trial or run; the others have hits only if a tool or a file has a problem
EVALUATED_RULES = tuple(info.name for info in RULE_INFO.values() if info.by in ("trial", "run"))


def rule_title(name: str) -> str:
    """Return a rule's title; for an unknown rule its name as words."""
    return RULE_INFO[name].title if name in RULE_INFO else name.replace("-", " ").replace("_", " ").capitalize()


def lower_first(title: str) -> str:
    """Return a title as it is written in a sentence: first letter lower-case, except in abbreviations (CPU)."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def doubt_rule(name: str) -> RuleInfo:
    """Return the rule of a doubt that a tool's parser has raised; `tool_doubt` for one without a rule of its own."""
    return RULE_INFO.get(name) or RULE_INFO["tool_doubt"]


def rule_advice(name: str) -> str:
    """Return the end of a rule's message: why it matters (unless a tool gave its own reason) and the remedy.

    It is "" for an unknown rule and for problems of files.
    """
    info = RULE_INFO.get(name)
    if info is None or info.by == "file":
        return ""
    return f"; {info.remedy}." if info.by == "tool" else f": {info.why}; {info.remedy}."


class ExclusionCause(NamedTuple):
    """Why a trial does not count, in words that continue a sentence, and what to do; "" if nothing is known."""

    text: str
    remedy: str = ""


STATUS_CAUSES = {
    "tool_failed": "the load generator failed",
    "timeout": "out of time",
    "lost": "a host was lost",
    "cancelled": "interrupted",
}


def exclusion_cause(rule: str, message: str = "") -> ExclusionCause:
    """Return the cause of an exclusion by a rule: the rule's title and remedy, unless its message has its own remedy.

    Such a `message` is "observation; remedy" and does not end with the rule's advice; the cause is then made of it.
    """
    advice, (observation, semicolon, remedy) = rule_advice(rule), message.rstrip(".").partition("; ")
    if semicolon and not message.endswith(advice):
        return ExclusionCause(observation, remedy)
    return ExclusionCause(lower_first(rule_title(rule)), RULE_INFO[rule].remedy if advice else "")


def status_cause(status: str) -> ExclusionCause:
    """Return the cause for a trial that ended with this status, other than "ok"."""
    return ExclusionCause(STATUS_CAUSES.get(status, status.replace("_", " ")))
