"""The page of load generators: options, meaning of each metric and limits, from the docstrings of their modules."""

import importlib

from docstrings import plain

from loadbook import tools
from loadbook.tools.base import run_tools, tool_names

HEAD = """# Load generators: options, metrics, limits

Options, meaning of the metrics, and limits of each load generator. [tools](../tools.md) says which one fits a question,
[validity-rules](../validity-rules.md#doubts-of-the-tools) explains doubts such as `script`. Unless a section says
otherwise, `extra` may hold every option of the tool that no other key of `[workload]` sets."""
READ_ONLY = """## Read, not run

`loadbook parse` and `loadbook import` also read reports of these; studies cannot use them. Not read: **ghz**, whose
gRPC calls have no HTTP status, and **nighthawk**, of which no report with a known load could be recorded."""


def page() -> str:
    """Return the page."""
    run = list(run_tools())
    read = [name for name in tool_names() if name not in run]
    return "\n\n".join([HEAD, *(_section(n, "##") for n in run), READ_ONLY, *(_section(n, "###") for n in read)]) + "\n"


def _section(name: str, mark: str) -> str:
    module = importlib.import_module(f"{tools.__name__}.{name}")
    return f"{mark} {name}\n\n{plain((module.__doc__ or '').strip())}"
