"""Checks of `loadbook doctor STUDY` that a run makes before its first trial: ports, disks, configurations, other load.

They hold the hosts' locks, so that no run is disturbed; on hosts that a run uses, nothing is checked. Nothing stays on
the hosts: host changes are not tried, and no program is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import HostError, LoadbookError
from loadbook.core.units import shorten_list
from loadbook.execution.background_load import background_load
from loadbook.execution.preflight import Problem, check_configurations, check_hosts, needed_ports
from loadbook.execution.studies import missing_roles, plan_study
from loadbook.execution.testbed import Testbed, open_testbed
from loadbook.hosts.doctor import CheckResult
from loadbook.hosts.inventory import HostsFile
from loadbook.hosts.jobs import InUseError
from loadbook.modes.plain.run import run_of
from loadbook.store.paths import Layout
from loadbook.study.model import Study

RUN_ID = "doctor"
CLOSE_S = 12.0
MAX_NAMED_PORTS = 4


def check_study(layout: Layout, study: Study, path: Path, inventory: HostsFile) -> Iterator[CheckResult]:
    """Yield the results of a run's checks of its hosts; nothing if roles have too few hosts in the hosts file.

    `path` is the hosts file, `inventory` its content. A run gives the lab the hosts that are missing.
    """
    plan = plan_study(layout, study)
    if missing_roles(plan, inventory):
        return
    try:
        testbed = open_testbed(layout, plan, RUN_ID, path)
    except InUseError as error:
        text = f"ports and configurations were not checked: {error.owner.description} uses this host"
        yield CheckResult(error.host, "ports, files", "doubt", text, "ask again after its end")
        return
    except LoadbookError as error:
        where = error.host if isinstance(error, HostError) else "hosts"
        yield CheckResult(where, "lock", "missing", error.message, error.hint or "")
        return
    try:
        yield from _check_as_a_run_does(testbed)
        for check in run_of(testbed.plan.study).check_hosts(testbed, dict(testbed.hosts)):
            is_required = check.status != "ok" and not testbed.plan.execution_chosen
            yield check._replace(status="missing") if is_required else check
    finally:
        testbed.close(CLOSE_S)


def _check_as_a_run_does(testbed: Testbed) -> Iterator[CheckResult]:
    for alias, problems in check_hosts(testbed).items():
        ports = shorten_list([str(int(port, 16)) for port in needed_ports(testbed, alias)], MAX_NAMED_PORTS)
        text = f"disk, and ports that are free: {', '.join(ports)}" if ports else "disk; no port is needed"
        yield from _results(alias, "room for the run", problems, text)
    for (role, alias), problems in check_configurations(testbed, build=False).items():
        names = dict.fromkeys(p.spec.name for p in testbed.placements if (p.role, p.alias) == (role, alias))
        text = f"{', '.join(names)} accepts it in every treatment"
        yield from _results(alias, f"configuration of {role}", problems, text)
    loaded = set()
    for alias, sentence in background_load(testbed):
        loaded.add(alias)
        yield CheckResult(alias, "other programs", "doubt", sentence, "stop what is not needed, or run at another time")
    for alias in (alias for alias, host in testbed.hosts.items() if host.live and alias not in loaded):
        yield CheckResult(alias, "other programs", "ok", "no other program uses it now")


def _results(alias: str, subject: str, problems: list[Problem], good: str) -> Iterator[CheckResult]:
    """Yield a result for each problem; one that says what is `good` if there are none."""
    for problem in problems:
        yield CheckResult(alias, subject, "missing", problem.text, problem.hint)
    if not problems:
        yield CheckResult(alias, subject, "ok", good)
