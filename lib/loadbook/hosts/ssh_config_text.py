"""The text of an SSH configuration for Paramiko's reader, which knows neither Include nor comments after values.

Included files are put in their place, comments are left out, and each Host block becomes a block of Match: a block of
a file that is included below ``Host web*`` applies only to these names, as in OpenSSH.
"""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from loadbook.core.text import one_line

MAX_INCLUDES = 16  # levels, as in OpenSSH
# the criteria of Match that Paramiko knows
_WITHOUT_VALUE = ("all", "canonical", "final")
_WITH_VALUE = ("exec", "host", "localuser", "originalhost", "user")
_NO_HOST = "originalhost !*"
# their value is the whole rest of the line, which may be a shell's comment
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
_LINE = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.*)")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


class ConfigText:
    """The lines of a configuration. `unread`: Match lines that cannot be read; their blocks apply to no host.

    Parameters
    ----------
    file : the configuration.
    folder : where included files are, unless their path is absolute.

    Raises
    ------
    ValueError : a line without a value, or a circle of included files. OSError : a file cannot be read.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self._folder = folder
        self.unread: list[str] = []
        self.lines = list(self._read(file, "", 0))

    def _read(self, file: Path, outer: str, level: int) -> Iterator[str]:
        """Yield the lines of a file; `outer`: the criteria of the block that includes it, "" for all hosts."""
        if level > MAX_INCLUDES:
            raise ValueError(f"{file}: more than {MAX_INCLUDES} levels of Include")
        block = outer
        for number, raw in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not (line := raw.strip()) or line.startswith("#"):
                continue
            keyword, value = _split(line)
            if not value:
                raise ValueError(f"{file} line {number}: no value: {one_line(line)}")
            if keyword == "include":
                for included in self._included(value):
                    yield from self._read(included, block, level + 1)
                yield _header(block)
            elif keyword in ("host", "match"):
                own = f"originalhost {_patterns(value)}" if keyword == "host" else self._criteria(file, number, line)
                block = f"{outer} {own}".strip()
                yield _header(block)
            else:
                yield f"{keyword} {value}"

    def _included(self, value: str) -> Iterator[Path]:
        """Yield the files that an Include line names; as in OpenSSH, a missing one is no mistake."""
        for word in _WORD.findall(value):
            pattern = word.strip("\"'")
            if pattern.startswith("~/"):
                pattern = f"{self._folder.parent}{pattern[1:]}"
            for name in sorted(glob.glob(str(self._folder / pattern))):  # noqa: PTH207  Path.glob takes no absolute pattern
                if Path(name).is_file():
                    yield Path(name)

    def _criteria(self, file: Path, number: int, line: str) -> str:
        """Return the criteria of a Match line for Paramiko; "" for all hosts."""
        words, criteria = _WORD.findall(_split(line)[1]), []
        while words:
            name, equals, value = words.pop(0).partition("=")
            criterion = name.lower().removeprefix("!")
            if criterion not in (*_WITHOUT_VALUE, *_WITH_VALUE):
                self.unread.append(f"{file} line {number}: {one_line(line)}")
                return _NO_HOST
            if criterion in _WITHOUT_VALUE:
                criteria += [] if criterion == "all" else [name.lower()]
            elif value or words:
                criteria += [name.lower(), value if equals else words.pop(0)]
            else:
                raise ValueError(f"{file} line {number}: no value: {one_line(line)}")
        return " ".join(criteria)


def _split(line: str) -> tuple[str, str]:
    """Return keyword in lower case and value without a comment; the value is "" if there is none."""
    found = _LINE.fullmatch(line)
    if not found:
        return line.lower(), ""
    keyword, value = found[1].lower(), found[2]
    if keyword not in _COMMANDS:
        comment = next((word.start() for word in _WORD.finditer(value) if word[0].startswith("#")), len(value))
        value = value[:comment].rstrip()
    return keyword, value


def _patterns(value: str) -> str:
    """Return the patterns of a Host line as one word."""
    return shlex.quote(",".join(word.strip("\"'") for word in _WORD.findall(value)))


def _header(criteria: str) -> str:
    return f"Match {criteria}" if criteria else "Host *"
