"""Entry point for running studies, for the command line and notebooks."""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import DataError, UsageError
from loadbook.execution.power import forecast_power, underpowered_note
from loadbook.execution.progress import Confirm, LockPolicy, OnEvent, Progress, ignore_event
from loadbook.execution.select import RunRequest, select_run
from loadbook.execution.session import RunSession
from loadbook.execution.studies import load_study, study_file
from loadbook.hosts.inventory import read_hosts
from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message, hold_study_lock
from loadbook.store.paths import EXAMPLE_STUDY, Layout


def run_study(
    layout: Layout,
    study_name: str,
    hosts: Path | None = None,
    subset: str | None = None,
    blocks: int | None = None,
    new: bool = False,
    resume: str | None = None,
    on_event: OnEvent = ignore_event,
    more: int | None = None,
    lock_policy: LockPolicy | None = None,
    confirm: Confirm | None = None,
) -> str:
    """Run a study's plan on hosts and return the run's id; an unfinished run is resumed exactly as planned.

    Parameters
    ----------
    study_name : a name in studies/, a path to a .toml file, or `<name>-smoke`.
    hosts : hosts file; None is the loopback lab, which is brought up when it is not.
    subset, blocks : of a new run; None takes the study's own.
    new : start a new run although the last one is unfinished.
    resume : id of the unfinished run to resume; None is the latest.
    on_event : receives every event (see `progress.Progress`).
    more : add so many blocks to the latest complete run, or to that of `resume`; unless the study plans an analysis
        there, the run becomes exploratory.
    lock_policy : what to do about hosts that another run uses; None: to be refused.
    confirm : asks the user whether to start although other programs use the hosts; None: no question.

    Raises
    ------
    UsageError : unknown names, a study that changed since the unfinished run was planned, a second runner.
    StudyError : everything that is wrong with the study or hosts file.
    DataError : a file on our side cannot be written (disk full).
    LoadbookError : the run could not start or had to stop; the same call resumes it.
    KeyboardInterrupt : the trial under way was stopped and recorded as cancelled.
    """
    study = load_study(layout, study_name)
    if study.name == EXAMPLE_STUDY:
        raise UsageError(
            f"a study cannot be called {EXAMPLE_STUDY!r}", "that is the recorded run that comes with loadbook"
        )
    if hosts is not None:
        read_hosts(hosts)  # a missing file is reported before a run is announced
    try:
        with hold_study_lock(layout.study_raw(study.name)) as taken_over:
            if taken_over:
                on_event(Progress("note", taken_over))
            selection = select_run(layout, study, RunRequest(subset, blocks, new, resume, more))
            on_event(Progress("note", selection.message, run=selection.run))
            # hosts come first, so that a refusal needs no statistics libraries
            with RunSession(layout, selection, hosts, on_event, lock_policy, confirm) as session:
                if not selection.resumed and (note := underpowered_note(forecast_power(layout, selection.plan, hosts))):
                    on_event(Progress("note", note))
                session.run(study_file(layout, study_name))
    except OSError as error:
        where = error.filename or layout.study_raw(study.name)
        if error.errno in DISK_FULL_ERRNOS:
            raise DataError(disk_full_message(error, where), DISK_FULL_HINT) from error
        raise DataError(
            f"{where}: {error.strerror or error}", f"set that right, then resume: loadbook run {study_name}"
        ) from error
    return selection.run
