"""What a study may not say because it would do nothing: examples, each with what loadbook answers to it."""

from __future__ import annotations

import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from docstrings import table

from loadbook.core.errors import StudyError
from loadbook.study.reader import read_study

BASE = """
schema = 1
name = "small"
question = "Is it faster?"
baseline = "one"
blocks = 10
[roles.driver]
[roles.web]
service = "nginx"
vars = { sendfile = "on" }
[roles.spare]
[workload]
tool = "wrk"
[factors]
sendfile = { levels = ["on", "off"] }
[treatments.one]
[treatments.two]
set = { sendfile = "off" }
"""
# what is put over the small study above: each would leave every measurement as it is, or make it another question
REFUSED = (
    '[roles.driver]\ncpus = "0"',
    "[roles.spare]\ncpu_quota = 0.5",
    "[roles.spare]\nsysctls = { 'net.core.somaxconn' = 8 }",
    "[roles.web]\ndelay_ms = 10",
    '[roles.web]\nmode = "system"\ncpus = "0"',
    '[roles.spare]\nexternal = "lb.example.net:80"\nvars = { mode = "tcp" }',
    '[factors]\nnodes = { of = "hosts", var = "n", levels = [1, 2] }',
    '[factors]\nsendfile = { levels = ["off", "unset"] }',
    '[factors]\nhow = { of = "workload", var = "model", levels = ["closed", "open"] }',
    '[treatments.two]\nset = { sendfile = "maybe" }',
    '[treatments.two]\nworkload = { target = "spare" }',
    '[treatments.again]\nsame_as = "one"\ncheck = "aa"\nset = { sendfile = "off" }',
    '[treatments.again]\nsame_as = "one"\nworkload = { threads = 2 }',
    '[treatments.slow]\nset = { sendfile = "off" }\ncheck = "control"',
    "[workload]\nrate_per_s = 100",
    '[workload]\nmodel = "open"\nrate_per_s = 100\nthink_time_s = 1',
    "[workload]\nrequests = 10",
    "[stopping]\nlooks = [10, 20]",
    '[stopping]\nrule = "looks"\nlooks = [10, 20]',
    'hypothesis = "non-inferiority"\ncontrasts = "best"\nmargin = 0.02',
    '[subsets]\nfew = ["two"]',
    '[ci]\nundecided = "fail"\nonly = ["one"]',
)
HEAD = """## Refused, because it would do nothing

Each of these keys exists, and a setting that changes nothing, or that nobody could name afterwards, would still be
read as if it had been compared. Put over a small study of nginx with a factor `sendfile`, each is refused before any
host is touched:"""


def section() -> str:
    """Return the examples, each with its answer."""
    rows = [[f"`{' · '.join(example.splitlines())}`", answer(example)] for example in REFUSED]
    return f"{HEAD}\n\n{table(['keys', 'answer'], rows)}"


def answer(example: str) -> str:
    """Return what loadbook says of the small study with an example put over it."""
    whole = _over(tomllib.loads(BASE), tomllib.loads(example))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.toml"
        path.write_text("".join(f"{_key(k)} = {_value(v)}\n" for k, v in whole.items()))
        try:
            read_study(path)
        except StudyError as error:
            return "; ".join(f"`{p.path}`: {p.message}" for p in error.problems)
    raise AssertionError(f"not refused: {example}")


def _over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {k: (under.get(k), v) for k, v in over.items()}
    return under | {k: _over(a, b) if isinstance(a, dict) and isinstance(b, dict) else b for k, (a, b) in both.items()}


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'


def _value(value: Any) -> str:
    """Return a value as TOML writes it, tables on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
