"""The corpus in a study file: names are names, texts are texts, and what goes to a host has a closed form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostile_texts import WRITABLE, inline_toml, silent
from loadbook.core.errors import StudyError
from loadbook.study.plan import as_planned, make_plan, parse_plan
from loadbook.study.problems import MAX_LABEL_CHARS, MAX_TEXT_CHARS
from loadbook.study.reader import read_study

BASE: dict[str, Any] = {
    "schema": 1, "name": "x", "question": "Which is faster?", "baseline": "plain", "blocks": 2,
    "roles": {"driver": {}, "web": {"service": "nginx", "vars": {"gzip": "off"}}},
    "workload": {"tool": "wrk"}, "factors": {"gzip": {"levels": ["off", "on"]}},
    "treatments": {"plain": {}, "gzip": {"set": {"gzip": "on"}}},
}  # fmt: skip
PLAIN = {"NA", "null", "nan", "1e400", "None", "class", "print"}  # names after all


def write(folder: Path, raw: dict[str, Any]) -> Path:
    path = folder / "x.toml"
    path.write_text("\n".join(f"{key} = {inline_toml(value)}" for key, value in raw.items()), encoding="utf-8")
    return path


def changed(*keys: str, value: object) -> dict[str, Any]:
    raw = json.loads(json.dumps(BASE))
    table = raw
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    table[keys[-1]] = value
    return raw


REFUSED = {
    "a treatment's name": lambda text: changed("treatments", text, value={}),
    "a role's name": lambda text: changed("roles", text, value={}),
    "a factor's name": lambda text: changed("factors", text, value={"levels": [1, 2]}),
    "the study's name": lambda text: changed("name", value=text),
    "a service": lambda text: changed("roles", "web", "service", value=text),
    "an external address": lambda text: changed("roles", "web", value={"external": text}),
    "a kernel setting": lambda text: changed("roles", "web", "sysctls", value={text: 1}),
    "CPUs": lambda text: changed("roles", "web", "cpus", value=text),
    "a file of configuration": lambda text: changed("roles", "web", "config", value=text),
    "a plan": lambda text: changed("workload", "plan", value=text),
    "an include": lambda text: changed("include", value=text),
    "the path": lambda text: changed("workload", "path", value=f"{text} \n"),
    "a header": lambda text: changed("workload", "headers", value={"X": f"{text}\n"}),
    "a subset": lambda text: changed("subsets", text, value=["plain"]),
    "the driver's role": lambda text: changed("workload", "role", value=text),
}


@pytest.mark.fault(43, 46)
@pytest.mark.parametrize("kind", REFUSED)
def test_hostile_names_and_host_values_are_refused(tmp_path: Path, kind: str) -> None:
    for text in (t for t in WRITABLE if t not in PLAIN):
        with pytest.raises(StudyError) as refused:
            read_study(write(tmp_path, REFUSED[kind](text)))
        assert silent(refused.value.message) and refused.value.exit_code == 2


@pytest.mark.fault(44)
@pytest.mark.parametrize("keys", [("treatments", "gzip", "label"), ("background",), ("treatments", "gzip", "note")])
def test_hostile_labels_and_notes_are_stored_unchanged(tmp_path: Path, keys: tuple[str, ...]) -> None:
    limit = MAX_LABEL_CHARS if keys[-1] == "label" else MAX_TEXT_CHARS
    for text in (t for t in WRITABLE if len(t) <= limit):
        study = read_study(write(tmp_path, changed(*keys, value=text)))
        plan = parse_plan(json.loads(json.dumps(make_plan(study).to_json())), "plan.json")
        assert plan.study == as_planned(study, plan)
        assert text in (study.background, study.treatments["gzip"].label, study.treatments["gzip"].note)
