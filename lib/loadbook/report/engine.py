"""papermill's engine, extended: notebooks share a kernel, and one that ended early is kept, with an error at its end.

papermill 2.7 itself keeps none, or marks every cell as completed (engines.py).
"""

from __future__ import annotations

from typing import Any

from loadbook.report.ipynb import NOTEBOOK_ONLY_TAG, import_nbformat

nbformat = import_nbformat()

import papermill  # noqa: E402 - it imports nbformat
from papermill.clientwrap import PapermillNotebookClient  # noqa: E402
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines  # noqa: E402
from papermill.log import logger  # noqa: E402

from loadbook.report.kernel import SharedKernel  # noqa: E402

__all__ = ["ENGINE_NAME", "NotebookInterruptedError", "papermill"]
ENGINE_NAME = "loadbook"
START_TIMEOUT_S = 60


class NotebookInterruptedError(Exception):
    """A notebook ended without a result from the cell with this number (from 1; None: no kernel started)."""

    def __init__(self, cell: int | None, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.cell, self.error = cell, error


class SharedKernelEngine(Engine):
    """papermill's engine with a shared kernel, extended to write a partly executed notebook to `partial_path`."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,
        *,
        kernel: SharedKernel,
        partial_path: str,
        execution_timeout: int | None,
        extra_arguments: list[str],
        **_: Any,
    ) -> None:
        """Execute the cells of the page; if the kernel dies or a cell times out, the notebook ends with the error.

        NotebookInterruptedError is then raised. `execution_timeout` is in seconds for each cell, None for no limit.
        Cells that are no part of the page are for a reader in JupyterLab.
        """
        options = {"kernel_name": kernel_name, "timeout": execution_timeout, "extra_arguments": extra_arguments}
        options["skip_cells_with_tag"] = NOTEBOOK_ONLY_TAG
        try:
            kernel.execute(PapermillNotebookClient(nb_man, startup_timeout=START_TIMEOUT_S, log=logger, **options))
        except Exception as error:
            started = [k for k, cell in enumerate(nb_man.nb.cells) if cell.metadata.papermill["start_time"]]
            if started:
                cell, message = nb_man.nb.cells[started[-1]], str(error)
                nb_man.cell_exception(cell, cell_index=started[-1])
                if cell.cell_type == "code":
                    output = {"ename": type(error).__name__, "evalue": message, "traceback": message.splitlines()}
                    cell.outputs.append(nbformat.v4.new_output("error", **output))
                nb_man.output_path = partial_path  # written by papermill when it completes the notebook
            raise NotebookInterruptedError(started[-1] + 1 if started else None, error) from error


papermill_engines.register(ENGINE_NAME, SharedKernelEngine)
