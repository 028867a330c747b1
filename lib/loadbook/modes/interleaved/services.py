"""What interleaved blocks ask of services: memory for all treatments at once, connections that outlive pauses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from loadbook.core.units import format_bytes, format_duration
from loadbook.modes.interleaved.spec import SliceLengths, lengths_of_run, longest_idle_s
from loadbook.services.spec import ServiceSpec
from loadbook.study.model import Study
from loadbook.study.plan import Plan


def memory_at_once(study: Study, treatments: Sequence[str], specs: Mapping[str, ServiceSpec]) -> dict[str, int]:
    """Return role -> MiB that its services of all treatments may need together on one host (`memory_mib`)."""
    settings = [(role, study.setting(name, role).service) for name in treatments for role in study.roles]
    needed_mib: dict[str, int] = {}
    for role, service in settings:
        if service:
            needed_mib[role] = needed_mib.get(role, 0) + specs[service].memory_mib
    return needed_mib


def memory_notes(plan: Plan, services: Mapping[str, ServiceSpec]) -> list[tuple[str, str]]:
    """Return the note of `loadbook plan` on that memory, as label and text; [] if loadbook starts no service."""
    if not (needs := memory_at_once(plan.study, plan.treatments, services)):
        return []
    of_roles = ", ".join(f"{role} about {format_bytes(mib << 20)}" for role, mib in needs.items())
    return [("memory", f"of a host, for {len(plan.treatments)} treatments at once: {of_roles}")]


def idle_timeout_reasons(
    study: Study, treatments: Sequence[str], by_latency: SliceLengths, specs: Mapping[str, ServiceSpec]
) -> list[str]:
    """Return the reasons in the services why treatments cannot be interleaved: time-outs shorter than the pauses.

    A service that closes the connections of a stopped load generator would make errors, or new connections, which it
    does not make if it is measured alone. `specs` has the services by name. Time-outs of roles with the user's own
    configuration file are not known; a time-out of 0 means that no connection stays open.
    """
    idle_s = max(longest_idle_s(lengths, len(treatments)) for lengths in lengths_of_run(study, by_latency))
    problems: dict[str, str] = {}
    for treatment in treatments:
        for role in study.roles:
            setting, load = study.setting(treatment, role), study.workload_of(treatment)
            if not setting.service or setting.config_text is not None:
                continue
            if role == study.target_of(treatment) and not load.keepalive:
                continue
            spec = specs[setting.service]
            timeout_s = spec.idle_timeout.seconds(spec.values(setting.vars)) if spec.idle_timeout else math.inf
            if 0 < timeout_s <= idle_s:
                problems.setdefault(
                    role,
                    f"{role} closes connections after {format_duration(timeout_s)} without requests (treatment "
                    f"{treatment}), and the load generators of {len(treatments)} treatments are stopped for up to "
                    f"{format_duration(idle_s)}",
                )
    return list(problems.values())
