"""Requirements of blocks whose treatments run at once: perl, memory for their services, ports that clients reach.

In such a block each treatment has ports of its own, from a host's `service_port` on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from loadbook.core.units import format_bytes, join_words, pluralize
from loadbook.execution.deployment import Deployment
from loadbook.execution.host_state import STATE_TIMEOUT_S
from loadbook.execution.testbed import Testbed
from loadbook.hosts.doctor import CheckResult
from loadbook.hosts.host import Host

PERL_CHECK = ("perl", "-e", "use POSIX (); print 1")
PLAIN_HINT = 'or run plain trials (execution = "plain")'
GENERATOR_MIB = 16  # of one load generator; wrk with 50 connections has 5 (resident, 2026-11-25)
MEMORY_SCRIPT = (
    'while read -r key value unit; do if [ "$key" = MemAvailable: ]; then echo "$value"; fi; done </proc/meminfo'
)

# prints the id of a process that listens on ports (arguments, after an address) until each had a connection, for 3 s;
# the connections end when it no longer listens on any port
LISTEN_PROGRAM = """
use strict; use IO::Socket::INET; use IO::Select; use POSIX ();
my $address = shift;
my %left = map {
    my $socket = IO::Socket::INET->new(Listen => 5, LocalAddr => $address, LocalPort => $_, ReuseAddr => 1) or exit 3;
    ($socket => $socket)
} @ARGV;
defined(my $child = fork) or exit 3;
if ($child) { print $child; exit 0 }
POSIX::setsid();
open STDIN, "</dev/null"; open STDOUT, ">/dev/null"; open STDERR, ">/dev/null";
alarm 3;
my @accepted;
while (%left) {
    for my $socket (IO::Select->new(values %left)->can_read) {
        push @accepted, scalar $socket->accept;
        delete $left{$socket};
        close $socket;
    }
}
"""
# connects to an address at each of the ports, and prints the first one that it cannot reach within a second; else it
# waits until the other side no longer listens
CONNECT_PROGRAM = """
use strict; use IO::Socket::INET; use IO::Select;
my $address = shift;
my @connected;
for (@ARGV) {
    my $socket = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $_, Timeout => 1);
    if (!$socket) { print $_; exit 0 }
    push @connected, $socket;
}
IO::Select->new($_)->can_read(3) for @connected;
"""


class ArmsOnHost(NamedTuple):
    """Processes of an interleaved block that a host has at once, and the bytes of memory that they may need."""

    services: int
    generators: int
    memory_bytes: int

    @property
    def text(self) -> str:
        """Return their number and memory: "7 services at once, about 224 MiB"."""
        parts = [pluralize(self.services, "service")] if self.services else []
        parts += [pluralize(self.generators, "load generator")] if self.generators else []
        return f"{' and '.join(parts)} at once, about {format_bytes(self.memory_bytes)}"


def arms_on_host(testbed: Testbed, alias: str) -> ArmsOnHost:
    """Return what an interleaved block of the plan has at once on a host, by `memory_mib` of the services."""
    placed = [
        placement.spec.memory_mib
        for arm, name in enumerate(testbed.plan.treatments)
        for placement in Deployment(testbed, name, arm).placements
        if placement.alias == alias
    ]
    of_block = 1 if testbed.plan.mode.shares_generator else len(testbed.plan.treatments)
    generators = of_block if alias in testbed.drivers else 0
    return ArmsOnHost(len(placed), generators, (sum(placed) + GENERATOR_MIB * generators) << 20)


def available_bytes(host: Host) -> int | None:
    """Return the memory that a host can give to new processes; None if its kernel does not tell."""
    answer = host.script(MEMORY_SCRIPT, timeout_s=STATE_TIMEOUT_S).text.strip()
    return int(answer) * 1024 if answer.isdigit() else None


def reasons_against_arms(testbed: Testbed, use_of_perl: str) -> Iterator[str]:
    """Yield reasons in the hosts and the hosts file for which the treatments of a block cannot be up at once.

    `use_of_perl` is what perl does on a driver: "lets load generators take turns".
    """
    execution = testbed.plan.mode.execution
    if testbed.replayed_run and execution not in testbed.replayed_executions:
        others = join_words(sorted(testbed.replayed_executions)) or "no"
        yield f"run {testbed.replayed_run}, which these hosts play back, has {others} trials"
    if changing := sorted({p.spec.name for p in testbed.placements if p.changes_host}):
        yield f"service {changing[0]} changes settings of its whole host"
    for alias in testbed.drivers:
        if testbed.hosts[alias].live and testbed.hosts[alias].run(PERL_CHECK, timeout_s=STATE_TIMEOUT_S).rc:
            yield f"host {alias} has no perl, which {use_of_perl} (apt-get install perl-base)"
    live = {alias: host for alias, host in testbed.hosts.items() if host.live}
    yield from (check.observation for check in check_arms(testbed, live) if check.status != "ok")


def check_arms(testbed: Testbed, hosts: Mapping[str, Host]) -> Iterator[CheckResult]:
    """Check memory and ports of all arms on the connected `hosts`; those of a dry run's testbed are not connected."""
    for alias, host in hosts.items():
        need, available = arms_on_host(testbed, alias), available_bytes(host)
        if available is None or available >= need.memory_bytes:
            yield CheckResult(host.alias, "memory", "ok", need.text)
            continue
        text = f"{need.text}, may need more than host {host.alias} has available, {format_bytes(available)}"
        yield CheckResult(host.alias, "memory", "doubt", text, PLAIN_HINT)
    for (client, server), ports in ports_of_later_arms(testbed).items():
        if client in hosts and server in hosts:
            yield _check_ports(hosts[client], hosts[server], ports)


def _check_ports(client: Host, server: Host, ports: Mapping[int, str]) -> CheckResult:
    """Check whether `client` can connect to ports of `server`, from which `ports` leads to their treatments.

    For the test, a perl process on `server` listens on all of them, for 3 s at most. Without perl, or where something
    listens already, nothing is tested.
    """
    listen, connect = port_commands(server.address, ports)
    span = f"{min(ports)} to {max(ports)}" if len(ports) > 1 else f"{min(ports)}"
    listening = server.run(listen, timeout_s=STATE_TIMEOUT_S)
    tested = client.run(connect, timeout_s=STATE_TIMEOUT_S) if listening.rc == 0 else listening
    if listening.rc == 0 and (tested.rc or tested.text):  # it still listens
        server.run(("kill", listening.text), timeout_s=STATE_TIMEOUT_S)
    if tested.rc:
        return CheckResult(server.alias, "ports", "ok", f"{span} for all treatments at once; not tested")
    answer = tested.text.strip()
    if not answer:
        return CheckResult(
            server.alias, "ports", "ok", f"{span} for all treatments at once: {client.alias} reaches them"
        )
    wanted = f"port {answer} of host {server.alias}, which treatment {ports[int(answer)]} would use"
    text = f"host {client.alias} cannot connect to {wanted} (does a firewall let it reach the ports {span}?)"
    return CheckResult(server.alias, "ports", "doubt", text, PLAIN_HINT)


def port_commands(address: str, ports: Iterable[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that listen on ports of an address, and that connect to them from another host."""
    words = (address, *map(str, sorted(ports)))
    return ("perl", "-e", LISTEN_PROGRAM, *words), ("perl", "-e", CONNECT_PROGRAM, *words)


def ports_of_later_arms(testbed: Testbed) -> dict[tuple[str, str], dict[int, str]]:
    """Return client and server host -> port of the server -> its treatment, for all arms but the first.

    The ports of the first arm are those of plain trials.
    """
    ports: dict[tuple[str, str], dict[int, str]] = {}
    for arm, name in list(enumerate(testbed.plan.treatments))[1:]:
        deployment = Deployment(testbed, name, arm)
        for placement in deployment.placements:
            pair = deployment.client_host(placement).alias, placement.alias
            ports.setdefault(pair, {})[deployment.port(placement)] = name
    return ports
