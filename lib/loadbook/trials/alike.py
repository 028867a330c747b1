"""May a run go on here? What its first sitting recorded of the hosts must still hold: runs are never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.hosts.facts import facts
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json
from loadbook.trials.bench import Bench

# a reboot is a doubt on the trials after it (gate facts_differ), not another host
MAY_CHANGE = ("boot_id",)
MAX_SAID = 5


def hosts_of(bench: Bench) -> dict[str, Any]:
    """Return what run.json says of the hosts: roles, CPU mask and, where it is known, rate of the link by alias."""
    links = {alias: entry.link_mbit for alias, entry in bench.inventory.hosts.items() if entry.link_mbit}
    return {
        alias: {"roles": list(bench.roles_of(alias)), "cpus": bench.cpus_of(alias) or None}
        | ({"link_mbit": links[alias]} if alias in links else {})
        for alias in bench.hosts
    }


def must_be_alike(bench: Bench, paths: RunPaths) -> None:
    """Raise UsageError when a run would go on with other hosts than it was begun with, or on changed ones."""
    found = list(_changes(bench, paths))
    if found:
        more = [f"and {len(found) - MAX_SAID} more"] if len(found) > MAX_SAID else []
        raise UsageError(
            "\n  ".join([f"run {bench.run} cannot go on with these hosts:", *found[:MAX_SAID], *more]),
            f"{_back(bench, read_json(paths.run_json)['hosts'])}, or: loadbook run {bench.plan.study.name} --new",
        )


def _back(bench: Bench, before: dict[str, Any]) -> str:
    """Return how to have the hosts again that a run was begun with; a lab that grew since has more of some roles."""
    counts = {role: [0, 0] for role in bench.plan.study.roles}
    for number, roles in ((0, [h["roles"] for h in before.values()]), (1, map(bench.roles_of, bench.hosts))):
        for role in (role for host in roles for role in host):
            counts.setdefault(role, [0, 0])[number] += 1
    more = [f"{role}={had}" for role, (had, has) in counts.items() if had < has]
    if not bench.lab or not more:
        return "give the hosts file that it was begun with"
    return f"take from the lab what it has gained: loadbook lab up --roles {','.join(more)}"


def _changes(bench: Bench, paths: RunPaths) -> Iterator[str]:
    run = read_json(paths.run_json)
    before, now = run["hosts"], hosts_of(bench)
    if run.get("replay") != bench.replay:
        yield "it was begun on real hosts" if run.get("replay") is None else f"it is a replay of run {run['replay']}"
    for alias in sorted({*before, *now}):
        if alias not in now or alias not in before:
            yield f"host {alias} is {'new' if alias in now else 'not there any more'}"
        elif before[alias] != now[alias]:
            yield f"host {alias} had {_shown(before[alias])}, has {_shown(now[alias])}"
        elif bench.replay is None:
            yield from _changed_facts(bench, paths, alias)


def _changed_facts(bench: Bench, paths: RunPaths, alias: str) -> Iterator[str]:
    known, seen = read_json(paths.facts / f"{alias}-before.json"), facts(bench.hosts[alias])
    for name, fact in known.items():
        new = seen.get(name, fact)["value"]
        if fact["kind"] == "identity" and name not in MAY_CHANGE and new != fact["value"]:
            yield f"host {alias}: {name} was {fact['value']}, is {new}"


def _shown(host: dict[str, Any]) -> str:
    cpus = ", ".join(map(str, host["cpus"])) if host["cpus"] else "all"
    link = f" and a link of {host['link_mbit']:g} Mbit/s" if host.get("link_mbit") else ""
    return f"roles {', '.join(host['roles'])} and CPUs {cpus}{link}"
