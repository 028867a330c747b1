"""`loadbook run STUDY --dry-run`: every command that would run, in order, each line with its host first."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.cli.say import echo
from loadbook.core.errors import UsageError
from loadbook.core.units import format_duration, format_bytes
from loadbook.design.plan import Plan, make_plan
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.records.layout import Layout

if TYPE_CHECKING:
    from loadbook.trials.bench import Testbed
    from loadbook.trials.dry_run import DryRunPart
    from loadbook.trials.dry_steps import DryRunStep

WORDS = {"put": "put", "fetch": "fetch", "remove": "rm -rf", "http": "GET", "stop": "end job"}


def show(layout: Layout, study: str, hosts: Path | None, subset: str | None, blocks: int | None, verbose: bool) -> None:
    """Print what a run would do; exit code 3 when hosts lack something that a treatment needs."""
    from loadbook.trials.dry_run import dry_run
    from loadbook.trials.studies import load_study

    plan = make_plan(load_study(layout, study), subset, blocks)
    path = hosts or layout.lab / "hosts.toml"
    if hosts is None and not path.is_file():
        raise UsageError("the lab has no hosts yet", "loadbook lab up, or --hosts FILE")
    testbed, parts = dry_run(layout, plan, path)
    width = max((len(alias) for alias in testbed.hosts), default=0) if testbed else 0
    for line in [*_head(plan, path, read_hosts(path), testbed), *(x for p in parts for x in _part(p, width, verbose))]:
        echo(line)
    lacking = [part for part in parts if part.missing]
    if lacking:
        echo(f"{len(lacking)} of {len(plan.treatments)} treatments cannot be done on these hosts", err=True)
        if hosts is None:
            echo("  next: without --dry-run the lab gets the hosts that it lacks", err=True)
        sys.exit(3)


def _head(plan: Plan, path: Path, inventory: HostsFile, testbed: Testbed | None) -> Iterator[str]:
    count, shape = len(plan.trials), f"{plan.blocks} blocks of {len(plan.treatments)}"
    yield f"{plan.study.name} on {path}: what a run would do; nothing was touched"
    yield f"trials   {count}: {shape}, in random order within each; about {format_duration(plan.hours * 3600)}"
    for alias, host in testbed.hosts.items() if testbed else ():
        roles = ", ".join(inventory.hosts[alias].roles)
        # a host that is only known by the Host protocol has no login to show
        yield f"host     {alias}: {getattr(host, 'destination', alias)}, under load at {host.address}; {roles}"
    yield "names    RUN is the run's id, t0001-a1 trial and attempt, 000000000000 a random word, LEADER a process id"


def _part(part: DryRunPart, width: int, verbose: bool) -> Iterator[str]:
    each = f": {part.trials} trial{'s' if part.trials != 1 else ''}, each" if part.trials else ""
    yield f"\n== {part.title}{each}"
    for said in part.missing:
        yield f"   cannot be done here: {said}"
    for title, steps in part.phases:
        yield f"-- {title}"
        for step in steps:
            yield from _step(step, width, verbose)


def _step(step: DryRunStep, width: int, verbose: bool) -> Iterator[str]:
    """Yield the line of a step; with `verbose` what it puts or runs as a script, in full, below."""
    note = f"   # {step.note}" if step.note else ""
    yield f"{step.alias:{width}}  {_said(step)}{note}"
    whole = [step.data] if step.action == "put" else [word.encode() for word in step.args if "\n" in word]
    for text in whole if verbose else ():
        yield from (f"{step.alias:{width}}  | {line}" for line in text.decode(errors="replace").splitlines())


def _said(step: DryRunStep) -> str:
    words = [_short(word) for word in step.args]
    if step.action == "job":
        return f"job {words[0]}: {' '.join(words[1:])}"
    if step.action == "script":
        return f"$ sh -c {' '.join([words[0], 'sh', *words[1:]])}"
    if step.action == "run":
        return f"$ {' '.join(words)}"
    content = f" ({format_bytes(len(step.data))}, sha256 {sha256(step.data).hexdigest()[:12]})" if step.action == "put" else ""
    return f"{WORDS.get(step.action, step.action)} {' '.join(words)}{content}"


def _short(word: str) -> str:
    """Return a word as it is typed, or of a script how long it is and which."""
    if "\n" not in word:
        return shlex.quote(word)
    return f"'({len(word.splitlines())} lines, sha256 {sha256(word.encode()).hexdigest()[:12]})'"
