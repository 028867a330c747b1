"""Check on a real lab that limits which no program reports are found, and that clean trials are not accused.

Three kinds of limits are planted, each in 20 trials or more: connections that nobody serves (`unserved_connections`),
CPU quotas (`cpu_throttled`; as root, control groups of version 1) and settings that a server lowers
(`service_warnings`). Then smoke variants of the repository's studies run until there are 200 trials. Targets: all
planted ones found, at most 1 % of the clean trials with one of these doubts. Exits with 1 if a target is missed.

    python benchmarks/silent_limits.py                    # 25 minutes
    python benchmarks/silent_limits.py unserved quotas    # only these
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import LoadbookError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from project import REPO, lab_project

RULES = ("unserved_connections", "cpu_throttled", "service_warnings")
CLEAN_TRIALS, MAX_FALSE_SHARE = 200, 0.01
CGROUPS = Path("/sys/fs/cgroup/cpu")
STUDY = """
schema = 1
name = "planted"
question = "Is the planted limit found?"
baseline = "baseline"
blocks = 1
execution = "{execution}"
{roles}
[workload]
tool = "wrk"
target = "{target}"
path = "/index.html"
connections = {connections}
duration_s = 2
warmup_s = 0.3

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
max_error_share = 1.0

[treatments.baseline]

[treatments.again]
same_as = "baseline"
check = "aa"
"""
DRIVER = "[roles.driver]\n"
PREFORK = 'mpm = "prefork", max_request_workers = {n}, server_limit = {n}, start_servers = {n}, keepalive_requests = 0'


class Planted(NamedTuple):
    """A planted limit: what it is, its study, and the host and milliseconds of CPU in 100 ms of a quota."""

    what: str
    study: str
    quota: tuple[str, int] | None = None


def web(service: str, settings: str = "", **load: object) -> str:
    """Return a study of one server."""
    roles = f'{DRIVER}[roles.web]\nservice = "{service}"\nvars = {{ {settings} }}\n'
    return STUDY.format(**{"roles": roles, "target": "web", "execution": "plain", "connections": 50} | load)


def behind(balancer: str, settings: str, service: str = "nginx", own: str = "", **load: object) -> str:
    """Return a study of a server behind a balancer."""
    roles = f'{DRIVER}[roles.balancer]\nservice = "{balancer}"\nbackends = "web"\nvars = {{ {settings} }}\n'
    roles += f'[roles.web]\nservice = "{service}"\nvars = {{ {own} }}\n'
    return STUDY.format(**{"roles": roles, "target": "balancer", "execution": "plain", "connections": 50} | load)


def unserved() -> Iterator[Planted]:
    """Yield services that serve fewer connections than they are sent."""
    for execution in ("plain", "interleaved"):
        for number, connections in ((3, 20), (10, 50), (20, 50)):
            text = web("httpd", PREFORK.format(n=number), execution=execution, connections=connections)
            yield Planted(f"httpd, {number} workers, {connections} connections, {execution}", text)
        text = behind("haproxy", "maxconn = 10", execution=execution)
        yield Planted(f"haproxy, maxconn 10, 50 connections, {execution}", text)
        text = behind("haproxy", 'mode = "tcp"', "httpd", PREFORK.format(n=10), execution=execution)
        yield Planted(f"httpd, 10 workers, behind haproxy, 50 connections, {execution}", text)


def quotas() -> Iterator[Planted]:
    """Yield CPU quotas of a host's login."""
    for execution in ("plain", "interleaved"):
        for host, cpu_ms in (("web", 10), ("web", 20), ("web", 40), ("driver", 20), ("driver", 40)):
            yield Planted(
                f"{cpu_ms} ms in 100 ms on {host}, {execution}", web("nginx", execution=execution), (host, cpu_ms)
            )


def lowered() -> Iterator[Planted]:
    """Yield settings that a server does not take as they are."""
    for settings in (
        "max_request_workers = 1000",
        "threads_per_child = 64",
        "threads_per_child = 128",
        'mpm = "prefork", max_request_workers = 1000',
        'mpm = "prefork", max_request_workers = 300, server_limit = 280',
        "max_request_workers = 410",
        "server_limit = 4, max_request_workers = 400",
        "max_request_workers = 10, threads_per_child = 25",
    ):
        yield Planted(f"httpd, {settings}", web("httpd", settings))
    yield Planted("nginx, more connections than open files", web("nginx", "worker_connections = 1048576"))
    settings = "server_limit = 2, max_request_workers = 100"
    yield Planted(f"httpd, {settings}", web("httpd", settings))


@contextmanager
def quota(lab: Lab, limit: tuple[str, int] | None) -> Iterator[None]:
    """Give a host of the lab a CPU quota while the context lasts."""
    if limit is None:
        yield
        return
    host, cpu_ms = limit
    (pid,) = (status.pid for status in lab.status() if status.alias == host)
    group = CGROUPS / f"benchmark-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(cpu_ms * 1000))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            (CGROUPS / "cgroup.procs").write_text(process)
        group.rmdir()


def run(layout: Layout, study: str, hosts: Path | None) -> RunData:
    """Execute a study and return its run."""
    name = run_study(layout, RunRequest(study, hosts, new=True))
    ingest(layout.run(study.removesuffix("-smoke") if study == "planted" else study, name))
    return load_run(layout, study, name)


def accused(data: RunData, rules: Sequence[str]) -> set[str]:
    """Return the trials with a doubt by one of these rules; a doubt on the whole run is one on all its trials."""
    hits = data.problems[data.problems["name"].isin(list(rules)) & data.problems["level"].isin(["doubt", "invalid"])]
    every = set(data.trials["trial"])
    return every if hits["trial"].isna().any() or (hits["trial"] == "").any() else set(hits["trial"]) & every


def plant(layout: Layout, hosts: Path, kind: Callable[[], Iterator[Planted]], rule: str) -> bool:
    """Run all planted limits of a kind, print how many were found, and return whether all were."""
    found = trials = 0
    for planted in kind():
        (layout.studies / "planted.toml").write_text(planted.study)
        with quota(Lab.load(hosts.parent), planted.quota):
            data = run(layout, "planted", hosts)
        own = accused(data, [rule])
        found, trials = found + len(own), trials + len(data.trials)
        print(f"  {planted.what}: {len(own)} of {len(data.trials)}", flush=True)
    print(f"{rule}: found in {found} of {trials} planted trials", flush=True)
    return found == trials


def clean(layout: Layout) -> bool:
    """Run smoke studies until there are CLEAN_TRIALS trials, print the accused ones, and return whether few are."""
    trials, wrong = 0, 0
    for path in sorted((REPO / "studies").glob("*.toml")):
        if trials >= CLEAN_TRIALS:
            break
        try:
            data = run(layout, f"{path.stem}-smoke", None)
        except LoadbookError as error:
            print(f"  {path.stem}: not run ({error.message.splitlines()[0]})", flush=True)
            continue
        own = accused(data, RULES)
        hits = data.problems[data.problems["name"].isin(RULES)]
        trials, wrong = trials + len(data.trials), wrong + len(own)
        print(f"  {path.stem}: {len(own)} of {len(data.trials)} {' | '.join(hits['message'].unique())}", flush=True)
    print(f"clean: {wrong} of {trials} trials accused ({wrong / trials:.1%})", flush=True)
    return wrong <= MAX_FALSE_SHARE * trials


def main() -> int:
    """Run the parts that are asked for, all without an argument."""
    wanted = sys.argv[1:] or ["unserved", "quotas", "lowered", "clean"]
    kinds = {"unserved": (unserved, RULES[0]), "quotas": (quotas, RULES[1]), "lowered": (lowered, RULES[2])}
    good = True
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder), {"balancer": 1}) as (layout, hosts),
    ):
        for name, (kind, rule) in kinds.items():
            if name in wanted:
                good &= plant(layout, hosts, kind, rule)
        if "clean" in wanted:
            try:
                good &= clean(layout)
            finally:
                Lab.load(layout.lab).down()  # of the studies that need other hosts
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
