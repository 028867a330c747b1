"""Exceptions of loadbook, with the exit codes of the command line.

A message names what failed and where (host, trial, file, key path); ``hint`` is what to do next.
Exit codes are those of docs/architecture.md: 2 usage or bad spec, 3 a host or tool failed, 4 data invalid.
Both may quote hosts, tools and files, so control characters are removed here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadbook.core.text import MAX_NAME_LENGTH, clean, nearest_names


class LoadbookError(Exception):
    """Base of all errors that a user may see without a traceback.

    Parameters
    ----------
    message : what failed, and where.
    hint : what to do next; shown on a line of its own.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = clean(message)
        self.hint = hint and clean(hint)
        super().__init__(self.message)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook displays instead of a traceback: message and hint."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]


class UsageError(LoadbookError):
    """A wrong argument, parameter or name given by the user."""

    exit_code = 2


@dataclass(frozen=True)
class SpecProblem:
    """One mistake in a spec: the key path (``workload.duration_s``) and what is wrong with it."""

    path: str
    message: str


class StudyError(UsageError):
    """A study, hosts or service file that cannot be used; names every problem at once."""

    def __init__(self, source: str, problems: Sequence[SpecProblem], hint: str | None = None) -> None:
        lines = [f"{source}: {len(problems)} problem{'s' if len(problems) != 1 else ''}"]
        lines += [f"  {p.path}: {p.message}" for p in problems]
        super().__init__("\n".join(lines), hint)
        self.source = source
        self.problems = tuple(problems)


class HostError(LoadbookError):
    """Something failed on or on the way to a host; ``transient`` errors may be tried again."""

    transient = False

    def __init__(self, host: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"host {host}: {message}", hint)
        self.host = host


class HostKeyError(HostError):
    """The host's key is unknown, changed or revoked; no command was run."""


class AuthError(HostError):
    """The host refused our login."""


class UnreachableError(HostError):
    """No connection could be made within the limit."""

    transient = True


class LostError(HostError):
    """An open connection died."""

    transient = True


class HostTimeoutError(HostError):
    """A bounded wait on a host ran out."""

    transient = True


class OtherMachineError(HostError):
    """Another machine answers under the host's name, with its key; nothing was done there."""

    transient = True


class CommandError(HostError):
    """A command on a host ended with a code that means failure."""


class HostFullError(HostError):
    """A host's disk is full: files written there since are not to be trusted."""


class OversizeError(HostError):
    """A host's file is too large: of its `size_bytes` only the first `copied_bytes` were copied."""

    def __init__(self, host: str, path: str, size_bytes: int, copied_bytes: int) -> None:
        super().__init__(host, f"{path} has {size_bytes:,} bytes: only the first {copied_bytes:,} are kept")
        self.size_bytes, self.copied_bytes = size_bytes, copied_bytes


class PreflightError(LoadbookError):
    """A run cannot start; the message has every reason, one per line."""

    def __init__(self, problems: list[str], hint: str = "set that right; loadbook doctor [--hosts FILE] helps") -> None:
        super().__init__("\n".join(["the run cannot start:", *(f"  {p}" for p in problems)]), hint)
        self.problems = problems


class ToolError(LoadbookError):
    """A load generator is missing, too old, or cannot do what the workload asks."""

    exit_code = 2


class ParseError(LoadbookError):
    """A tool's output that cannot be read: tool, file and line (1-based; 0 for the file as a whole)."""

    exit_code = 4

    def __init__(self, tool: str, file: str, line: int, message: str) -> None:
        where = f"{file}:{line}" if line else file
        super().__init__(f"{tool}: {where}: {message}")
        self.tool, self.file, self.line, self.reason = tool, file, line, message


class DataError(LoadbookError):
    """Recorded data that is missing, torn, changed, or does not fit its declared schema."""

    exit_code = 4


class ReportError(LoadbookError):
    """A notebook or page could not be made."""


class UnknownNameError(UsageError, AttributeError):
    """A name that is not known; also an AttributeError, so that completion and hasattr work."""


def unknown_name_error(
    kind: str, name: object, known: Iterable[str], where: str = "", plural: str = ""
) -> UnknownNameError:
    """Return the error for a `kind` ("metric") called `name`; `where` follows ("in study x")."""
    names = nearest_names(str(name), known)
    quoted = repr(name)
    quoted = quoted if len(quoted) <= MAX_NAME_LENGTH else f"{quoted[: MAX_NAME_LENGTH - 1]}…"
    suffix = f" {where}" if where else ""
    return UnknownNameError(f"no {kind} {quoted}{suffix}", f"{plural or kind + 's'}: {', '.join(names) or 'none'}")
