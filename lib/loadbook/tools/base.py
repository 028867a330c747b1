"""The protocol of a load generator, the registry of tools, and checks that every tool makes of a workload.

A tool is a module of this package that defines `TOOL`; adding the file adds the tool. Tools are pure: bytes and values
in, values out; no files, no network, no pandas.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import loadbook.tools
from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

# largest stdout that is collected and parsed, bytes: reports are below 1 MB, and parsing takes ten times the memory
MAX_REPORT_BYTES = 8 << 20
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # a header field name, RFC 9110 section 5.1
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# headers that carry a login
_SECRET_HEADER = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-(?:api-key|auth-token|csrf-token)", re.IGNORECASE
)
_SECRET_PARAMETER = re.compile(
    r"[?&;]((?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|pwd|signature|sig|api[_-]?key|auth))=", re.IGNORECASE
)
# field of the workload -> value of a study that does not set it, text for a tool that has no option for it
_OPTIONAL_FIELDS = {
    "requests": (None, "cannot end after a number of requests"),
    "think_time_s": (0.0, "cannot make its connections wait between requests (think_time_s)"),
    "calls_per_connection": (1, "cannot limit calls_per_connection"),
    "plan": (None, "has no plans"),
}


class Target(NamedTuple):
    """Destination of the load: an address that the driver can reach, a TCP port, and the URL scheme."""

    address: str
    port: int
    scheme: str = "http"


class Measurement(NamedTuple):
    """One row of the measurements table without its keys; `text` is the value as printed, None when derived."""

    metric: str
    statistic: str
    value: float
    unit: str
    text: str | None


class Sample(NamedTuple):
    """One row of the samples table without its keys (per-second series, histogram bins)."""

    series: str
    metric: str
    x: float
    x_unit: str
    value: float
    unit: str


@dataclass(frozen=True)
class ToolOutput:
    """Output of one execution of a tool, byte for byte.

    `exit_code` is None if unknown. `files` maps names in `expected_files` to contents; `paths` maps the names of files
    too large for memory, which are read as streams, to their paths ("stdout": the standard output).
    """

    stdout: bytes
    stderr: bytes = b""
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    paths: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class ParsedReport:
    """Rows of one report, and doubts (name, message) that gates read, such as connections not as asked.

    `times_us` maps metrics of which every single time is known to a histogram: time in whole us -> number of times.
    Only such metrics can be merged over several drivers; percentiles cannot.

    `span` is from the first start to the last end of the requests, epoch seconds by the driver's clock, where the tool
    reports it: its process may have needed seconds to begin.

    `rejected` counts the records in the tool's own file of requests that are unreadable, by the name of their doubt.
    """

    measurements: tuple[Measurement, ...]
    samples: tuple[Sample, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    times_us: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    span: tuple[float, float] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)


class Tool(Protocol):
    """One load generator; the tools of this package inherit from it.

    Attributes
    ----------
    name, binary : the tool's name in studies, and its program.
    install_hint : a command or a sentence that explains how to install it on a host.
    load_models : "closed", "open" or both.
    version_argv : the command that prints the version and puts no load on anything.
    version_pattern : regular expression whose first group is the version in what that command prints.
    known_versions : prefixes of the versions whose reports the parser was written for; others are used with a note.
    streamed_inputs : "files" and "stdout", where the parser reads them as streams of any size.
    extra_timeout_s : seconds that the tool needs to start and to end, added to the time after which it has hung.
    opens_connections_at_rate : whether it opens connections at the requested rate, whatever was answered by then.
    """

    name: str
    binary: str
    install_hint: str
    load_models: frozenset[str]
    version_argv: tuple[str, ...]
    version_pattern: bytes = b""
    known_versions: tuple[str, ...] = ()
    streamed_inputs: tuple[str, ...] = ()
    extra_timeout_s: float = 0.0
    opens_connections_at_rate: bool = False

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version printed by `version_argv`, else ToolError; its exit code is not reliable."""
        match = re.search(self.version_pattern, stdout + stderr, re.MULTILINE)
        if not match:
            hint = f"install {self.binary} ({self.install_hint.replace('apt-get', 'apt')})"
            raise ToolError(f"{self.name}: no version in {(stdout + stderr)[:80]!r}", hint)
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list that puts this load on the target for about `duration_s` seconds, or `requests`.

        Used for warm-up and measurement alike. Raises ToolError for what the tool cannot do, naming tools that can.
        """
        ...

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the files that the command needs in its working folder, such as a Lua script; by default none."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the names of files that the tool writes and that must be collected; by default none."""
        return ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the report's rows; raises ParseError, never returns zeros or NaN for a report that is not there."""
        ...


def per_second_samples(figures: Summary) -> Iterator[Sample]:
    """Yield the requests that ended in each second of the driver's clock; first and last second are usually partial."""
    for second, answered, ok, errors in figures.per_second_counts():
        yield Sample("ended", "requests_per_s", second, "s", answered, "1/s")
        yield Sample("ended", "ok_per_s", second, "s", ok, "1/s")
        yield Sample("ended", "errors", second, "s", errors, "1")


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
    """Return the names of the tools that can make this load; `extra`, which belongs to the study's tool, is ignored."""
    names = []
    for name, tool in _discover_tools().items():
        try:
            tool.command(workload.model_copy(update={"tool": name, "extra": ()}), target, workload.duration_s)
        except ToolError:
            continue
        names.append(name)
    return names


def parse_output(tool: Tool, output: ToolOutput) -> ParsedReport:
    """Parse the output of a tool; ParseError also for an output too large for memory and not readable as a stream."""
    for name, path in output.paths.items():
        if (name if name == "stdout" else "files") not in tool.streamed_inputs:
            problem = f"{path.stat().st_size:,} bytes are no report: at most {MAX_REPORT_BYTES:,} are read"
            raise ParseError(tool.name, name, 0, f"{problem}, nothing from byte {MAX_REPORT_BYTES + 1:,} on would be")
    return tool.parse(output)


def is_known_version(tool: Tool, version: str) -> bool:
    """Tell whether a tool's reports are known of this version; a tool that names no versions knows all of its own."""
    number = version.partition(" ")[0] + "."
    return not tool.known_versions or any(number.startswith(f"{prefix}.") for prefix in tool.known_versions)


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
            if Tool not in type(tool).__mro__:  # a user's own, written when optional parts were functions of their own
                tool.__class__ = type(type(tool).__name__, (type(tool), Tool), {})
            if tool.name in tools:
                raise ToolError(f"two modules of loadbook.tools define a tool named {tool.name!r}", "rename one")
            tools[tool.name] = tool
    return dict(sorted(tools.items()))


def check_model(tool: Tool, workload: Workload) -> None:
    """Raise ToolError if the tool cannot make loads of this model, naming the tools that can."""
    if workload.model not in tool.load_models:
        capable = ", ".join(tool_names(workload.model)) or "none yet"
        raise ToolError(f"{tool.name} cannot make {workload.model}-loop loads", f"tools that can: {capable}")


def check_workload(
    tool: Tool,
    workload: Workload,
    reserved_options: Sequence[str] = (),
    supported_fields: Sequence[str] = (),
    secret_options: Sequence[str] = (),
) -> None:
    """Raise ToolError unless the tool supports the workload: its load model, its fields and the options in `extra`.

    Parameters
    ----------
    reserved_options : options as typed that `extra` must not repeat, because fields of the workload decide them.
    supported_fields : those of `requests`, `think_time_s`, `calls_per_connection` and `plan` that the tool can do.
    secret_options : options as typed by which the tool takes credentials.
    """
    check_model(tool, workload)
    for name, (unset, problem) in _OPTIONAL_FIELDS.items():
        if name not in supported_fields and getattr(workload, name) != unset:
            raise ToolError(f"{tool.name} {problem}", f"leave workload.{name} out")
    _check_secrets(workload, secret_options)  # first: the next one quotes what it refuses
    _check_extra(tool, workload, reserved_options)


def _check_secrets(workload: Workload, options: Sequence[str]) -> None:
    """Raise ToolError if the load would send credentials: studies are recorded, and options appear in process lists."""
    in_words = re.compile(rf"({_SECRET_HEADER.pattern})\s*:", re.IGNORECASE)
    logins = [name for name in workload.headers if _SECRET_HEADER.fullmatch(name)]
    logins += [f"path: {name}" for name in _SECRET_PARAMETER.findall(workload.path)]
    logins += [word.split(":")[0] for word in workload.extra if in_words.search(word)]
    logins += [option for option in options for word in workload.extra if word.startswith(option)]
    if logins:
        raise ToolError(
            f"the load has {logins[0]}: a login in a study would stand in data, reports and process lists",
            "measure what needs none, or keep it in a file on the driver (wrk -s SCRIPT, jmeter -q PROPERTIES)",
        )


def check_no_timeout(tool: Tool, workload: Workload) -> None:
    """Raise ToolError if the workload sets a time-out, for a tool that has none."""
    if workload.timeout_s != Workload.model_fields["timeout_s"].default:
        raise ToolError(f"{tool.name} has no time-out for requests", "leave workload.timeout_s out")


def _check_extra(tool: Tool, workload: Workload, reserved_options: Sequence[str]) -> None:
    """Raise ToolError if `extra` has an address or repeats an option that the workload's own fields decide.

    An attached value (``-d5``, ``--rate=5``) and, for long options, the unambiguous prefixes that getopt accepts
    (``--num-conn``) are recognised too.
    """
    for word in workload.extra:
        if _ADDRESS.match(word):
            raise ToolError(
                f"workload.extra has the address {word!r}: where the load goes comes from the study alone",
                "set workload.target, workload.path and workload.scheme",
            )
        name = word.partition("=")[0]
        if word.startswith("--"):
            clash = [o for o in reserved_options if o.startswith("--") and len(name) > 2 and o.startswith(name)]
        else:
            clash = [o for o in reserved_options if not o.startswith("--") and word.startswith(o)]
        if clash:
            raise ToolError(
                f"workload.extra has {word!r}, but {clash[0]} of {tool.name} comes from the workload's own fields",
                "set the field of the workload instead",
            )


def whole_seconds(tool: Tool, field: str, value_s: float) -> int:
    """Return `value_s` as an integer of at least 1; ToolError for anything that is not whole seconds."""
    if value_s != int(value_s) or value_s < 1:
        problem = f"{tool.name} takes whole seconds only: {field} = {value_s:g} s cannot be done"
        raise ToolError(problem, f"use {math.ceil(value_s)} s")
    return int(value_s)


def request_headers(workload: Workload) -> dict[str, str]:
    """Return the request headers, with ``Connection: close`` when connections are not kept alive."""
    for name in workload.headers:
        if not _TOKEN.match(name):
            raise ToolError(f"workload.headers: {name!r} is not a header name", "use letters, digits and '-'")
    fields = dict(workload.headers)
    if not workload.keepalive:
        fields = {k: v for k, v in fields.items() if k.lower() != "connection"} | {"Connection": "close"}
    return fields


def target_url(target: Target, path: str) -> str:
    """Return the URL of `path` on the target; IPv6 addresses in brackets."""
    host = f"[{target.address}]" if ":" in target.address else target.address
    return f"{target.scheme}://{host}:{target.port}{path}"
