"""May a run go on here? What its first sitting recorded of the hosts must still hold: runs are never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.hosts.facts import gather_facts
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json
from loadbook.trials.bench import Testbed

# a reboot is a doubt on the trials after it (gate facts_differ), not another host
VOLATILE_FACTS = ("boot_id",)
MAX_NAMED_CHANGES = 5


def hosts_record(testbed: Testbed) -> dict[str, Any]:
    """Return what run.json says of the hosts: roles, CPU mask and, where it is known, rate of the link by alias."""
    links = {alias: entry.link_mbit for alias, entry in testbed.inventory.hosts.items() if entry.link_mbit}
    return {
        alias: {"roles": list(testbed.roles_of(alias)), "cpus": testbed.cpus_of(alias) or None}
        | ({"link_mbit": links[alias]} if alias in links else {})
        for alias in testbed.hosts
    }


def check_same_hosts(testbed: Testbed, paths: RunPaths) -> None:
    """Raise UsageError when a run would go on with other hosts than it was begun with, or on changed ones."""
    differences = list(_host_differences(testbed, paths))
    if differences:
        more = [f"and {len(differences) - MAX_NAMED_CHANGES} more"] if len(differences) > MAX_NAMED_CHANGES else []
        raise UsageError(
            "\n  ".join([f"run {testbed.run} cannot go on with these hosts:", *differences[:MAX_NAMED_CHANGES], *more]),
            f"{_how_to_restore_hosts(testbed, read_json(paths.run_json)['hosts'])}, or: loadbook run {testbed.plan.study.name} --new",
        )


def _how_to_restore_hosts(testbed: Testbed, before: dict[str, Any]) -> str:
    """Return how to have the hosts again that a run was begun with; a lab that grew since has more of some roles."""
    counts = {role: [0, 0] for role in testbed.plan.study.roles}
    for number, roles in ((0, [h["roles"] for h in before.values()]), (1, map(testbed.roles_of, testbed.hosts))):
        for role in (role for host in roles for role in host):
            counts.setdefault(role, [0, 0])[number] += 1
    more = [f"{role}={had}" for role, (had, has) in counts.items() if had < has]
    if not testbed.lab or not more:
        return "give the hosts file that it was begun with"
    return f"take from the lab what it has gained: loadbook lab up --roles {','.join(more)}"


def _host_differences(testbed: Testbed, paths: RunPaths) -> Iterator[str]:
    run = read_json(paths.run_json)
    before, now = run["hosts"], hosts_record(testbed)
    if run.get("replay") != testbed.replayed_run:
        yield "it was begun on real hosts" if run.get("replay") is None else f"it is a replay of run {run['replay']}"
    for alias in sorted({*before, *now}):
        if alias not in now or alias not in before:
            yield f"host {alias} is {'new' if alias in now else 'not there any more'}"
        elif before[alias] != now[alias]:
            yield f"host {alias} had {_host_text(before[alias])}, has {_host_text(now[alias])}"
        elif testbed.replayed_run is None:
            yield from _changed_facts_of(testbed, paths, alias)


def _changed_facts_of(testbed: Testbed, paths: RunPaths, alias: str) -> Iterator[str]:
    before, now = read_json(paths.facts / f"{alias}-before.json"), gather_facts(testbed.hosts[alias])
    for name, fact in before.items():
        new = now.get(name, fact)["value"]
        if fact["kind"] == "identity" and name not in VOLATILE_FACTS and new != fact["value"]:
            yield f"host {alias}: {name} was {fact['value']}, is {new}"


def _host_text(host: dict[str, Any]) -> str:
    cpus = ", ".join(map(str, host["cpus"])) if host["cpus"] else "all"
    link = f" and a link of {host['link_mbit']:g} Mbit/s" if host.get("link_mbit") else ""
    return f"roles {', '.join(host['roles'])} and CPUs {cpus}{link}"
