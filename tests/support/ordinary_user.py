"""An ordinary user of a fresh Debian: no rights, no sbin folder in PATH, and root has never started nginx.

nginx as root makes folders in /var/lib/nginx, after which it starts for users who cannot write there. In a mount
namespace of their own, the commands below see that folder as the package leaves it.
"""

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from loadbook.hosts.host import CommandResult
from loadbook.hosts.shell import search_path
from local_host import LocalHost

NGINX_FOLDER = Path("/var/lib/nginx")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
NOBODY = 65534
USER_PATH = ["env", f"PATH={PATH}"]
_FRESH_FOLDER = f'mount -t tmpfs -o mode=%s fresh {NGINX_FOLDER} && exec "$@"'
# Root becomes nobody, who may still read everything, as Python and the checkout can be in a folder of root's.
_AS_NOBODY = [
    *["unshare", "--mount", "sh", "-c", _FRESH_FOLDER % "755", "sh"],
    *["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"],
    *["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"],
]
# Who is not root becomes root of a namespace, to mount the folder, and in another one the user of before. The folder
# is his own there, so that its mode has to keep him out.
_AS_ONESELF = [
    *["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _FRESH_FOLDER % "555", "sh"],
    *["unshare", "--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"],
]


def ordinary_user_command() -> tuple[str, ...]:
    """Return the words before a command that make an ordinary user run it; skip the test if that is impossible."""
    command, problem = find_ordinary_user()
    if problem:
        pytest.skip(problem)
    return command


@functools.cache
def find_ordinary_user() -> tuple[tuple[str, ...], str]:
    """Return the words of `ordinary_user_command`, and why they only set PATH; "" if they make an ordinary user."""
    if not NGINX_FOLDER.is_dir():
        return tuple(USER_PATH), "nginx is not there: apt-get install nginx-light"
    is_root = os.getuid() == 0
    command = [*(_AS_NOBODY if is_root else _AS_ONESELF), *USER_PATH]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return tuple(command), ""
    if not is_root and not any(NGINX_FOLDER.iterdir()) and not os.access(NGINX_FOLDER, os.W_OK):
        return tuple(USER_PATH), ""
    return tuple(USER_PATH), f"no namespace for an ordinary user of a fresh Debian: {tried.stderr.strip()}"


class OrdinaryUsersHost(LocalHost):
    """This machine with its commands run by an ordinary user, who may write into the folders of the files put there."""

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        super().put(path, data, mode)
        self._path(path).parent.chmod(0o777)

    def run(self, argv: Sequence[str], *, timeout_s: float, check: bool = False) -> CommandResult:
        command = [*ordinary_user_command(), "env", f"PATH={search_path()}", *argv]  # as on every host
        return super().run(command, timeout_s=timeout_s, check=check)
