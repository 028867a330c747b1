"""What a trial changes of a kernel, and puts back (first cut: helper A replaces the body, the door stays)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadbook.core.errors import HostError
from loadbook.hosts.host import Host


@dataclass(frozen=True)
class Changes:
    """What one trial changes of one host; `toward` is the address that delay, loss and rate count for."""

    sysctls: Mapping[str, str | int] = field(default_factory=dict)
    delay_ms: float = 0.0
    loss: float = 0.0
    rate_mbit: float | None = None
    toward: str = ""

    def said(self) -> dict[str, str | float]:
        """Return what is changed, for the trial's record."""
        own = {"delay_ms": self.delay_ms, "loss": self.loss, "rate_mbit": self.rate_mbit or 0.0}
        return {**{name: str(value) for name, value in self.sysctls.items()}, **{k: v for k, v in own.items() if v}}


def has_netem(host: Host) -> bool:
    """Tell whether the host's kernel can delay packets (tc netem), and lets us."""
    return False


def set_up(host: Host, name: str, changes: Changes, lease_s: float) -> None:
    """Change a host until the job `name` ends; HostError names what was refused."""
    raise HostError(host.alias, f"cannot be changed yet: {', '.join(changes.said())}")
