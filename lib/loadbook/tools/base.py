"""What a load generator must offer. One file per tool beside this one; `TOOL` is its instance.

Pure: bytes and values in, values out; no files, no network, no pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from loadbook.design.workload import Workload

# what is kept and read of a tool's stdout, bytes: reports are below 1 MB, and what is parsed takes ten times its memory
MAX_REPORT_BYTES = 8 << 20


class Target(NamedTuple):
    """Where the load goes: an address that the driver can reach, a TCP port, and the URL scheme."""

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
    """What one execution of a tool left behind, byte for byte.

    `exit_code` is None where it is not known; `files` holds the tool's own files by the names that `expected_files` gave,
    `paths` says where those lie that are too big to be held and are read as streams; "stdout" among them is what the
    tool printed.
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

    `times_us` is for metrics of which every single time is known: metric -> time in whole us -> how often it occurred.
    Of several drivers, only the times of such metrics can be put together; percentiles never can.

    `span` is from the first start to the last end of the requests, epoch seconds by the driver's clock, where the tool
    tells it: its process may have needed seconds to begin.

    `rejected` says how often there was something that is no row in the tool's own file of requests, by the doubt that
    tells of it: what it held is lost.
    """

    measurements: tuple[Measurement, ...]
    samples: tuple[Sample, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    times_us: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    span: tuple[float, float] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)


class Tool(Protocol):
    """One load generator; `install_hint` says how to bring it to a host, as a command or in words.

    One that needs long to start and to end may say so: `extra_timeout_s` seconds are added to the time after which it has hung.
    `streamed_inputs` names what it reads where it lies, however big: "files", "stdout"; nothing unless it says so.
    One may name in `known_versions` how the versions begin whose reports it was written for; others are used with a word.
    """

    name: str
    binary: str
    install_hint: str
    load_models: frozenset[str]
    version_argv: tuple[str, ...]

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version from what `version_argv` printed (exit codes are not to be trusted), else ToolError."""
        ...

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list that puts this load on the target for about `duration_s` seconds, or `requests`.

        Used for warm-up and measurement alike. Raises ToolError for what the tool cannot do, naming tools that can.
        """
        ...

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return files that the command needs beside it in its working folder (a Lua script, say)."""
        ...

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the names of files that the tool writes into its working folder and that must be collected."""
        ...

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the report's rows; raises ParseError, never returns zeros or NaN for a report that is not there."""
        ...
