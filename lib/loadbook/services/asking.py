"""Asks a running service: over HTTP, by a command on its host, or whether its port listens."""

from __future__ import annotations

import ipaddress
import sys
import time
from typing import NamedTuple

from loadbook.core.errors import HostError, LostError
from loadbook.hosts.host import Answer, Host
from loadbook.services.questions import Question
from loadbook.services.render import Rendered

ASK_S = 2.0
SHOWN = 80
POLL_S = (0.005, 0.1)
# prints the local address of every TCP socket that listens on port $1 (hex)
LISTENING = """: loadbook asks which addresses listen on a port
port=$1
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r number local remote state rest; do
  [ "$state" = 0A ] && [ "${local##*:}" = "$port" ] && echo "${local%:*}"
done
:
"""


class ServiceError(HostError):
    """A service that is missing, refuses its configuration, or does not come up; carries the tool's own words."""


class Heard(NamedTuple):
    """What came back: `answer` is None when nothing did, its status 0 when it is no HTTP; `fine`: a command's code 0.

    `where` names what was asked and `seen` what happened, for sentences.
    """

    answer: Answer | None
    fine: bool
    where: str
    seen: str

    @property
    def text(self) -> str:
        """The body or what was printed, as text."""
        return self.answer.body.decode(errors="replace") if self.answer else ""


def hear(question: Question, name: str, rendered: Rendered, host: Host, asker: Host) -> Heard:
    """Ask once: the path from `asker` (on the side port, from the service's `host`), the command on `host`.

    `name` is the command's in `rendered.commands`. Raises only LostError: the host itself is gone.
    """
    if name in rendered.commands:
        return _run(host, rendered.commands[name])
    place, path = rendered.place, question.path or "/"
    if question.side:
        return ask(host, place.address, place.side_port, path)
    return ask(asker, place.address, place.port, path, rendered.scheme)


def ask(asker: Host, address: str, port: int, path: str, scheme: str = "http") -> Heard:
    """Ask a web server once."""
    where = f"{scheme}://{address}:{port}{path}"
    try:
        answer = asker.http_get(address, port, path, timeout_s=ASK_S, scheme=scheme)
    except LostError:
        raise
    except HostError as error:
        return Heard(None, False, where, error.message)
    return Heard(answer, True, where, f"answered {answer.status}")


def _run(host: Host, argv: tuple[str, ...]) -> Heard:
    line = " ".join(argv)
    where = f"`{line if len(line) <= SHOWN else line[:SHOWN] + ' ...'}`"
    try:
        done = host.run(argv, timeout_s=ASK_S)
    except LostError:
        raise
    except HostError as error:
        return Heard(None, False, where, error.message)
    words = (done.stderr + done.stdout).decode(errors="replace").strip()[-300:]
    return Heard(Answer(0, {}, done.stdout), done.rc == 0, where, f"exit code {done.rc}: {words or 'it said nothing'}")


def ready_at(
    asker: Host, address: str, port: int, path: str = "/", *, status: int = 200, timeout_s: float = 10.0
) -> Answer:
    """Wait until a web server answers `path` with `status`, asked from `asker`; ServiceError when the time is up."""
    deadline, pause = time.monotonic() + timeout_s, POLL_S[0]
    while True:
        heard = ask(asker, address, port, path)
        if heard.answer and heard.answer.status == status:
            return heard.answer
        if time.monotonic() > deadline:
            raise ServiceError(
                asker.alias, f"{heard.where} did not answer {status} within {timeout_s:g} s: {heard.seen}"
            )
        time.sleep(pause)
        pause = min(pause * 2, POLL_S[1])


def listens(host: Host, address: str, port: int) -> Heard:
    """See whether something on `host` listens at an address and port, or at all addresses."""
    done = host.script(LISTENING, [f"{port:04X}"], timeout_s=ASK_S)
    found = done.stdout.decode().split()
    fine = any(not entry.strip("0") or entry == _hex(address) for entry in found)
    where = f"{address}:{port}"
    return Heard(Answer(0, {}, b"") if fine else None, fine, where, "listens" if fine else "nothing listens there")


def _hex(address: str) -> str:
    """Return an address as /proc/net/tcp writes it: words of four bytes in the machine's order; a name as it is."""
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError:
        return address
    step = 1 if sys.byteorder == "big" else -1
    return "".join(packed[at : at + 4][::step].hex() for at in range(0, len(packed), 4)).upper()
