"""The only place that builds paths under data/, reports/ and the cache."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.text import nearest_names

EXAMPLE_STUDY = "example"  # the study whose recorded run comes with the project
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is safe as a folder, host or treatment name, else raise UsageError."""
    if not NAME_PATTERN.match(name) or ".." in name:
        raise UsageError(f"{kind} name {name!r} is not allowed", "use letters, digits, '.', '_' and '-' (at most 63)")
    return name


@dataclass(frozen=True)
class RunPaths:
    """Where one run of a study lives, raw and processed."""

    raw: Path
    processed: Path

    @property
    def study_toml(self) -> Path:
        """Exact copy of the study file, includes resolved by hash in run.json."""
        return self.raw / "study.toml"

    @property
    def plan_json(self) -> Path:
        """Trials in order, seed."""
        return self.raw / "plan.json"

    @property
    def run_json(self) -> Path:
        """Versions, revision, hosts by alias, schema version."""
        return self.raw / "run.json"

    @property
    def hosts_toml(self) -> Path:
        """Hosts file that plays the run back."""
        return self.raw / "hosts.toml"

    @property
    def ledger(self) -> Path:
        """Append-only account of every trial's state."""
        return self.raw / "ledger.jsonl"

    @property
    def facts(self) -> Path:
        """Folder of <host>-before.json and <host>-after.json."""
        return self.raw / "facts"

    @property
    def added_files(self) -> Path:
        """Folder of files of traces that were added to the run."""
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
        """Folder of one published trial."""
        return self.trials / check_name("trial", trial)

    def table(self, name: str) -> Path:
        """Parquet file of one table (trials, measurements, samples, traces, problems)."""
        return self.processed / f"{check_name('table', name)}.parquet"

    @property
    def request_logs(self) -> Path:
        """Folder of the requests of each trial one by one, <trial>.parquet."""
        return self.processed.absolute() / "requests"

    @property
    def ingest_cache(self) -> Path:
        """Folder of the ingest cache, so that the next ingest reads only new trials."""
        return self.processed / ".ingest"


@dataclass(frozen=True)
class Layout:
    """All paths of a project below its `root` (the folder that holds studies/ and notebooks/)."""

    root: Path

    @property
    def studies(self) -> Path:
        """Study files."""
        return self.root / "studies"

    @property
    def notebooks(self) -> Path:
        """Notebooks as committed."""
        return self.root / "notebooks"

    @property
    def reports(self) -> Path:
        """Exported HTML and the index page."""
        return self.root / "reports"

    def batch(self, name: str) -> Path:
        """Folder of one batch: its state, its summary page, and the pages and notebooks of its entries."""
        return self.reports / "batch" / check_name("batch", name)

    @property
    def lab(self) -> Path:
        """State of the loopback lab (keys, sshd configurations, work folders)."""
        return self.root / ".cache" / "lab"

    @property
    def replay(self) -> Path:
        """Work folders of hosts that are played back; they live as long as the run under way."""
        return self.root / ".cache" / "replay"

    def study_raw(self, study: str) -> Path:
        """Folder of all runs of a study; the example's is one of its own, as its noise is not that of these hosts."""
        example_folder = self.root / "data" / EXAMPLE_STUDY
        return example_folder if study == EXAMPLE_STUDY else self.root / "data" / "raw" / check_name("study", study)

    def run(self, study: str, run: str) -> RunPaths:
        """Paths of one run."""
        processed = self.root / "data" / "processed" / check_name("study", study) / check_name("run", run)
        return RunPaths(self.study_raw(study) / run, processed)

    def runs(self, study: str) -> list[str]:
        """Run ids of a study that have a plan, oldest first (ids sort by time)."""
        folder = self.study_raw(study)
        return sorted(p.parent.name for p in folder.glob("*/plan.json")) if folder.is_dir() else []

    def studies_with_runs(self) -> list[str]:
        """Names of the studies that have a run, in alphabetical order; the example is none of them."""
        return sorted({plan.parents[1].name for plan in (self.root / "data" / "raw").glob("*/*/plan.json")})

    def resolve_run(self, study: str, run: str = "latest") -> str:
        """Turn "latest" into the newest run id; an unknown run raises UsageError naming those there are."""
        known = self.runs(study)
        if not known:
            raise UsageError(f"study {study!r} has no run under {self.study_raw(study)}", self._missing_run_hint(study))
        if run == "latest":
            return known[-1]
        if run not in known:
            raise unknown_name_error("run", run, known, f"of study {study!r}")
        return run

    def _missing_run_hint(self, study: str) -> str:
        """Return the remedy for a study without a run: start one, or use the similar name."""
        from loadbook.study.reader import SMOKE_SUFFIX

        if study.endswith(".toml") or (self.studies / f"{study.removesuffix(SMOKE_SUFFIX)}.toml").is_file():
            return f"loadbook run {study}"
        recorded = ", ".join(nearest_names(study, self.studies_with_runs())) or "none yet"
        return f"studies with a run: {recorded}; loadbook studies has every study"


def project_layout() -> Layout:
    """Return the project's layout: of $LOADBOOK_HOME, else of the nearest folder above with studies/ and notebooks/."""
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
