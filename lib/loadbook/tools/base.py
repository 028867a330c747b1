"""Base class of load generators, registry of tools, and checks of a workload that all tools share.

A tool is a module of this package that defines `TOOL`; adding the file adds the tool. Tools are pure functions of bytes
and values: they use no files (except logs too large for memory), no network and no pandas.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import loadbook.tools
from loadbook.core.bucketed_times import BucketedTimes
from loadbook.core.compressed import open_plain
from loadbook.core.errors import ParseError, ToolError
from loadbook.core.text import host_port
from loadbook.study.workload import Workload, matching_option

# steps in which a tool tells a time, as shares of it: above the first doubtful, above the second left out
COARSE_STEP, LARGEST_STEP = 0.05, 0.25
COARSE_S = 0.010  # below it, a rounding of half a millisecond is more than the margin of 5 % for times
# shares of the requests that were due, and of the seconds that were asked for, below which a load is doubtful
MIN_ACHIEVED_SHARE, MIN_DURATION_SHARE = 0.97, 0.95
OPEN_METRICS = ("offered_per_s", "latency_intended", "service_time")  # which only open loads have
MAX_REDIRECT_SHARE = 0.5  # of the responses
# largest stdout that is collected and parsed, bytes: reports are below 1 MB, and parsing takes ten times the memory
MAX_REPORT_BYTES = 8 << 20
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # a header field name, RFC 9110 section 5.1
# the number at the beginning of a printed value: decimals and exponent
_PRINTED_NUMBER = re.compile(r"\d[\d,]*(?:\.(\d+))?(?:[eE]([+-]?\d+))?")
_GO_DURATION = re.compile(r"(?:\d+h)?\d+m\d+(?:\.(\d+))?s")  # 1m30.5s
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# headers that carry credentials
_SECRET_HEADER = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-(?:api-key|auth-token|csrf-token)", re.IGNORECASE
)
_SECRET_PARAMETER = re.compile(
    r"[?&;]((?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|pwd|signature|sig|api[_-]?key|auth))=", re.IGNORECASE
)
# field of the workload -> value when the study does not set it, error text for a tool that does not support the field
_OPTIONAL_FIELDS = {
    "requests": (None, "cannot end after a number of requests"),
    "think_time_s": (0.0, "cannot make its connections wait between requests (think_time_s)"),
    "calls_per_connection": (1, "cannot limit calls_per_connection"),
    "max_connections": (None, "has no largest number of connections besides `connections`"),
    "arrivals": ("even", "has one kind of arrivals, which cannot be chosen"),
    "plan": (None, "has no plans"),
}


class Target(NamedTuple):
    """Destination of the load: an address that the driver can reach, a TCP port, and the URL scheme."""

    address: str
    port: int
    scheme: str = "http"


class Measurement(NamedTuple):
    """One row of the measurements table without its key columns; `text` is the printed value, None if computed.

    `step` is the step to which the tool rounds the value, in `unit`, where its digits do not show it.
    """

    metric: str
    statistic: str
    value: float
    unit: str
    text: str | None
    step: float | None = None

    @property
    def resolution(self) -> float | None:
        """`step`, else that of the last printed digit, in `unit`; None for whole counts, computed values and zeros.

        ``1.40ms`` has a step of 1e-5 s. Two values that differ by less can be printed alike.
        """
        if self.step is not None:
            return self.step
        if parts := _GO_DURATION.fullmatch(self.text or ""):
            return float(10.0 ** -len(parts[1] or ""))
        number = _PRINTED_NUMBER.search(self.text or "")
        if number is None or not self.value or self.statistic == "count":
            return None
        printed = float(number[0].replace(",", ""))
        step = 10.0 ** (int(number[2] or 0) - len(number[1] or ""))
        return step * self.value / printed if printed else None

    def as_row(self) -> dict[str, str | float | None]:
        """Return the columns of the measurements table, with `resolution` in place of `step`."""
        row = self._asdict()
        del row["step"]
        return row | {"resolution": self.resolution}


class Sample(NamedTuple):
    """One row of the samples table without its key columns: a point of a per-second series, or a histogram bin."""

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
    too large for memory, which are read as streams, to their paths (the name "stdout" is the standard output).
    `taken_off` names what lay around the report in its file and is left out, such as a prefix of each line.
    """

    stdout: bytes
    stderr: bytes = b""
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    paths: Mapping[str, Path] = field(default_factory=dict)
    taken_off: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParsedReport:
    """Rows of one report, and its doubts: (name, message) of problems, such as fewer connections than requested.

    `times_us` maps a metric to a histogram (time in whole us -> count) where the time of every request is known.
    `bucketed` maps a metric to the number of its times, with their buckets if the tool prints them. Several drivers
    have joint percentiles only of metrics in one of the two.

    `span` is (first start, last end) of the requests in epoch seconds by the driver's clock; None if the tool does not
    report it. The tool's process may have started seconds before its first request.

    `rejected` counts the unreadable rows of the tool's per-request log, by the name of the doubt that reports them.

    `load` has what the report prints of its load, such as {"connections": "50", "path": "/"}.
    """

    measurements: tuple[Measurement, ...]
    samples: tuple[Sample, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    times_us: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    span: tuple[float, float] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    bucketed: Mapping[str, BucketedTimes] = field(default_factory=dict)
    load: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the load is open: requests start at a given rate, which the report may not tell."""
        return any(row.metric in OPEN_METRICS for row in self.measurements)


class Tool(Protocol):
    """One load generator; the tools of this package inherit from it.

    Attributes
    ----------
    name, binary : the tool's name in studies, and its program.
    install_hint : a command or a sentence that explains how to install it on a host.
    load_models : "closed", "open" or both.
    version_argv : the command that prints the version and puts no load on anything.
    version_pattern : regular expression for the output of that command; its first group is the version.
    known_versions : prefixes of the versions whose reports the parser was written for; others are used with a note.
    streamed_inputs : "files" and/or "stdout", if the parser reads them as streams of any size.
    extra_timeout_s : seconds that the tool needs to start and end, added to the time after which it counts as hung.
    opens_connections_at_rate : whether it opens connections at the requested rate even while responses are outstanding.
    shares_load : whether one process of it can put a load on several targets by turns (`shared_command`).
    has_timeout : whether it has an option for the time-out of requests (`workload.timeout_s`).
    report_begin, report_end : regular expressions of the first line of a text report, by which a file with several is
        split, and of a line near its end, which it has at most once.
    report_keys : keys that its report in JSON has, by which a file with several is split; `report_is_list`: the report
        is an array of objects with these keys.
    rows_begin : regular expression of the first line of its logs of single requests and of its CSV.
    hang_cause : known reason why the tool may not end, with the remedy; part of the message when it was killed.
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
    shares_load: bool = False
    has_timeout: bool = True
    report_begin: str = ""
    report_end: str = ""
    report_keys: tuple[str, ...] = ()
    report_is_list: bool = False
    rows_begin: str = ""
    hang_cause: str = ""

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version that `version_argv` printed, whatever its exit code; ToolError if it printed none."""
        match = re.search(self.version_pattern, stdout + stderr, re.MULTILINE)
        if not match:
            hint = f"install {self.binary} ({self.install_hint.replace('apt-get', 'apt')})"
            raise ToolError(f"{self.name}: no version in {(stdout + stderr)[:80]!r}", hint)
        return match[1].decode()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list that loads the target for `duration_s` seconds, or with `requests` requests.

        The options are exact; validity rules judge how well the tool kept to them. Used for warm-up and measurement
        alike. Raises ToolError for a workload that the tool does not support.
        """
        ...

    def shared_command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list that puts one load on several targets by turns; ToolError if the tool cannot.

        The targets and their turns are in the files of `tools.shared_load`; of `target`, the scheme counts.
        """
        raise ToolError(f"{self.name} cannot put one load on several targets by turns", "")

    def shared_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the files that `shared_command` needs besides those of `tools.shared_load`; by default none."""
        return {}

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the files that the command needs in its working folder, such as a Lua script; by default none."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the names of files that the tool writes and that must be collected; by default none."""
        return ()

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the report's rows; raises ParseError for a missing or broken report instead of returning zeros."""
        ...


class ImportedTool(Tool):
    """A load generator whose reports are read, and which loadbook does not run."""

    install_hint = ""
    load_models = frozenset()
    version_argv: tuple[str, ...] = ()

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Raise ToolError."""
        problem = f"loadbook reads reports of {self.name}, but does not run it"
        raise ToolError(problem, f"tools that it runs: {', '.join(tool_names(workload.model))}")


def load_tool(name: str) -> Tool:
    """Return the tool called `name`; for an unknown name raises ToolError, which lists the known tools."""
    tools = _discover_tools()
    if name not in tools:
        raise ToolError(f"unknown tool {name!r}", f"known tools: {', '.join(tools)}")
    return tools[name]


def tool_names(load_model: str | None = None) -> list[str]:
    """Return the names of all tools, or of those that support `load_model`, in alphabetical order."""
    return [n for n, tool in _discover_tools().items() if load_model is None or load_model in tool.load_models]


def run_tools() -> dict[str, Tool]:
    """Return name -> tool of the tools that loadbook runs, without those whose reports are only read."""
    return {name: tool for name, tool in _discover_tools().items() if tool.load_models}


def capable_tools(workload: Workload, target: Target) -> list[str]:
    """Return the names of the tools that can generate this load; `extra`, options of one tool only, is ignored."""
    names = []
    for name, tool in _discover_tools().items():
        try:
            tool.command(workload.model_copy(update={"tool": name, "extra": ()}), target, workload.duration_s)
        except ToolError:
            continue
        names.append(name)
    return names


def parse_output(tool: Tool, output: ToolOutput) -> ParsedReport:
    """Parse the output of a tool; ParseError also for a large output that its parser cannot read as a stream.

    The doubt `redirects` is added if most responses were such.
    """
    for name, path in output.paths.items():
        if (name if name == "stdout" else "files") not in tool.streamed_inputs:
            problem = f"{path.stat().st_size:,} bytes are no report: at most {MAX_REPORT_BYTES:,} are read"
            raise ParseError(tool.name, name, 0, f"{problem}, nothing from byte {MAX_REPORT_BYTES + 1:,} on would be")
    report = tool.parse(output)
    return replace(report, doubts=(*report.doubts, *_redirect_doubts(report)))


def _redirect_doubts(report: ParsedReport) -> Iterator[tuple[str, str]]:
    counts = {row.metric: row.value for row in report.measurements if row.statistic == "count"}
    redirects, answers = counts.get("status_3xx", 0), counts.get("requests", 0)
    if redirects > MAX_REDIRECT_SHARE * answers:
        text = f"{redirects:,.0f} of {answers:,.0f} responses were redirects, which the tool did not follow"
        yield "redirects", text


def is_known_version(tool: Tool, version: str) -> bool:
    """Return whether the tool's parser was written for this version; true for a tool without `known_versions`."""
    number = version.partition(" ")[0] + "."
    return not tool.known_versions or any(number.startswith(f"{prefix}.") for prefix in tool.known_versions)


def _discover_tools() -> dict[str, Tool]:
    """Return the tools of every folder of `loadbook.tools.__path__`; a folder that has changed is searched again."""
    return _import_tools(tuple((path, Path(path).stat().st_mtime_ns) for path in loadbook.tools.__path__))


@cache
def _import_tools(folders: tuple[tuple[str, int], ...]) -> dict[str, Tool]:
    """Import every module of these folders, given as (path, mtime), and return each module's `TOOL` by name."""
    tools: dict[str, Tool] = {}
    for module in sorted(pkgutil.iter_modules([path for path, _ in folders]), key=lambda m: m.name):
        tool: Tool | None = getattr(importlib.import_module(f"loadbook.tools.{module.name}"), "TOOL", None)
        if tool is not None:
            if Tool not in type(tool).__mro__:  # a user's tool written for an older version, without this base class
                tool.__class__ = type(type(tool).__name__, (type(tool), Tool), {})
            if tool.name in tools:
                raise ToolError(f"two modules of loadbook.tools define a tool named {tool.name!r}", "rename one")
            tools[tool.name] = tool
    return dict(sorted(tools.items()))


def check_model(tool: Tool, workload: Workload) -> None:
    """Raise ToolError, which names capable tools, if the tool does not support the workload's load model."""
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
    reserved_options : options such as ``-c`` that `extra` must not repeat, because fields of the workload set them.
    supported_fields : those of `requests`, `think_time_s`, `calls_per_connection`, `max_connections`, `request_times`,
        `arrivals` and `plan` that the tool supports.
    secret_options : options such as ``-A`` that pass credentials to the tool.
    """
    check_model(tool, workload)
    if workload.request_times and "request_times" not in supported_fields:
        raise ToolError(f"{tool.name} does not tell the time of every request, as [capacity] needs it", "")
    fields = dict(workload)
    for name, (unset, problem) in _OPTIONAL_FIELDS.items():
        if name not in supported_fields and fields[name] != unset:
            raise ToolError(f"{tool.name} {problem}", f"leave workload.{name} out")
    if not tool.has_timeout and workload.timeout_s != Workload.model_fields["timeout_s"].default:
        raise ToolError(f"{tool.name} has no time-out for requests", "leave workload.timeout_s out")
    _check_secrets(workload, secret_options)  # first: the error message of the next check quotes the option
    _check_extra(tool, workload, reserved_options)


def _check_secrets(workload: Workload, options: Sequence[str]) -> None:
    """Raise ToolError if the workload has credentials, which would appear in recorded data and process lists."""
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


def _check_extra(tool: Tool, workload: Workload, reserved_options: Sequence[str]) -> None:
    """Raise ToolError if `extra` holds a URL or repeats an option that fields of the workload set."""
    for word in workload.extra:
        if _ADDRESS.match(word):
            raise ToolError(
                f"workload.extra has the address {word!r}: where the load goes comes from the study alone",
                "set workload.target, workload.path and workload.scheme",
            )
        if clash := matching_option(word, reserved_options):
            raise ToolError(
                f"workload.extra has {word!r}, but {clash} of {tool.name} comes from the workload's own fields",
                "set the field of the workload instead",
            )


def whole_seconds(tool: Tool, field: str, value_s: float) -> int:
    """Return `value_s` as an integer of at least 1; ToolError, which names `field`, unless it is whole seconds."""
    if value_s != int(value_s) or value_s < 1:
        problem = f"{tool.name} takes whole seconds only: {field} = {value_s:g} s cannot be done"
        raise ToolError(problem, f"use {math.ceil(value_s)} s")
    return int(value_s)


def whole_milliseconds(tool: Tool, field: str, value_s: float) -> int:
    """Return `value_s` (s) in ms, an integer of at least 1; ToolError, which names `field`, unless it is whole."""
    ms = round(value_s * 1000)
    if ms < 1 or abs(ms - value_s * 1000) > 1e-6:
        problem = f"{tool.name} takes whole milliseconds only: {field} = {value_s:g} s cannot be done"
        raise ToolError(problem, "round it")
    return ms


def whole_rate(tool: Tool, rate_per_s: float) -> Fraction:
    """Return `rate_per_s` as a fraction of whole requests and whole seconds (the denominator, at most 3600).

    ToolError if no such fraction is within one millionth of the rate.
    """
    ratio = Fraction(rate_per_s).limit_denominator(3600)
    if abs(ratio - Fraction(rate_per_s)) > rate_per_s * Fraction(1, 10**6):
        raise ToolError(f"{tool.name} cannot make {rate_per_s:g} requests a second evenly", "round rate_per_s")
    return ratio


def refuse_threads(tool: Tool, workload: Workload) -> None:
    """Raise ToolError if the workload asks for threads, for a tool whose threads cannot be set."""
    if workload.threads != 1:
        raise ToolError(f"{tool.name} has no number of threads", "leave threads out")


def head_of(data: bytes | Path) -> bytes:
    """Return the first 4,096 bytes of a content or of a file."""
    if isinstance(data, bytes):
        return data[:4096]
    with open_plain(data) as file:
        return file.read(4096)


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
    """Return the URL of `path` on the target, with an IPv6 address in brackets."""
    return f"{target.scheme}://{host_port(target.address, target.port)}{path}"
