"""The hosts file hosts.toml: aliases, roles, work folders. SSH settings come from the user's ~/.ssh/config."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import StudyError, UsageError
from loadbook.core.toml import HOSTS_KEYS, read_toml, renamed_field, to_present_keys
from loadbook.study import problems
from loadbook.study.treatments import HostPort, Name
from loadbook.study.workload import Matching

Alias = Name
# strict patterns, since `Match exec` and ProxyCommand in ~/.ssh/config put host and user names into a command line
HostName = Annotated[
    str,
    Matching(
        r"[A-Za-z0-9_:][A-Za-z0-9._:%-]{0,252}", "a host name or an IP address (IPv6 without brackets: 2001:db8::5)"
    ),
    AfterValidator(lambda value: _check_address(value)),
]
UserName = Annotated[str, Matching(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,63}", "the name of a user")]
Folder = Annotated[str, AfterValidator(lambda value: _check_folder(value))]
Port = Annotated[int, Field(ge=0, lt=65536)]
Permission = Literal["sysctl", "tc", "cgroup", "nft", "system"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)


def _check_address(value: str) -> str:
    """Return the name or address; ValueError for one with a colon that is no IPv6 address, such as 192.0.2.1:80."""
    if ":" in value:
        try:
            ipaddress.IPv6Address(value)
        except ValueError:
            raise ValueError("has a colon, but is no IPv6 address: a port does not belong here") from None
    return value


def _check_folder(value: str) -> str:
    """Return the folder if it can be used unquoted in scripts and service configurations; else raise ValueError."""
    unsafe = not value.isprintable() or set(value) & set("\"'\\;{}$#`|&<>*?!")
    if unsafe or not value.startswith("/") or ".." in value.split("/"):
        raise ValueError("must be an absolute folder without quotes, signs of a shell and '..'")
    return value


class HostEntry(BaseModel):
    """One host: settings that ~/.ssh/config does not have.

    Attributes
    ----------
    roles : its roles, as studies name them (driver, web, balancer, app, ...).
    ssh : its name in ~/.ssh/config; default: the alias.
    address : target of the load for drivers and balancers, for example in a private network; default: as in ssh.
    workdir : folder on the host for all files of loadbook; default: /tmp/loadbook-<user>-<alias>.
    lock : lock file on the host, the same for all users of the machine; default: /tmp/loadbook-host.lock.
    state : folder on the host for backups and records of changes, which must survive a reboot and is shared by aliases
        of one machine; default: /var/lib/loadbook for root, ~/.local/state/loadbook for others.
    host_name, port, user, identity_file : override ~/.ssh/config.
    service_port : first port of its services, which their clients must reach; below 1024 needs root on the host.
    cpus : CPUs of all processes that loadbook starts; studies number CPUs within these; default: all.
    allow : changes permitted during a trial and restored after it: kernel settings; delay, loss and rate of its
        network; CPU time; packet rules; the files of its own servers. Each needs root on the host.
    price_per_month : price in the file's currency, for the price per 1,000 requests/s.
    munin_port : port of its munin node; 0: none.
    exporter_port : port of its node_exporter; 0: none.
    link_mbit : rate of its network link, Mbit/s, for comparison with the measured bytes per second.
    max_requests_per_s : highest rate of requests from a study, all drivers together, directly or through balancers.
    max_connections : highest number of open connections of a load.
    max_load_s : longest load of one trial with its warm-up, seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    roles: tuple[Alias, ...]
    ssh: HostName | None = None
    address: HostName | None = None
    workdir: Folder | None = None
    lock: Folder | None = None
    state: Folder | None = None
    host_name: HostName | None = None
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    user: UserName | None = None
    identity_file: str | None = None
    service_port: Annotated[int, Field(gt=0, lt=65536)] = 18080
    cpus: tuple[int, ...] | None = None
    allow: tuple[Permission, ...] = renamed_field("allow", "may", ())
    price_per_month: Annotated[float, Field(gt=0)] | None = None
    munin_port: Port = 4949
    exporter_port: Port = 9100
    link_mbit: Annotated[float, Field(gt=0)] | None = None
    max_requests_per_s: Annotated[float, Field(gt=0)] | None = None
    max_connections: Annotated[int, Field(gt=0)] | None = None
    max_load_s: Annotated[float, Field(gt=0)] | None = None


class HostsFile(BaseModel):
    """The whole hosts.toml.

    Attributes
    ----------
    known_hosts : file of trusted host keys; default: known_hosts beside this file.
    replay : folder of a recorded run, relative to this file; its recorded hosts answer instead of real ones.
    external : addresses outside these hosts that studies may load, as host:port.
    currency : currency of the prices, as printed (EUR).
    external_prices : role -> price per month of an external role.
    hosts : hosts by alias.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    known_hosts: str | None = None
    replay: str | None = None
    external: tuple[HostPort, ...] = ()
    currency: str = ""
    external_prices: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    hosts: dict[Alias, HostEntry]

    def price_record(self) -> dict[str, Any]:
        """Return the prices for run.json: the currency, and monthly prices by host and by external role."""
        hosts = {alias: entry.price_per_month for alias, entry in self.hosts.items() if entry.price_per_month}
        return {"currency": self.currency, "hosts": hosts, "external": self.external_prices}

    def with_role(self, role: str) -> list[str]:
        """Return the aliases of hosts that have `role`, in file order."""
        return [alias for alias, entry in self.hosts.items() if role in entry.roles]


def format_entry(alias: str, values: Mapping[str, Any]) -> str:
    """Return one host of a hosts file as TOML."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([f"[hosts.{json.dumps(alias)}]", *lines, ""])


def read_hosts(path: Path) -> HostsFile:
    """Read and check a hosts file; UsageError if it is missing; StudyError lists every mistake with its key path."""
    try:
        raw = read_toml(path)
    except FileNotFoundError:
        hint = "write one (docs/tutorial.md, step 3); without --hosts it is the lab's, made by loadbook lab up"
        raise UsageError(f"hosts file {path.absolute()} is not there", hint) from None
    except OSError as error:
        raise UsageError(f"hosts file {path}: {error.strerror}") from error
    doubled = list(to_present_keys(raw, HOSTS_KEYS, path))
    if doubled:
        raise StudyError(str(path), doubled)
    try:
        return HostsFile.model_validate(raw)
    except ValidationError as error:
        raise StudyError(str(path), problems.validation_problems(error, HostsFile)) from error
