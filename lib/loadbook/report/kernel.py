"""One kernel for all notebooks of a report, as the imports of a kernel cost more than the cells of a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from papermill.clientwrap import PapermillNotebookClient

# the namespace of a new kernel, with cells counted from 1; no figures and no style of the notebook before
RESET = """
get_ipython().reset(new_session=True)
import sys
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].close("all")
    sys.modules["matplotlib"].rcdefaults()
del sys
"""


class SharedKernel:
    """A kernel that executes notebooks one after the other; each finds an empty namespace.

    The first notebook starts it, and so does the next one after an error. It stops at the end of a `with` block.
    """

    def __init__(self) -> None:
        self._client: PapermillNotebookClient | None = None

    def execute(self, client: PapermillNotebookClient) -> None:
        """Execute the notebook of a client; after an error of the kernel, it is stopped and the error raised."""
        before, self._client = self._client, client
        try:
            if before is not None:
                client.km, client.kc = before.km, before.kc
                client.wait_for_reply(client.kc.execute(RESET, silent=True))
            client.execute(cleanup_kc=False)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> SharedKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        client, self._client = self._client, None
        if client is not None and client.km is not None:
            client._cleanup_kernel()
