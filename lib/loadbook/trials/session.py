"""One sitting at a run: hosts opened, leftovers of a dead controller stopped, everything checked, and recorded."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from loadbook.core.metrics import metric as metric_of
from loadbook.design.plan import study_sha256
from loadbook.hosts.facts import facts
from loadbook.hosts.tape import tape_name
from loadbook.hosts.undo import restore
from loadbook.records.atomic import move, write_atomic
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.ledger import Ledger
from loadbook.records.manifest import read_json, write_json
from loadbook.records.schema import SCHEMA_VERSION
from loadbook.records.verify import own_files
from loadbook.tools.registry import is_known
from loadbook.trials.alike import hosts_of, must_be_alike
from loadbook.trials.attempts import Keeper, lost_attempts
from loadbook.trials.bench import Bench
from loadbook.trials.choose import Chosen
from loadbook.trials.connect import hosts_path, make_bench
from loadbook.trials.disturbed import disturbances
from loadbook.trials.leftovers import clear
from loadbook.trials.names import job_stem, preflight_stem
from loadbook.trials.preflight import preflight
from loadbook.trials.progress import OnEvent, Progress
from loadbook.trials.reach import close_all
from loadbook.trials.replay_file import replay_file
from loadbook.trials.roles import unloaded
from loadbook.trials.turn import Turn, when_free

# hosts get so long to end our jobs; after an interruption they do what is left by themselves
CLOSE_S = 12.0
HURRIED_S = 2.0


class Session:
    """Context manager of one sitting; `bench` is there once it is entered."""

    bench: Bench

    def __init__(
        self, layout: Layout, chosen: Chosen, hosts: Path | None, on_event: OnEvent, turn: Turn | None = None
    ) -> None:
        self.layout, self.chosen, self.hosts_file, self.on_event = layout, chosen, hosts, on_event
        self.turn = turn or Turn()
        self.paths = chosen.paths

    def __enter__(self) -> Session:
        plan, run = self.chosen.plan, self.chosen.run
        path = hosts_path(self.layout, plan, self.hosts_file)
        start = partial(make_bench, self.layout, plan, run, path, self.turn.break_lock)
        self.bench = when_free(start, path, self.turn.wait_s, self.on_event)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close every connection, which frees whoever still waits on one and ends jobs that end with us."""
        self.bench.over.set()
        self.bench.pool.shutdown(wait=False, cancel_futures=True)
        close_all(self.bench, HURRIED_S if isinstance(error, KeyboardInterrupt) else CLOSE_S)

    def prepare(self, study_file: Path) -> None:
        """Stop leftovers, check everything, and make the run's folder when it is a new one."""
        if self.chosen.resumed:
            must_be_alike(self.bench, self.paths)
            self._stop_leftovers()
        self._restore()
        others = None if self.bench.lab else self.bench.inventory
        for said in (*unloaded(self.chosen.plan, others), *disturbances(self.bench)):
            self.on_event(Progress("note", said))
        self.on_event(Progress("note", f"checking {', '.join(self.bench.hosts)} and every configuration"))
        preflight(self.bench, self.layout.study_raw(self.chosen.plan.study.name))
        for said in self._said_of_drivers():
            self.on_event(Progress("note", said))
        if self.chosen.resumed:
            with Ledger(self.paths.ledger) as ledger:
                if self.chosen.added:
                    ledger.append("blocks-added", **self.chosen.added)
                else:
                    ledger.append("run-resumed")
            run = read_json(self.paths.run_json)
            write_json(self.paths.run_json, run | {"resumed": run["resumed"] + 1, "ended": None})
            self._keep_answers(self.paths.raw)
        else:
            self._make_run(study_file)

    def _restore(self) -> None:
        """Put back what any run left changed on these hosts, and say so; NotRestoredError for what cannot be."""
        live = [alias for alias, host in self.bench.hosts.items() if host.live]
        for alias, done in self.bench.each(lambda alias: restore(self.bench.hosts[alias]), live).items():
            if done:
                self.on_event(Progress("note", f"host {alias}: put back what was left changed: {', '.join(done)}"))

    def _said_of_drivers(self) -> Iterator[str]:
        """Yield what a user should know before the load: unknown versions, what is shared, and what has no total."""
        drivers, metric = self.bench.drivers, self.chosen.plan.study.metric
        for (alias, name), found in self.bench.tool_versions.items():
            if not is_known(self.bench.tools[name], found):
                yield f"host {alias}: {name} {found} is new here: a report in another form will not be counted"
        if len(drivers) > 1:
            yield f"the load is shared among {', '.join(drivers)}"
            if metric_of(metric).kind == "time":
                yield f"{metric} of several drivers has a total only where the tool logs every request (docs/tools.md)"

    def _stop_leftovers(self) -> None:
        """Stop what a dead controller, or an attempt that lost its host, may have left on the hosts."""
        with Ledger(self.paths.ledger) as ledger:
            keeper = Keeper(self.bench, self.paths, ledger)
            open_attempts = [(planned.trial, attempt) for planned, attempt in keeper.unfinished()]
            open_attempts += lost_attempts(ledger.entries)
        stems = [job_stem(self.chosen.run, trial, attempt) for trial, attempt in open_attempts]
        clear(self.bench, [*stems, preflight_stem(self.chosen.run)])

    def settle(self, keeper: Keeper) -> None:
        """Give every attempt of a dead controller its recorded end, and say so."""
        for planned, attempt in keeper.unfinished():
            record = keeper.settle(planned, attempt)
            self.on_event(Progress("note", f"{planned.trial}, attempt {attempt}: {record.status} ({record.reason})"))

    def finish(self, keeper: Keeper, blocks: int) -> None:
        """Read the hosts' facts again and account for the run's end, which a look may put before that of the plan."""
        self.bench.scene(None)
        self._keep_facts(self.paths.raw, "after")
        self._keep_answers(self.paths.raw)
        for leftover in self.paths.raw.glob(".*.part"):  # of a controller that died while it wrote
            leftover.unlink()
        write_json(self.paths.run_json, read_json(self.paths.run_json) | {"ended": time.time()})
        early = {"blocks": blocks} if blocks < self.chosen.plan.blocks else {}
        keeper.ledger.append("run-ended", **early, files=own_files(self.paths))

    def _make_run(self, study_file: Path) -> None:
        """Make the run's folder under another name first, so that a run is there whole or not at all."""
        part = self.paths.raw.with_name(f".{self.chosen.run}.part")
        for leftover in part.parent.glob(".*.part"):
            shutil.rmtree(leftover)
        try:
            self._fill_run(RunPaths(part, part), study_file)
            move(part, self.paths.raw)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _fill_run(self, new: RunPaths, study_file: Path) -> None:
        part = new.raw
        write_atomic(new.study_toml, study_file.read_bytes())
        self._keep_facts(part, "before")
        self._keep_answers(part)
        write_atomic(new.hosts, replay_file(self.bench).encode())
        write_json(new.plan, self.chosen.plan.to_json())
        write_json(new.run_json, self._run_json())
        with Ledger(new.ledger) as ledger:
            ledger.append("run-started", trials=len(self.chosen.plan.trials))

    def _keep_facts(self, raw: Path, when: str) -> None:
        found = self.bench.each(lambda alias: facts(self.bench.hosts[alias]), self.bench.hosts)
        for alias, values in found.items():
            write_json(raw / "facts" / f"{alias}-{when}.json", values)

    def _keep_answers(self, raw: Path) -> None:
        """Append what hosts answered to questions that belong to no trial."""
        for alias, host in self.bench.hosts.items():
            tape = raw / tape_name(alias)
            write_atomic(tape, (tape.read_bytes() if tape.is_file() else b"") + host.take())

    def _run_json(self) -> dict[str, Any]:
        plan, bench = self.chosen.plan, self.bench
        git_revision, git_dirty = _git(self.layout.root)
        return {
            "study": plan.study.name,
            "run": self.chosen.run,
            "subset": plan.subset,
            "schema_version": SCHEMA_VERSION,
            "started": time.time(),
            "ended": None,
            "loadbook_version": version("loadbook"),
            "git_revision": git_revision,
            "git_dirty": git_dirty,
            "study_sha256": study_sha256(plan.study),
            "seed": plan.seed,
            "blocks": plan.blocks,
            "hosts": hosts_of(bench),
            "prices": bench.inventory.prices(),
            "tool_versions": {a: bench.tools_on(a) for a in bench.drivers},
            "service_versions": bench.services_by_host(),
            "delay": bench.delay,
            "lab": bench.lab,
            "replay": bench.replay,
            "resumed": 0,
        }


def _git(root: Path) -> tuple[str | None, bool | None]:
    """Return revision and whether files differ from it; None each where `root` is no checkout."""
    try:
        done = [
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None, None
    return done[0].stdout.strip(), bool(done[1].stdout.strip())
