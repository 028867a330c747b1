"""Exceptions of loadbook, with the exit codes of the command line.

A message states what failed and where (host, trial, file, key path); ``hint`` is the next step for the user. Exit codes
(docs/architecture.md): 2 usage or wrong study file, 3 a host or tool failed, 4 data invalid. Messages and hints may
quote hosts, tools and files, so control characters are removed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadbook.core.text import MAX_NAME_LENGTH, clean, did_you_mean, nearest_names
from loadbook.core.units import pluralize


class LoadbookError(Exception):
    """Base of all errors that users see as a message without a traceback.

    Parameters
    ----------
    message : text that states what failed, and where.
    hint : text that states the next step; shown on a line of its own.
    """

    exit_code = 3
    problems: Sequence[object] = ()  # the single mistakes, if the message lists several

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = clean(message)
        self.hint = hint and clean(hint)
        super().__init__(self.message)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows instead of a traceback: message and hint."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]


class UsageError(LoadbookError):
    """A wrong argument, parameter or name was given by the user."""

    exit_code = 2


class IgnoredSettingsWarning(UserWarning):
    """Settings of the user cannot be read here; the text names them, and the next step."""


@dataclass(frozen=True)
class SpecProblem:
    """One mistake in a study, hosts or service file: its key path (``workload.duration_s``) and a message."""

    path: str
    message: str


class StudyError(UsageError):
    """A study, hosts or service file has mistakes; the message names all of them."""

    def __init__(self, source: str, problems: Sequence[SpecProblem], hint: str | None = None) -> None:
        lines = [f"{source}: {pluralize(len(problems), 'problem')}"]
        lines += [f"  {p.path}: {p.message}" for p in problems]
        super().__init__("\n".join(lines), hint)
        self.source = source
        self.problems: tuple[SpecProblem, ...] = tuple(problems)


class HostError(LoadbookError):
    """Something failed on a host or on the way to it; ``transient`` errors may be retried."""

    transient = False

    def __init__(self, host: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"host {host}: {message}", hint)
        self.host = host


class HostKeyError(HostError):
    """A host's SSH key is unknown, changed or revoked; no command was run."""


class AuthError(HostError):
    """A host refused the login."""


class UnreachableError(HostError):
    """A host could not be reached within the time limit."""

    transient = True


class LostError(HostError):
    """An open connection to a host was lost."""

    transient = True


class HostTimeoutError(HostError):
    """A command or transfer on a host exceeded its time limit."""

    transient = True


class OtherMachineError(HostError):
    """Another machine answers under the host's name, with its key; nothing was done there."""

    transient = True


class CommandError(HostError):
    """A command on a host ended with an exit code that means failure."""


class NotRecordedError(HostError):
    """A replay was asked for an answer that the recorded run does not have."""


class HostFullError(HostError):
    """A host's disk is full; files written there since then are not reliable."""


class OversizeError(HostError):
    """A file on a host is too large: only the first `copied_bytes` of its `size_bytes` were copied."""

    def __init__(self, host: str, path: str, size_bytes: int, copied_bytes: int) -> None:
        super().__init__(host, f"{path} has {size_bytes:,} bytes: only the first {copied_bytes:,} are kept")
        self.size_bytes, self.copied_bytes = size_bytes, copied_bytes


class PreflightError(LoadbookError):
    """A run cannot start; the message lists all reasons, one per line."""

    def __init__(self, problems: list[str], hint: str = "correct that, then start the run again") -> None:
        listed = [f"  {problem}".replace("\n", "\n    ") for problem in problems]
        super().__init__("\n".join(["the run cannot start:", *listed]), hint)
        self.problems: list[str] = problems


class ToolError(LoadbookError):
    """A load generator is missing, too old, or cannot do what the workload requires."""

    exit_code = 2


class OtherProgram(str):
    """Reason of a ParseError for an output in which nothing looks like the tool's: it is that of another program."""


class ParseError(LoadbookError):
    """A tool's output cannot be read; names tool, file and line (1-based; 0 for the file as a whole)."""

    exit_code = 4

    def __init__(self, tool: str, file: str, line: int, message: str) -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{tool}: {where}: {message}")
        self.tool, self.file, self.line, self.reason = tool, file, line, message

    @property
    def is_of_another_program(self) -> bool:
        """Whether nothing in the output looks like the tool's."""
        return isinstance(self.reason, OtherProgram)


class DataError(LoadbookError):
    """Recorded data is missing, torn, changed, or does not fit its schema."""

    exit_code = 4


class ReportError(LoadbookError):
    """A notebook or page could not be made."""


class UnknownNameError(UsageError, AttributeError):
    """A name is unknown; also an AttributeError, so that tab completion and hasattr work."""


def unknown_name_error(
    kind: str, name: object, known: Iterable[str], where: str = "", plural: str = "", listed_in: str = ""
) -> UnknownNameError:
    """Return the error for an unknown `name` of a `kind` such as "metric"; `where` follows it, such as "in study x".

    The hint lists the `known` names, similar ones first; `plural` is the noun there, default `kind` with an s. If
    `listed_in` names a page that lists them, the hint refers to it where the message has a similar name.
    """
    names = nearest_names(str(name), known)
    similar = did_you_mean(name, names)
    quoted = repr(name)
    quoted = quoted if len(quoted) <= MAX_NAME_LENGTH else f"{quoted[: MAX_NAME_LENGTH - 1]}…"
    suffix = f" {where}" if where else ""
    plural = plural or f"{kind}s"
    hint = f"{listed_in} lists all {plural}" if similar and listed_in else f"{plural}: {', '.join(names) or 'none'}"
    return UnknownNameError(f"no {kind} {quoted}{suffix}{similar}", hint)
