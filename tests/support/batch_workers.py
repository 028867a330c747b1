"""Jobs of the workers of a batch."""

from __future__ import annotations

from typing import Any

from loadbook.batch.worker import WorkerJob
from recorded_run import FIXTURE, STUDY

REPLAY = next(FIXTURE.iterdir()) / "hosts.toml"


def job(**more: Any) -> WorkerJob:
    usual: dict[str, Any] = {
        "study_source": STUDY,
        "study": STUDY,
        "hosts": str(REPLAY),
        "subset": None,
        "blocks": 1,
        "more": None,
        "run": None,
        "blocks_after": None,
        "wait_s": 0.0,
        "timeout_s": 60,
        "folder": "pages",
        "home": "Batch n",
        "reports": [],
    }
    return WorkerJob(**usual | more)
