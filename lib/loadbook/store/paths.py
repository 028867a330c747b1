"""Paths under data/, reports/ and the cache; no other module builds them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.text import did_you_mean, nearest_names

CERTIFICATES = "certificates"  # folder below data/
# studies whose recorded runs are part of the project
EXAMPLE_STUDY, SIZES_EXAMPLE = EXAMPLES = "example", "example-sizes"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is safe as the name of a folder, host or treatment; else raise UsageError.

    Allowed are up to 63 letters, digits, ".", "_" and "-", of which the first is a letter or a digit. `kind`, such as
    "host", is used in the message.
    """
    if not NAME_PATTERN.match(name) or ".." in name:
        raise UsageError(f"{kind} name {name!r} is not allowed", "use letters, digits, '.', '_' and '-' (at most 63)")
    return name


@dataclass(frozen=True)
class RunPaths:
    """Paths of one run of a study, raw and processed."""

    raw: Path
    processed: Path

    @property
    def study_toml(self) -> Path:
        """Exact copy of the study file; plan.json has the study with the content of its included files."""
        return self.raw / "study.toml"

    @property
    def plan_json(self) -> Path:
        """Plan of the run: trials in order, seed."""
        return self.raw / "plan.json"

    @property
    def run_json(self) -> Path:
        """Record of the run: versions, revision, hosts by alias, schema version."""
        return self.raw / "run.json"

    @property
    def hosts_toml(self) -> Path:
        """Hosts file with which the run can be replayed."""
        return self.raw / "hosts.toml"

    @property
    def ledger(self) -> Path:
        """Append-only record of the state of every trial."""
        return self.raw / "ledger.jsonl"

    @property
    def facts(self) -> Path:
        """Folder of <host>-before.json and <host>-after.json, the facts of each host."""
        return self.raw / "facts"

    @property
    def added_files(self) -> Path:
        """Folder of trace files that were added to the run."""
        return self.raw / "traces"

    @property
    def trials(self) -> Path:
        """Folder of published trials."""
        return self.raw / "trials"

    @property
    def failed(self) -> Path:
        """Folder of failed attempts, <trial>-attempt<k>."""
        return self.raw / "failed"

    def trial(self, trial: str) -> Path:
        """Return the folder of one published trial."""
        return self.trials / check_name("trial", trial)

    def table(self, name: str) -> Path:
        """Return the Parquet file of one table (trials, measurements, samples, traces, problems)."""
        return self.processed / f"{check_name('table', name)}.parquet"

    @property
    def request_logs(self) -> Path:
        """Folder of the single requests of each trial, <trial>.parquet."""
        return self.processed.absolute() / "requests"

    @property
    def certificates(self) -> Path:
        """Folder of the project's certificates of load generators, as `Layout.certificates`."""
        return self.processed.absolute().parents[2] / CERTIFICATES

    @property
    def ingest_cache(self) -> Path:
        """Folder of the ingest cache, which lets the next ingest read only new trials."""
        return self.processed / ".ingest"


@dataclass(frozen=True)
class Layout:
    """Paths of a project below its `root`, the folder that contains studies/ and notebooks/."""

    root: Path

    @property
    def studies(self) -> Path:
        """Folder of study files."""
        return self.root / "studies"

    @property
    def notebooks(self) -> Path:
        """Folder of notebooks without outputs, as committed."""
        return self.root / "notebooks"

    @property
    def reports(self) -> Path:
        """Folder of exported HTML pages and their index."""
        return self.root / "reports"

    def batch(self, name: str) -> Path:
        """Return the folder of one batch: its state, its summary page, and the pages and notebooks of its entries."""
        return self.reports / "batch" / check_name("batch", name)

    @property
    def certificates(self) -> Path:
        """Folder of the certificates of load generators, <run>.json, and of the studies that made them."""
        return self.root / "data" / CERTIFICATES

    @property
    def lab(self) -> Path:
        """Folder of the lab on this machine (keys, sshd configurations, work folders)."""
        return self.root / ".cache" / "lab"

    @property
    def replay(self) -> Path:
        """Work folders of replayed hosts; they exist only during a run."""
        return self.root / ".cache" / "replay"

    def study_raw(self, study: str) -> Path:
        """Return the folder of all runs of a study; examples have separate ones, as they ran on different hosts."""
        return (
            self.root / "data" / study if study in EXAMPLES else self.root / "data" / "raw" / check_name("study", study)
        )

    def run(self, study: str, run: str) -> RunPaths:
        """Return the paths of one run."""
        processed = self.root / "data" / "processed" / check_name("study", study) / check_name("run", run)
        return RunPaths(self.study_raw(study) / run, processed)

    def runs(self, study: str) -> list[str]:
        """Return the ids of runs of a study that have a plan, oldest first (ids sort by time)."""
        folder = self.study_raw(study)
        return sorted(p.parent.name for p in folder.glob("*/plan.json")) if folder.is_dir() else []

    def studies_with_runs(self) -> list[str]:
        """Return the names of studies that have a run, in alphabetical order, without the examples."""
        return sorted({plan.parents[1].name for plan in (self.root / "data" / "raw").glob("*/*/plan.json")})

    def resolve_run(self, study: str, run: str = "latest") -> str:
        """Return the id of a run ("latest": the newest); UsageError for an unknown run lists the known ones."""
        known = self.runs(study)
        if not known:
            similar, hint = self._missing_run_hints(study)
            raise UsageError(f"study {study!r} has no run under {self.study_raw(study)}{similar}", hint)
        if run == "latest":
            return known[-1]
        if run not in known:
            raise unknown_name_error("run", run, known, f"of study {study!r}")
        return run

    def _missing_run_hints(self, study: str) -> tuple[str, str]:
        """Return the similar name of a study with a run ("" if `study` is one without), and the next step."""
        from loadbook.study.reader import SMOKE_SUFFIX

        if study.endswith(".toml") or (self.studies / f"{study.removesuffix(SMOKE_SUFFIX)}.toml").is_file():
            return "", f"loadbook run {study}"
        recorded = nearest_names(study, self.studies_with_runs())
        listed = f"studies with a run: {', '.join(recorded) or 'none yet'}; loadbook studies has every study"
        example = [EXAMPLE_STUDY] if self.runs(EXAMPLE_STUDY) else []
        return did_you_mean(study, [*recorded, *example]), listed


def project_layout() -> Layout:
    """Return the project's layout: that of $LOADBOOK_HOME, else of the nearest folder upwards that is a project.

    A project has the folders studies/ and notebooks/. UsageError: there is none.
    """
    home = os.environ.get("LOADBOOK_HOME")
    if home:
        if not Path(home).is_dir():
            raise UsageError(f"LOADBOOK_HOME is {home!r}, which is no folder", "set it to the project's folder")
        return Layout(Path(home).resolve())
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "studies").is_dir() and (folder / "notebooks").is_dir():
            return Layout(folder)
    hint = "loadbook init makes one here; or go into one, or set LOADBOOK_HOME to its folder"
    raise UsageError(f"no loadbook project at or above {here}", hint)
