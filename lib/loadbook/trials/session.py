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

from loadbook.core.metrics import get_metric
from loadbook.design.plan import study_sha256
from loadbook.hosts.facts import gather_facts
from loadbook.hosts.tape import transcript_name
from loadbook.hosts.undo import restore
from loadbook.records.atomic import move_folder, write_atomic
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.ledger import Ledger
from loadbook.records.manifest import read_json, write_json
from loadbook.records.schema import SCHEMA_VERSION
from loadbook.records.verify import run_file_checksums
from loadbook.tools.registry import is_known_version
from loadbook.trials.alike import hosts_record, check_same_hosts
from loadbook.trials.attempts import AttemptStore, lost_attempts
from loadbook.trials.bench import Testbed
from loadbook.trials.choose import RunSelection
from loadbook.trials.connect import resolve_hosts_file, open_testbed
from loadbook.trials.disturbed import background_load
from loadbook.trials.leftovers import remove_stale_jobs
from loadbook.trials.names import job_stem, preflight_stem
from loadbook.trials.preflight import preflight
from loadbook.trials.progress import OnEvent, Progress
from loadbook.trials.reach import close_all
from loadbook.trials.replay_file import replay_hosts_file
from loadbook.trials.roles import unloaded_hosts
from loadbook.trials.turn import LockPolicy, wait_for_hosts

# hosts get so long to end our jobs; after an interruption they do what is left by themselves
CLOSE_S = 12.0
INTERRUPTED_CLOSE_S = 2.0


class RunSession:
    """Context manager of one sitting; `testbed` is there once it is entered."""

    testbed: Testbed

    def __init__(
        self, layout: Layout, selection: RunSelection, hosts: Path | None, on_event: OnEvent, lock_policy: LockPolicy | None = None
    ) -> None:
        self.layout, self.selection, self.hosts_file, self.on_event = layout, selection, hosts, on_event
        self.lock_policy = lock_policy or LockPolicy()
        self.paths = selection.paths

    def __enter__(self) -> RunSession:
        plan, run = self.selection.plan, self.selection.run
        path = resolve_hosts_file(self.layout, plan, self.hosts_file)
        start = partial(open_testbed, self.layout, plan, run, path, self.lock_policy.break_lock)
        self.testbed = wait_for_hosts(start, path, self.lock_policy.wait_s, self.on_event)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close every connection, which frees whoever still waits on one and ends jobs that end with us."""
        self.testbed.ended.set()
        self.testbed.pool.shutdown(wait=False, cancel_futures=True)
        close_all(self.testbed, INTERRUPTED_CLOSE_S if isinstance(error, KeyboardInterrupt) else CLOSE_S)

    def prepare(self, study_file: Path) -> None:
        """Stop leftovers, check everything, and make the run's folder when it is a new one."""
        if self.selection.resumed:
            check_same_hosts(self.testbed, self.paths)
            self._stop_leftovers()
        self._roll_back_leftovers()
        others = None if self.testbed.lab else self.testbed.inventory
        for message in (*unloaded_hosts(self.selection.plan, others), *background_load(self.testbed)):
            self.on_event(Progress("note", message))
        self.on_event(Progress("note", f"checking {', '.join(self.testbed.hosts)} and every configuration"))
        preflight(self.testbed, self.layout.study_raw(self.selection.plan.study.name))
        for message in self._driver_notes():
            self.on_event(Progress("note", message))
        if self.selection.resumed:
            with Ledger(self.paths.ledger) as ledger:
                if self.selection.added_blocks:
                    ledger.append("blocks-added", **self.selection.added_blocks)
                else:
                    ledger.append("run-resumed")
            run = read_json(self.paths.run_json)
            write_json(self.paths.run_json, run | {"resumed": run["resumed"] + 1, "ended": None})
            self._append_transcripts(self.paths.raw)
        else:
            self._make_run(study_file)

    def _roll_back_leftovers(self) -> None:
        """Put back what any run left changed on these hosts, and say so; NotRestoredError for what cannot be."""
        live = [alias for alias, host in self.testbed.hosts.items() if host.live]
        for alias, done in self.testbed.map(lambda alias: restore(self.testbed.hosts[alias]), live).items():
            if done:
                self.on_event(Progress("note", f"host {alias}: put back what was left changed: {', '.join(done)}"))

    def _driver_notes(self) -> Iterator[str]:
        """Yield what a user should know before the load: unknown versions, what is shared, and what has no total."""
        drivers, metric = self.testbed.drivers, self.selection.plan.study.metric
        for (alias, name), tool_version in self.testbed.tool_versions.items():
            if not is_known_version(self.testbed.tools[name], tool_version):
                yield f"host {alias}: {name} {tool_version} is new here: a report in another form will not be counted"
        if len(drivers) > 1:
            yield f"the load is shared among {', '.join(drivers)}"
            if get_metric(metric).kind == "time":
                yield f"{metric} of several drivers has a total only where the tool logs every request (docs/tools.md)"

    def _stop_leftovers(self) -> None:
        """Stop what a dead controller, or an attempt that lost its host, may have left on the hosts."""
        with Ledger(self.paths.ledger) as ledger:
            store = AttemptStore(self.testbed, self.paths, ledger)
            open_attempts = [(planned.trial, attempt) for planned, attempt in store.unfinished()]
            open_attempts += lost_attempts(ledger.entries)
        stems = [job_stem(self.selection.run, trial, attempt) for trial, attempt in open_attempts]
        remove_stale_jobs(self.testbed, [*stems, preflight_stem(self.selection.run)])

    def recover_attempts(self, store: AttemptStore) -> None:
        """Give every attempt of a dead controller its recorded end, and say so."""
        for planned, attempt in store.unfinished():
            record = store.recover(planned, attempt)
            self.on_event(Progress("note", f"{planned.trial}, attempt {attempt}: {record.status} ({record.reason})"))

    def finish(self, store: AttemptStore, blocks: int) -> None:
        """Read the hosts' facts again and account for the run's end, which a look may put before that of the plan."""
        self.testbed.set_trial(None)
        self._write_facts(self.paths.raw, "after")
        self._append_transcripts(self.paths.raw)
        for leftover in self.paths.raw.glob(".*.part"):  # of a controller that died while it wrote
            leftover.unlink()
        write_json(self.paths.run_json, read_json(self.paths.run_json) | {"ended": time.time()})
        early = {"blocks": blocks} if blocks < self.selection.plan.blocks else {}
        store.ledger.append("run-ended", **early, files=run_file_checksums(self.paths))

    def _make_run(self, study_file: Path) -> None:
        """Make the run's folder under another name first, so that a run is there whole or not at all."""
        part = self.paths.raw.with_name(f".{self.selection.run}.part")
        for leftover in part.parent.glob(".*.part"):
            shutil.rmtree(leftover)
        try:
            self._fill_run(RunPaths(part, part), study_file)
            move_folder(part, self.paths.raw)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _fill_run(self, new: RunPaths, study_file: Path) -> None:
        part = new.raw
        write_atomic(new.study_toml, study_file.read_bytes())
        self._write_facts(part, "before")
        self._append_transcripts(part)
        write_atomic(new.hosts_toml, replay_hosts_file(self.testbed).encode())
        write_json(new.plan_json, self.selection.plan.to_json())
        write_json(new.run_json, self._run_json())
        with Ledger(new.ledger) as ledger:
            ledger.append("run-started", trials=len(self.selection.plan.trials))

    def _write_facts(self, raw: Path, when: str) -> None:
        facts_by_host = self.testbed.map(lambda alias: gather_facts(self.testbed.hosts[alias]), self.testbed.hosts)
        for alias, values in facts_by_host.items():
            write_json(raw / "facts" / f"{alias}-{when}.json", values)

    def _append_transcripts(self, raw: Path) -> None:
        """Append what hosts answered to questions that belong to no trial."""
        for alias, host in self.testbed.hosts.items():
            transcript = raw / transcript_name(alias)
            write_atomic(transcript, (transcript.read_bytes() if transcript.is_file() else b"") + host.take_transcript())

    def _run_json(self) -> dict[str, Any]:
        plan, testbed = self.selection.plan, self.testbed
        git_revision, git_dirty = _git_state(self.layout.root)
        return {
            "study": plan.study.name,
            "run": self.selection.run,
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
            "hosts": hosts_record(testbed),
            "prices": testbed.inventory.price_record(),
            "tool_versions": {a: testbed.tool_versions_on(a) for a in testbed.drivers},
            "service_versions": testbed.services_by_host(),
            "delay": testbed.delay_method,
            "lab": testbed.lab,
            "replay": testbed.replayed_run,
            "resumed": 0,
        }


def _git_state(root: Path) -> tuple[str | None, bool | None]:
    """Return revision and whether files differ from it; None each where `root` is no checkout."""
    try:
        done = [
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None, None
    return done[0].stdout.strip(), bool(done[1].stdout.strip())
