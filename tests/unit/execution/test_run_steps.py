"""The steps of a run are one list, which docs/architecture.md prints."""

from __future__ import annotations

import doc_tables
from loadbook.execution.session import RUN_STEPS


def test_architecture_page_lists_the_steps_of_a_run() -> None:
    page = doc_tables.ARCHITECTURE.read_text()
    assert doc_tables.with_run_steps(page) == page, "run python tests/support/doc_tables.py"


def test_new_run_has_its_folder_after_every_check_and_a_resumed_one_goes_on_in_its_own() -> None:
    taken = {runs: [s.take.__name__ for s in RUN_STEPS if s.runs in ("all", runs)] for runs in ("new", "resumed")}
    assert taken["new"][-3:] == ["announce", "make_run_folder", "run_trials"]
    assert taken["resumed"][-3:] == ["announce", "go_on", "run_trials"]
    assert taken["resumed"][0] == "check_hosts_of_resumed_run" and "check_everything" in taken["new"]
