"""Facts of a host: kernel, CPU, memory, limits and the sysctls that matter to web load; no name, address or id."""

from __future__ import annotations

import re
from importlib.resources import files

from loadbook.hosts.host import Host
from loadbook.hosts.shell import cpu_list

Fact = dict[str, str | float | int | None]

# facts whose change is only shown, and those that may vary a little; every other one must stay as it is
INFO_FACTS = frozenset({"cpu_mhz", "memory_available_b", "load_1min"})
TOLERANCE_FACTS = frozenset({"memory_total_b", "swap_total_b"})

SYSCTLS = (
    "net/core/somaxconn", "net/core/netdev_max_backlog", "net/core/rmem_max", "net/core/wmem_max",
    "net/core/default_qdisc", "net/core/busy_poll",
    "net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse", "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_max_syn_backlog", "net/ipv4/tcp_max_tw_buckets", "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_congestion_control", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_slow_start_after_idle", "net/ipv4/tcp_fastopen", "net/ipv4/tcp_keepalive_time",
    "net/netfilter/nf_conntrack_max", "vm/swappiness", "fs/file-max", "fs/nr_open", "kernel/pid_max",
)  # fmt: skip
_FACT_NAMES = (
    "kernel", "arch", "os", "cpu_model", "cpu_mhz", "virtual", "cpus_online", "cpus_allowed", "cpu_governor",
    "cpu_no_turbo", "cpu_smt", "clock_source", "transparent_hugepage", "memory_total", "memory_available",
    "swap_total", "boot_id", "machine", "load", "nofile_soft", "nofile_hard",
)  # fmt: skip


def gather_facts(host: Host) -> dict[str, Fact]:
    """Read all facts of a host in one round trip: name -> {"value", "kind"}; None for facts that it does not have.

    Kind "identity" must match between trials that are compared, "tolerance" nearly so, "info" is only shown.
    """
    text = files("loadbook.hosts").joinpath("facts.sh").read_text(encoding="utf-8")
    return parse_facts(host.script(text, SYSCTLS, timeout_s=15, check=True).stdout)


def parse_facts(output: bytes) -> dict[str, Fact]:
    """Parse the output of facts.sh."""
    pairs = (line.split("\t", 1) for line in output.decode("utf-8", "replace").splitlines() if "\t" in line)
    raw = dict(pairs)
    parsed = dict(_finish_fact(name, raw.get(name)) for name in (*_FACT_NAMES, *SYSCTLS))
    online = raw.get("cpus_online")
    parsed["cores"] = {"value": len(cpu_list(online)) if online else None, "kind": "identity"}
    return parsed


def _finish_fact(name: str, text: str | None) -> tuple[str, Fact]:
    """Give a fact its final name, unit and type."""
    value: str | float | int | None = " ".join(text.split()) if text else None
    if name in SYSCTLS:
        name = name.replace("/", ".")
    elif name in ("memory_total", "memory_available", "swap_total"):
        name, value = f"{name}_b", _kilobytes_to_bytes(value)
    elif name == "load":
        name, value = "load_1min", value and str(value).split()[0]
    elif name == "machine":
        value = value and str(value)[:16]
    elif name == "transparent_hugepage":
        value = value and re.sub(r".*\[(\w+)\].*", r"\1", str(value))
    kind = "info" if name in INFO_FACTS else "tolerance" if name in TOLERANCE_FACTS else "identity"
    text_only = name in ("boot_id", "machine", "kernel", "cpus_online", "cpus_allowed")
    return name, {"value": value if text_only else _to_number(value), "kind": kind}


def _kilobytes_to_bytes(value: str | float | None) -> int | None:
    found = re.fullmatch(r"(\d+) kB", str(value))
    return int(found[1]) * 1024 if found else None


def _to_number(value: str | float | None) -> str | float | int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+", value):
        return float(value)
    return value
