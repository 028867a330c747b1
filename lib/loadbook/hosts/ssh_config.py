"""The user's own SSH configuration: the settings of a name, as ssh itself reads them.

`ssh -G NAME` prints them: files that are included, ``Match`` (also ``Match exec``, which runs the user's own commands)
and canonical names are ssh's work. Only ssh knows all of this for its version, with the system's own configuration.
So it is asked wherever it is. On a machine without ssh, Paramiko reads the file and those that it includes
(`ssh_config_text`), with a warning of lines that it cannot read. Both readers return values with their tokens (%n),
as `ssh -G` does not replace them; they are replaced here. OpenSSH finds ``~`` in the password database, not in $HOME.
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from paramiko.config import SSHConfig

from loadbook.core.errors import IgnoredSettingsWarning, SpecProblem, StudyError, UsageError
from loadbook.core.text import one_line
from loadbook.hosts.ssh_config_text import ConfigText

ASK_TIMEOUT_S = 15.0
# ssh has more of them, which differ between its versions
DEFAULT_KEY_FILES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")

# keyword in lower case -> its values, in the order of the configuration
Options = dict[str, list[str]]


class UserConfig(Protocol):
    """A reader of the user's SSH configuration."""

    def lookup(self, name: str, user: str | None = None, port: int | None = None) -> Options:
        """Return the settings of a name that a user gives to ssh: keyword in lower case -> its values.

        `user` and `port` are those of a command line, which take precedence; None: not given.
        """


@dataclass(frozen=True)
class SshProgram:
    """The reader of OpenSSH. `file` takes the place of the user's and the system's configuration (None: both)."""

    program: str
    file: Path | None = None

    def lookup(self, name: str, user: str | None = None, port: int | None = None) -> Options:
        """Return what `ssh -G` prints of a name; with the same arguments, ssh is run once per process."""
        return parse_options(ask_ssh(self.program, self.file, name, user, port))


@dataclass(frozen=True)
class ParamikoConfig:
    """The reader of Paramiko, which does not know the system's configuration."""

    config: SSHConfig

    def lookup(self, name: str, user: str | None = None, port: int | None = None) -> Options:
        """Return the settings of a name."""
        found = self.config.lookup(name).items()
        options = {k: v if isinstance(v, list) else [str(v)] for k, v in found if v is not None}
        return options | {k: [str(v)] for k, v in {"user": user, "port": port}.items() if v is not None}


class _RawConfig(SSHConfig):
    """Paramiko's reader without tokens in values, most of which it does not know (%n, %p, %i, %k)."""

    TOKENS_BY_CONFIG_KEY: ClassVar[dict[str, list[str]]] = {
        key: SSHConfig.TOKENS_BY_CONFIG_KEY[key] for key in ("hostname", "match-exec")
    }


def read_user_config(file: Path | None = None) -> UserConfig:
    """Return the reader of the user's own configuration, or of `file`; never of one that came with a study."""
    if program := ssh_program():
        return SshProgram(program, file)
    path = file or Path("~/.ssh/config").expanduser()
    if not path.is_file():
        return ParamikoConfig(SSHConfig())
    try:
        text = ConfigText(path, home_folder() / ".ssh")
        config = _RawConfig.from_text("\n".join(text.lines))
    except Exception as error:
        raise StudyError(str(path), [SpecProblem("file", str(error))]) from error
    if text.unread:
        note = f"there is no ssh program here, and loadbook alone cannot read {'; '.join(text.unread)}"
        warnings.warn(f"{note}; next: install OpenSSH's client", IgnoredSettingsWarning, stacklevel=2)
    return ParamikoConfig(config)


def ssh_program() -> str | None:
    """Return the path of the user's ssh; None if there is none."""
    return shutil.which("ssh")


@functools.cache
def ask_ssh(program: str, file: Path | None, name: str, user: str | None, port: int | None) -> str:
    """Return the output of `ssh -G`, which makes no connection; UsageError if it fails.

    `file` takes the place of the user's and the system's configuration (None: both).
    """
    command = [program, *(["-F", str(file)] if file else []), "-G"]
    command += [*(["-l", user] if user else []), *(["-p", str(port)] if port else []), "--", name]
    shown = f"ssh -G {name}"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_TIMEOUT_S, check=False,
            env=os.environ | {"LC_ALL": "C"}, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        hint = f"a command of Match exec, or a name server, may hang; try: {shown}"
        raise UsageError(f"{shown}: no answer within {ASK_TIMEOUT_S:g} s", hint) from None
    except OSError as error:
        raise UsageError(f"{shown}: {program}: {error.strerror}") from error
    if done.returncode or not re.search(r"^hostname \S", done.stdout, re.MULTILINE):
        said = one_line(done.stderr.replace("\r", "").replace("\n", "; \n")).removesuffix(";")
        said = said or f"exit code {done.returncode}, and no host name"
        raise UsageError(f"ssh reads no settings of {name}: {said}", f"correct that, and try: {shown}")
    return done.stdout


def parse_options(text: str) -> Options:
    """Return the settings that `ssh -G` printed, one to a line: keyword in lower case, space, value."""
    options: Options = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        options.setdefault(keyword.lower(), []).append(value)
    return options


def home_folder() -> Path:
    """Return the user's home folder as ssh finds it, in the password database."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()


def tokens_of(name: str, options: Mapping[str, list[str]]) -> dict[str, str]:
    """Return letter -> value of ssh's tokens ("h" for %h) for a name with its settings, which contain `hostname`."""
    host, this_host = options["hostname"][0], socket.gethostname()
    port, user = options.get("port", ["22"])[0], options.get("user", [getpass.getuser()])[0]
    return {
        "%": "%",
        "C": hashlib.sha1(f"{this_host}{host}{port}{user}".encode(), usedforsecurity=False).hexdigest(),
        "h": host,
        "n": name,
        "k": options.get("hostkeyalias", [name])[0],
        "p": port,
        "r": user,
        "u": getpass.getuser(),
        "i": str(os.getuid()),
        "d": str(home_folder()),
        "l": this_host,
        "L": this_host.partition(".")[0],
    }


def expand_tokens(text: str, tokens: Mapping[str, str]) -> str:
    """Return a value that `ssh -G` printed with its tokens (%h, ...) replaced by `tokens_of`; unknown ones remain."""
    return re.sub(r"%(.)", lambda token: tokens.get(token[1], token[0]), text)


def expand_path(text: str, tokens: Mapping[str, str]) -> Path:
    """Return the path of a setting: ``~``, tokens and ${VARIABLE} replaced; UsageError if a variable is not set."""

    def variable(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UsageError(f"{shown}: the variable {found[1]} is not set", "set it, or correct ~/.ssh/config")
        return os.environ[found[1]]

    shown = text
    if text == "~" or text.startswith("~/"):
        text = f"{home_folder()}{text[1:]}"
    text = re.sub(r"\$\{(\w+)\}", variable, text)
    return Path(expand_tokens(text, tokens)).expanduser()
