"""Execution of notebooks by papermill.

Only notebooks of the project are executed, with declared parameters of the declared types: papermill only warns about
unknown names and never checks types. A notebook succeeded only if its last cell wrote the end marker (`DONE_MIME`),
because papermill and nbclient report a notebook with a dead kernel as complete. The output is written under a temporary
name and renamed, so that readers never see a partial file. papermill is imported when a notebook is executed
(`loadbook.report.engine`).
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from loadbook.core.errors import ReportError, UsageError
from loadbook.report.blocks import DONE_MIME
from loadbook.report.ipynb import is_on_page, read_notebook
from loadbook.report.kernel import SharedKernel
from loadbook.report.parameters import parse_literals, validate_parameters
from loadbook.store.atomic import DISK_FULL_ERRNOS, explain_disk_full, fsync_path
from loadbook.store.paths import Layout

# default time limit of one cell: far more than any cell needs, but ends a hanging one
TIMEOUT_S = 600
KERNEL_STARTS = 2


def find_notebook(layout: Layout, name: str) -> Path:
    """Return the path of notebooks/`name`.ipynb; UsageError for any other place, as a notebook is code."""
    path = layout.notebooks / f"{name}.ipynb"
    known = sorted(p.stem for p in layout.notebooks.glob("*.ipynb"))
    if name not in known or path.resolve().parent != layout.notebooks.resolve():
        raise UsageError(f"no notebook {name!r} under {layout.notebooks}", f"notebooks: {', '.join(known) or 'none'}")
    return path


def declared_parameters(path: Path) -> dict[str, Any]:
    """Return parameter -> default of a notebook, from its cell tagged ``parameters``."""
    tagged = [c for c in read_notebook(path)["cells"] if "parameters" in c["metadata"].get("tags", [])]
    if len(tagged) != 1:
        raise UsageError(f"{path} has {len(tagged)} cells tagged 'parameters', it needs exactly one")
    return parse_literals(tagged[0]["source"])


def execute_notebook(
    layout: Layout,
    name: str,
    given: Mapping[str, Any],
    out: Path,
    timeout_s: float | None = TIMEOUT_S,
    kernel: SharedKernel | None = None,
) -> Mapping[str, Any]:
    """Execute the notebook `name` into the file `out`, completely or not at all; return the data of its end marker.

    Without `kernel` it has a kernel of its own.

    Raises
    ------
    UsageError : unknown notebook or parameter; nothing was executed.
    ReportError : a cell failed, the kernel died, or a cell took over `timeout_s` seconds (None: no limit); the part
        that was executed is then in ``<out stem>.failed.ipynb``.
    """
    source = find_notebook(layout, name)
    validate_parameters(f"notebook {name}", declared_parameters(source), given)
    out.parent.mkdir(parents=True, exist_ok=True)
    part, failed = out.with_name(f".{out.stem}-{uuid.uuid4().hex[:8]}.ipynb"), failed_notebook_path(out)
    try:
        with explain_disk_full(out), nullcontext(kernel) if kernel else SharedKernel() as used:
            reason = _execute_with_retry(layout, source, given, part, timeout_s, used)
        done = read_sentinel(part) if reason is None else None
        if done is None:
            message = f"notebook {name}: {reason or 'it ended without reaching its last cell'}"
            if not part.is_file():
                raise ReportError(message)
            part.replace(failed)
            raise ReportError(message, f"see {failed}")
        fsync_path(part)
        part.replace(out)
        fsync_path(out.parent)
        failed.unlink(missing_ok=True)
        return done
    finally:
        part.unlink(missing_ok=True)


def failed_notebook_path(out: Path) -> Path:
    """Return the path to which a failed notebook is written: ``<stem>.failed.ipynb`` beside `out`."""
    return out.with_name(f"{out.stem}.failed.ipynb")


def _execute_with_retry(
    layout: Layout,
    source: Path,
    given: Mapping[str, Any],
    part: Path,
    timeout_s: float | None,
    kernel: SharedKernel,
) -> str | None:
    """Execute `source` by papermill into `part`; return the reason if it failed, None if papermill reports success."""
    from loadbook.report.engine import ENGINE_NAME, NotebookInterruptedError, papermill

    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # use this interpreter's kernel, not one in the user's home
    # papermill passes every path through str.format
    paths = [str(path).replace("{", "{{").replace("}", "}}") for path in (source, part)]
    options = {
        "engine_name": ENGINE_NAME, "parameters": dict(given), "kernel_name": "python3", "progress_bar": False,
        "request_save_on_cell_execute": False, "cwd": layout.root, "extra_arguments": ["--log-level=CRITICAL"],
        "execution_timeout": None if timeout_s is None else math.ceil(timeout_s), "partial_path": str(part),
        "kernel": kernel,
    }  # fmt: skip
    for _ in range(KERNEL_STARTS):  # kernels that start at the same time may take each other's ports
        try:
            papermill.execute_notebook(*paths, **options)
            return None
        except papermill.PapermillExecutionError as error:
            return f"cell {error.cell_index + 1} failed: {_first_line(f'{error.ename}: {error.evalue}')}"
        except NotebookInterruptedError as error:
            if error.cell is not None:
                return _interruption_reason(error.cell, error.error, timeout_s)
            reason = f"no kernel came up, {KERNEL_STARTS} times: {_first_line(str(error))}"
        except OSError as error:
            if error.errno in DISK_FULL_ERRNOS:
                raise
            return _first_line(f"{type(error).__name__}: {error}")
        except Exception as error:  # errors have no common base class (for example, an invalid notebook)
            return _first_line(f"{type(error).__name__}: {error}")
    return reason


def _interruption_reason(cell: int, error: Exception, timeout_s: float | None) -> str:
    """Return the reason why a cell did not end: time limit, dead kernel, or another error."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    if isinstance(error, CellTimeoutError):
        return f"cell {cell} took longer than its limit of {timeout_s:g} s; loadbook report --timeout-s raises it"
    if isinstance(error, DeadKernelError):
        return f"cell {cell} lost its kernel: it was killed, by somebody or by the system for want of memory"
    return f"cell {cell}: {_first_line(f'{type(error).__name__}: {error}')}"


def _first_line(text: str) -> str:
    """Return the first line of an error, at most 300 characters; the stored notebook has the full text."""
    line = text.strip().splitlines()[0]
    return line if len(line) <= 300 else line[:299] + "…"


def read_sentinel(path: Path) -> Mapping[str, Any] | None:
    """Return the data of a notebook's end marker; None if the page's last cell did not run or any cell has an error.

    It thus distinguishes a complete notebook from one left by a killed papermill. ReportError if the file is not a
    notebook: papermill writes in place, so the file may be truncated.
    """
    code = [c for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]
    outputs = [o for c in code for o in c["outputs"]]
    if any(o["output_type"] == "error" for o in outputs) or not code:
        return None
    last = [*filter(is_on_page, code)][-1:]
    results = [o["data"][DONE_MIME] for c in last for o in c["outputs"] if DONE_MIME in o.get("data", {})]
    return results[-1] if results else None
