"""Commands of loadbook as processes whose events are read: `loadbook run --events`, `loadbook report --events`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loadbook.store.paths import Layout

Message = dict[str, Any]
LAST_KINDS = ("ran", "reported", "failed", "stopped")  # of the last message of a command
# seconds in which a command must end after it was interrupted or has printed its last message
EXIT_TIMEOUT_S = 60.0


def command_arguments(command: str, study: str, options: Mapping[str, Any], others: Sequence[str] = ()) -> list[str]:
    """Return the arguments for `start_command`: command, `others`, options, study.

    `options`: name with dashes, such as "--run" -> value; an option whose value is None is left out.
    """
    given = [[name, str(value)] for name, value in options.items() if value is not None]
    return [command, *others, *(word for pair in given for word in pair), "--", study]


def start_command(layout: Layout, arguments: Sequence[str], **streams: Any) -> subprocess.Popen[str]:
    """Start `loadbook ARGUMENTS --events` in a session of its own, so that Ctrl-C on the terminal does not reach it.

    `streams` (stdin, stdout, stderr) are passed to `subprocess.Popen`.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "loadbook", arguments[0], "--events", *arguments[1:]], text=True, start_new_session=True,
        cwd=layout.root, env=os.environ | {"LOADBOOK_HOME": str(layout.root)}, **streams,
    )  # fmt: skip


def parse_messages(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages (JSON objects) in lines that a command printed; lines that are none are left out."""
    for line in lines:
        with contextlib.suppress(ValueError):
            if isinstance(message := json.loads(line), dict):
                yield message
