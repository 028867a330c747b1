"""The door to running studies, for the command line and for notebooks: one call resumes or starts, and never mixes."""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import DataError, UsageError
from loadbook.hosts.inventory import read_hosts
from loadbook.records.atomic import FULL, FULL_HINT, said_of
from loadbook.records.layout import EXAMPLE, Layout
from loadbook.records.ledger import Ledger
from loadbook.trials.attempts import Keeper
from loadbook.trials.choose import Wish, choose
from loadbook.trials.execute import execute
from loadbook.trials.lock import only_runner
from loadbook.trials.looks import ends, look
from loadbook.trials.outlook import outlook, shortfall
from loadbook.trials.progress import OnEvent, Progress, silent
from loadbook.trials.session import Session
from loadbook.trials.studies import load_study, study_file
from loadbook.trials.turn import Turn


def run_study(
    layout: Layout,
    study_name: str,
    hosts: Path | None = None,
    subset: str | None = None,
    blocks: int | None = None,
    new: bool = False,
    resume: str | None = None,
    on_event: OnEvent = silent,
    more: int | None = None,
    turn: Turn | None = None,
) -> str:
    """Do a study's plan on hosts and return the run's id; an unfinished run is resumed exactly as it was planned.

    Parameters
    ----------
    study_name : a name in studies/, a path to a .toml file, or `<name>-smoke`.
    hosts : hosts file; None is the loopback lab, which is brought up when it is not.
    subset, blocks : of a new run; None takes the study's own.
    new : start a new run although the last one is unfinished.
    resume : id of the unfinished run to go on with; None is the latest.
    on_event : is told of everything that happens (see `progress.Progress`).
    more : add so many blocks to the latest run, or to the one that `resume` names, which must be complete. Where the
        study declares no look there, the run is exploratory from then on.
    turn : what to do about hosts that another run uses; None: to be refused.

    Raises
    ------
    UsageError : unknown names, a study that changed since the unfinished run was planned, a second runner.
    StudyError : everything that is wrong with the study or hosts file.
    DataError : a file on our side cannot be written (disk full).
    LoadbookError : the run could not start or had to stop; the same call goes on with it.
    KeyboardInterrupt : the trial under way was stopped and recorded as cancelled.
    """
    study = load_study(layout, study_name)
    if study.name == EXAMPLE:
        raise UsageError(f"a study cannot be called {EXAMPLE!r}", "that is the recorded run that comes with loadbook")
    if hosts is not None:
        read_hosts(hosts)  # a file that is not there is told before a run is announced
    try:
        with only_runner(layout.study_raw(study.name)) as taken_over:
            if taken_over:
                on_event(Progress("note", taken_over))
            chosen = choose(layout, study, Wish(subset, blocks, new, resume, more))
            on_event(Progress("note", chosen.why, run=chosen.run))
            # whoever is refused hears it before the statistics are loaded
            with Session(layout, chosen, hosts, on_event, turn) as session:
                if not chosen.resumed and (short := shortfall(outlook(layout, chosen.plan, hosts))):
                    on_event(Progress("note", short))
                _sit(session, study_file(layout, study_name))
    except OSError as error:
        where = error.filename or layout.study_raw(study.name)
        if error.errno in FULL:
            raise DataError(said_of(error, where), FULL_HINT) from error
        raise DataError(
            f"{where}: {error.strerror or error}", "set that right, then give the same command again"
        ) from error
    return chosen.run


def _sit(session: Session, file: Path) -> None:
    """Do what is left of a run in one sitting; it ends at the first declared look at which everything is decided."""
    session.prepare(file)
    with Ledger(session.paths.ledger) as ledger:
        keeper, plan = Keeper(session.bench, session.paths, ledger), session.bench.plan
        session.settle(keeper)
        for blocks in ends(plan, ledger.entries):
            execute(session.bench, keeper, session.on_event, blocks)
            if look(session.layout, plan, session.chosen.run, blocks, ledger, session.on_event):
                break
        session.finish(keeper, blocks)
