"""How papermill executes our notebooks: what there is of one that ended early is kept, its last cell named.

papermill itself writes nothing of a notebook whose kernel died or whose cell took too long, unless it saves at every
cell, and then it calls every cell completed (papermill 2.7, engines.py).
"""

from __future__ import annotations

from typing import Any

from nbformat.v4 import new_output
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

ENGINE_NAME = "loadbook"


class NotebookInterruptedError(Exception):
    """A notebook ended in the cell with this number (from 1; None: no kernel came up) without an answer from it."""

    def __init__(self, cell: int | None, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.cell, self.error = cell, error


class PartialOutputEngine(NBClientEngine):
    """papermill's own engine, which then keeps what there is in `partial_path`."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, *, partial_path: str, **more: Any
    ) -> None:
        """Execute all cells; EndedError for a kernel that died and a cell that overstayed, after marking that cell."""
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **more)
        except Exception as error:
            started = [k for k, cell in enumerate(nb_man.nb.cells) if cell.metadata.papermill["start_time"]]
            if started:
                _record_error(nb_man, started[-1], error)
                nb_man.output_path = partial_path  # written by papermill when it completes the notebook
            raise NotebookInterruptedError(started[-1] + 1 if started else None, error) from error


def _record_error(nb_man: NotebookExecutionManager, index: int, error: Exception) -> None:
    """Let the cell say in the notebook why nothing follows it."""
    cell, message = nb_man.nb.cells[index], str(error)
    nb_man.cell_exception(cell, cell_index=index)
    if cell.cell_type == "code":
        cell.outputs.append(new_output("error", ename=type(error).__name__, evalue=message, traceback=message.splitlines()))


papermill_engines.register(ENGINE_NAME, PartialOutputEngine)
