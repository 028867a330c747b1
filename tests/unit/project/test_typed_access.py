"""Fields of our own classes are read and set by name, never by a computed name, so that mypy sees every access."""

from __future__ import annotations

import ast
from pathlib import Path

LIB = Path(__file__).parents[3] / "lib" / "loadbook"

# (file, object whose attribute is read) -> why its name is computed
ALLOWED = {
    ("__init__.py", "importlib.import_module(_VERBS[name])"): "a module's verb, imported when it is first used",
    ("hosts/replay.py", "self._host"): "__getattr__ of a wrapper",
    ("hosts/ssh.py", "socket"): "options that not every system has",
    ("notebook/compare.py", "error"): "an exception of pandas, some of which name a column",
    ("notebook/live_run.py", "shell"): "IPython's shell, whose kind decides whether it has the attribute",
    ("notebook/plots.py", "type(self)"): "the list of all figures, for dir()",
    ("request_logs/stream.py", "self"): "all arrays of a dataclass, by dataclasses.fields",
    (
        "tools/base.py",
        "importlib.import_module(f'loadbook.tools.{module.name}')",
    ): "the TOOL of a module, if it has one",
}


def test_no_computed_name_of_a_field():
    computed = {
        (path.relative_to(LIB).as_posix(), ast.unparse(call.args[0]))
        for path in LIB.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("getattr", "setattr")
    }
    assert {where for where in computed if where not in ALLOWED} == set()
    assert set(ALLOWED) <= computed, "ALLOWED lists what is no longer there"
