"""Notebooks executed by papermill, safely: ours only, known parameters only, and success only if the end was reached.

papermill and nbclient call a notebook with a dead kernel complete; so the last cell of every notebook of ours leaves
a sentinel (`DONE_MIME`), and what lacks it failed, whatever the exit code says. papermill writes its output in place; ours
is written under a name of its own and renamed, so that nobody reads a part of it and two executions never mix.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadbook.core.errors import ReportError, UsageError
from loadbook.records.atomic import DISK_FULL_ERRNOS, explain_disk_full, fsync_path
from loadbook.records.layout import Layout
from loadbook.report import parameters

DONE_MIME = "application/vnd.loadbook.done+json"
# of one cell: far above what any of ours needs, so that one that hangs is found the same day
TIMEOUT_S = 600
KERNEL_STARTS = 2


@dataclass(frozen=True)
class ExecutedNotebook:
    """A notebook that ran to its end: its file and what its last cell said about the run."""

    path: Path
    summary: Mapping[str, Any]


def find_notebook(layout: Layout, name: str) -> Path:
    """Return the file of the notebook `name` under notebooks/; anything else is refused (a notebook is code)."""
    path = layout.notebooks / f"{name}.ipynb"
    known = sorted(p.stem for p in layout.notebooks.glob("*.ipynb"))
    if name not in known or path.resolve().parent != layout.notebooks.resolve():
        raise UsageError(f"no notebook {name!r} under {layout.notebooks}", f"notebooks: {', '.join(known) or 'none'}")
    return path


def declared_parameters(path: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with their defaults, from its cell tagged ``parameters``."""
    tagged = [c for c in _read_notebook(path)["cells"] if "parameters" in c["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise UsageError(f"{path} has {len(tagged)} cells tagged 'parameters', it needs exactly one")
    return parameters.parse_literals(tagged[0]["source"])


def execute_notebook(
    layout: Layout, name: str, given: Mapping[str, Any], out: Path, timeout_s: float | None = TIMEOUT_S
) -> ExecutedNotebook:
    """Execute the notebook `name` into the file `out`, whole or not at all.

    Raises
    ------
    UsageError : unknown notebook or parameter; nothing was executed.
    ReportError : a cell failed, the kernel died, or a cell took over `timeout_s` seconds (None: no limit); what
        there is of the notebook is then in ``<out stem>.failed.ipynb``.
    """
    source = find_notebook(layout, name)
    parameters.validate_parameters(f"notebook {name}", declared_parameters(source), given)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.stem}-{uuid.uuid4().hex[:8]}.ipynb")
    try:
        with explain_disk_full(out):
            reason = _execute_with_retry(layout, source, given, part, timeout_s)
        done = read_sentinel(part) if reason is None else None
        if done is None:
            raise _notebook_error(name, out, part, reason or "it ended without reaching its last cell")
        fsync_path(part)
        part.replace(out)
        fsync_path(out.parent)
        failed_notebook_path(out).unlink(missing_ok=True)
        return ExecutedNotebook(out, done)
    finally:
        part.unlink(missing_ok=True)


def failed_notebook_path(out: Path) -> Path:
    """Return where a notebook that failed is kept."""
    return out.with_name(f"{out.stem}.failed.ipynb")


def _execute_with_retry(layout: Layout, source: Path, given: Mapping[str, Any], part: Path, timeout_s: float | None) -> str | None:
    """Let papermill execute `source` into `part`; return the reason why it failed, None if it says it did not."""
    from loadbook.report.engine import NotebookInterruptedError

    for _ in range(KERNEL_STARTS):  # several kernels that start at once may take each other's ports
        try:
            return _call_papermill(layout, source, given, part, timeout_s)
        except NotebookInterruptedError as error:
            if error.cell is not None:
                return _interruption_reason(error.cell, error.error, timeout_s)
            reason = f"no kernel came up, {KERNEL_STARTS} times: {_first_line(str(error))}"
        except OSError as error:
            if error.errno in DISK_FULL_ERRNOS:
                raise
            return _first_line(f"{type(error).__name__}: {error}")
        except Exception as error:  # a notebook that is none, say: no common base class
            return _first_line(f"{type(error).__name__}: {error}")
    return reason


def _call_papermill(
    layout: Layout, source: Path, given: Mapping[str, Any], part: Path, timeout_s: float | None
) -> str | None:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from loadbook.report.engine import ENGINE_NAME

    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the kernel is this interpreter's, not one of the user's home
    try:
        papermill.execute_notebook(
            _escape_braces(source),
            _escape_braces(part),
            engine_name=ENGINE_NAME,
            parameters=dict(given),
            kernel_name="python3",
            progress_bar=False,
            request_save_on_cell_execute=False,
            execution_timeout=None if timeout_s is None else math.ceil(timeout_s),
            cwd=layout.root,
            extra_arguments=["--log-level=CRITICAL"],
            partial_path=str(part),
        )
    except PapermillExecutionError as error:
        return f"cell {error.cell_index + 1} failed: {_first_line(f'{error.ename}: {error.evalue}')}"
    return None


def _interruption_reason(cell: int, error: Exception, timeout_s: float | None) -> str:
    """Return why a cell did not end, and what to do about it."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    if isinstance(error, CellTimeoutError):
        return f"cell {cell} took longer than its limit of {timeout_s:g} s; loadbook report --timeout-s raises it"
    if isinstance(error, DeadKernelError):
        return f"cell {cell} lost its kernel: it was killed, by somebody or by the system for want of memory"
    return f"cell {cell}: {_first_line(f'{type(error).__name__}: {error}')}"


def _first_line(text: str) -> str:
    """Return what a message and an index row can hold; the kept notebook has the rest."""
    line = text.strip().splitlines()[0]
    return line if len(line) <= 300 else line[:299] + "…"


def _escape_braces(path: Path) -> str:
    """Escape braces: papermill passes every path through str.format."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _notebook_error(name: str, out: Path, part: Path, reason: str) -> ReportError:
    failed = failed_notebook_path(out)
    if part.is_file():
        part.replace(failed)
        return ReportError(f"notebook {name}: {reason}", f"see {failed}")
    return ReportError(f"notebook {name}: {reason}")


def read_sentinel(path: Path) -> Mapping[str, Any] | None:
    """Return what the last code cell of an executed notebook left; None if it did not run or any cell holds an error.

    This is how a notebook that papermill was killed over (also by somebody who called papermill) is told from a whole
    one. ReportError for a file that is no notebook: papermill writes in place, so a part of one may be there.
    """
    code = [c for c in _read_notebook(path)["cells"] if c["cell_type"] == "code"]
    outputs = [o for c in code for o in c["outputs"]]
    if any(o["output_type"] == "error" for o in outputs) or not code:
        return None
    found = [o["data"][DONE_MIME] for o in code[-1]["outputs"] if DONE_MIME in o.get("data", {})]
    return found[-1] if found else None


def _read_notebook(path: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise ReportError(f"{path} is not a readable notebook: {error}") from error
