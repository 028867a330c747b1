"""Which tools there are: every module of this folder that defines `TOOL`, so adding one file adds a tool."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

import loadbook.tools
from loadbook.core.errors import ParseError, ToolError
from loadbook.design.workload import Workload
from loadbook.tools.base import MAX_REPORT_BYTES, ToolOutput, ParsedReport, Target, Tool


def load_tool(name: str) -> Tool:
    """Return the tool called `name`; ToolError that lists the known ones if there is none."""
    tools = _discover_tools()
    if name not in tools:
        raise ToolError(f"unknown tool {name!r}", f"known tools: {', '.join(tools)}")
    return tools[name]


def tool_names(load_model: str | None = None) -> list[str]:
    """Return the names of all tools, or of those that can make a load of this model, in alphabetical order."""
    return [n for n, tool in _discover_tools().items() if load_model is None or load_model in tool.load_models]


def capable_tools(workload: Workload, target: Target) -> list[str]:
    """Return the names of the tools that can make this load, as each itself says; `extra` is left out.

    It belongs to the tool that the study names, and means something else, or nothing, to another.
    """
    return [name for name, tool in _discover_tools().items() if _can_make(tool, workload, target)]


def parse_output(tool: Tool, output: ToolOutput) -> ParsedReport:
    """Have a tool read what it left behind; ParseError also for what is too large to be held and no stream for it."""
    streamed: tuple[str, ...] = getattr(tool, "streamed_inputs", ())
    for name, path in output.paths.items():
        if (name if name == "stdout" else "files") not in streamed:
            raise ParseError(
                tool.name,
                name,
                0,
                f"{path.stat().st_size:,} bytes are no report: at most {MAX_REPORT_BYTES:,} are read, nothing from byte "
                f"{MAX_REPORT_BYTES + 1:,} on would be",
            )
    return tool.parse(output)


def is_known_version(tool: Tool, version: str) -> bool:
    """Tell whether a tool's reports are known of this version; a tool that names no versions knows all of its own."""
    known_versions: tuple[str, ...] = getattr(tool, "known_versions", ())
    number = version.partition(" ")[0] + "."
    return not known_versions or any(number.startswith(f"{one}.") for one in known_versions)


def _can_make(tool: Tool, workload: Workload, target: Target) -> bool:
    try:
        tool.command(workload.model_copy(update={"tool": tool.name, "extra": ()}), target, workload.duration_s)
    except ToolError:
        return False
    return True


def _discover_tools() -> dict[str, Tool]:
    """Return the tools of every folder of `loadbook.tools.__path__`; a folder that has changed is looked at again."""
    return _import_tools(tuple((path, Path(path).stat().st_mtime_ns) for path in loadbook.tools.__path__))


@cache
def _import_tools(folders: tuple[tuple[str, int], ...]) -> dict[str, Tool]:
    """Import every module of these folders (with their times of change) and collect its `TOOL`, by name."""
    tools: dict[str, Tool] = {}
    for module in sorted(pkgutil.iter_modules([path for path, _ in folders]), key=lambda m: m.name):
        tool: Tool | None = getattr(importlib.import_module(f"loadbook.tools.{module.name}"), "TOOL", None)
        if tool is not None:
            if tool.name in tools:
                raise ToolError(f"two modules of loadbook.tools define a tool named {tool.name!r}", "rename one")
            tools[tool.name] = tool
    return dict(sorted(tools.items()))
