"""Asks a running service: over HTTP, by a command on its host, or whether its port listens."""

from __future__ import annotations

import ipaddress
import sys
import time
from typing import NamedTuple

from loadbook.core.errors import HostError, LostError
from loadbook.hosts.host import HttpResponse, Host
from loadbook.services.questions import Probe
from loadbook.services.render import RenderedService

PROBE_TIMEOUT_S = 2.0
MAX_COMMAND_CHARS = 80
POLL_PAUSES_S = (0.005, 0.1)
# prints the local address of every TCP socket that listens on port $1 (hex)
LISTENING_SCRIPT = """: loadbook asks which addresses listen on a port
port=$1
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | while read -r number local remote state rest; do
  [ "$state" = 0A ] && [ "${local##*:}" = "$port" ] && echo "${local%:*}"
done
:
"""


class ServiceError(HostError):
    """A service that is missing, refuses its configuration, or does not come up; carries the tool's own words."""


class ProbeResult(NamedTuple):
    """What came back: `response` is None when nothing did, its status 0 when it is no HTTP; `succeeded`: a command's code 0.

    `target` names what was asked and `outcome` what happened, for sentences.
    """

    response: HttpResponse | None
    succeeded: bool
    target: str
    outcome: str

    @property
    def text(self) -> str:
        """The body or what was printed, as text."""
        return self.response.body.decode(errors="replace") if self.response else ""


def run_probe(probe: Probe, name: str, rendered: RenderedService, host: Host, client_host: Host) -> ProbeResult:
    """Ask once: the path from `client_host` (on the side port, from the service's `host`), the command on `host`.

    `name` is the command's in `rendered.commands`. Raises only LostError: the host itself is gone.
    """
    if name in rendered.commands:
        return _run_command(host, rendered.commands[name])
    context, path = rendered.context, probe.path or "/"
    if probe.side:
        return probe_http(host, context.address, context.side_port, path)
    return probe_http(client_host, context.address, context.port, path, rendered.scheme)


def probe_http(client_host: Host, address: str, port: int, path: str, scheme: str = "http") -> ProbeResult:
    """Ask a web server once."""
    target = f"{scheme}://{address}:{port}{path}"
    try:
        answer = client_host.http_get(address, port, path, timeout_s=PROBE_TIMEOUT_S, scheme=scheme)
    except LostError:
        raise
    except HostError as error:
        return ProbeResult(None, False, target, error.message)
    return ProbeResult(answer, True, target, f"answered {answer.status}")


def _run_command(host: Host, argv: tuple[str, ...]) -> ProbeResult:
    command = " ".join(argv)
    target = f"`{command if len(command) <= MAX_COMMAND_CHARS else command[:MAX_COMMAND_CHARS] + ' ...'}`"
    try:
        done = host.run(argv, timeout_s=PROBE_TIMEOUT_S)
    except LostError:
        raise
    except HostError as error:
        return ProbeResult(None, False, target, error.message)
    output = (done.stderr + done.stdout).decode(errors="replace").strip()[-300:]
    return ProbeResult(HttpResponse(0, {}, done.stdout), done.rc == 0, target, f"exit code {done.rc}: {output or 'it said nothing'}")


def wait_for_http(
    client_host: Host, address: str, port: int, path: str = "/", *, status: int = 200, timeout_s: float = 10.0
) -> HttpResponse:
    """Wait until a web server answers `path` with `status`, asked from `client_host`; ServiceError when the time is up."""
    deadline, pause = time.monotonic() + timeout_s, POLL_PAUSES_S[0]
    while True:
        result = probe_http(client_host, address, port, path)
        if result.response and result.response.status == status:
            return result.response
        if time.monotonic() > deadline:
            raise ServiceError(
                client_host.alias, f"{result.target} did not answer {status} within {timeout_s:g} s: {result.outcome}"
            )
        time.sleep(pause)
        pause = min(pause * 2, POLL_PAUSES_S[1])


def probe_port(host: Host, address: str, port: int) -> ProbeResult:
    """See whether something on `host` listens at an address and port, or at all addresses."""
    done = host.script(LISTENING_SCRIPT, [f"{port:04X}"], timeout_s=PROBE_TIMEOUT_S)
    addresses = done.stdout.decode().split()
    is_listening = any(not entry.strip("0") or entry == _proc_net_address(address) for entry in addresses)
    target = f"{address}:{port}"
    return ProbeResult(HttpResponse(0, {}, b"") if is_listening else None, is_listening, target, "listens" if is_listening else "nothing listens there")


def _proc_net_address(address: str) -> str:
    """Return an address as /proc/net/tcp writes it: words of four bytes in the machine's order; a name as it is."""
    try:
        packed = ipaddress.ip_address(address).packed
    except ValueError:
        return address
    step = 1 if sys.byteorder == "big" else -1
    return "".join(packed[offset : offset + 4][::step].hex() for offset in range(0, len(packed), 4)).upper()
