"""Commands that measure: `loadbook plan`, `run` and `batch`.

`run --dry-run` prints every command in order, one per line, after the name of its host. `batch` runs and reports many
studies by one command; after an interruption, the same command continues.
"""

from __future__ import annotations

import shlex
import sys
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli import terminal
from loadbook.cli.events import (
    attached_option,
    check_events,
    estimates_option,
    event_lines,
    events_option,
    run_events,
)
from loadbook.core.errors import UsageError
from loadbook.core.units import first_names, format_bytes, format_duration, pluralize
from loadbook.execution.studies import load_study, plan_study, service_folders, services_of
from loadbook.hosts.inventory import read_hosts
from loadbook.store.paths import Layout, project_layout
from loadbook.study.plan import Plan, left_out_text

if TYPE_CHECKING:
    from loadbook.batch.jobs import BatchJob, BatchRun
    from loadbook.batch.scheduler import BatchOptions
    from loadbook.hosts.dry import DryRunStep

BATCH_SECOND_INTERRUPT = "not waiting: hosts end and put back what is left by themselves (loadbook restore)"
STEP_VERBS = {"put": "put", "fetch": "fetch", "remove": "rm -rf", "http": "GET", "stop": "end job"}

subset_option = click.option("--subset", help="Treatments of this subset; all: every one.")
blocks_option = click.option("--blocks", type=click.IntRange(min=1), help="Blocks instead of the study's own number.")


@click.command()
@terminal.study_argument
@click.option(
    "--hosts", type=click.Path(path_type=Path), help="Hosts file whose noise and caps count; without it: the lab's."
)
@subset_option
@blocks_option
@click.option("--detect", metavar="RATIO", help="The difference to find, 0.03 or 3%; without it: the study's margin.")
@terminal.json_option("the whole plan")
def plan(
    study: str, hosts: Path | None, subset: str | None, blocks: int | None, detect: str | None, as_json: bool
) -> None:
    """Show a plan: trials, hours, disk, and blocks needed to detect a difference at the recorded noise; offline."""
    from loadbook.execution.power import forecast_power, power_lines
    from loadbook.execution.studies import check_load_allowed, check_roles, unloaded_hosts
    from loadbook.hosts.lab import lab_kind
    from loadbook.services.check import ineffective_settings

    layout = project_layout()
    plan = plan_study(layout, load_study(layout, study), subset, blocks)
    if hosts is not None:
        inventory, lab = read_hosts(hosts), bool(lab_kind(hosts))
        check_load_allowed(plan, inventory, hosts, lab=lab)
        if not lab:  # a run adds missing hosts to the lab
            check_roles(plan, inventory)
    forecast = forecast_power(layout, plan, hosts, None if detect is None else _parse_difference(detect))
    if as_json:
        estimate = {"hours": plan.hours, "disk_bytes": plan.disk_bytes} | forecast.to_json()
        terminal.print_json(plan.to_json() | {"estimate": estimate})
        return
    notes = [f"note        {text}" for text in unloaded_hosts(plan)]
    of_mode = plan.mode.plan_notes(plan, services_of(layout, plan.study, plan.treatments))
    notes = [*(f"{label:12}{text}" for label, text in of_mode), *notes]
    warnings = [
        f"warning     {text} (treatment {first_names(names, 1)})"
        for text, names in ineffective_settings(plan.study, service_folders(layout)).items()
    ]
    for line in [*_plan_lines(plan), *power_lines(forecast), *notes, *warnings]:
        terminal.echo(line)


def _parse_difference(text: str) -> float:
    """Parse the value of --detect, such as "2 %" or "0.02", as a ratio minus 1."""
    number, sign, rest = text.replace(" ", "").partition("%")
    try:
        value = float(number) / (100 if sign else 1)
    except ValueError:
        value = 0.0
    if rest or not 0 < value < 1:
        raise UsageError(f"--detect {text} is no difference", "between 0 and 1, such as 0.03, or 3%")
    return value


def _plan_lines(plan: Plan) -> list[str]:
    from loadbook.stats.ci import policy_text
    from loadbook.study.designs import alias_sentences, factorial_design

    study, work = plan.study, plan.study.workload
    length = f"{work.duration_s:g} s load"
    if work.requests is not None:
        length = f"{work.requests:,} requests, expected to be a {length}"
    words = plan.mode.plan_text(study, f"{work.warmup_s:g} s warm-up, {length}")
    aliases = alias_sentences(factorial_design(study.factorial)) if study.factorial else []
    return [
        f"{study.name}: {study.question}",
        f"trials      {len(plan.trials)}: {plan.blocks_text} of {', '.join(plan.treatments)}",
        *([f"{'':12}{left_out_text(plan.left_out)}"] if plan.left_out else []),
        f"execution   {plan.execution_text}{words.after_execution}",
        *(f"{label:12}{text}" for label, text in plan.mode.plan_lines(plan)),
        *([] if study.stopping.rule == "fixed" else [f"stops       {study.stopping.describe()}"]),
        *([f"build gate  {policy_text(study.ci, study.metric)}"] if study.ci else []),
        f"each        {format_duration(plan.trial_s)}: {words.load}",
        f"time        {format_duration(plan.hours * 3600)}{words.after_time}",
        f"disk        {format_bytes(plan.disk_bytes)} on this machine",
        *(f"{'' if number else 'design':12}{sentence}" for number, sentence in enumerate(aliases)),
    ]


@click.command()
@terminal.study_argument
@click.option("--hosts", type=click.Path(path_type=Path), help="Hosts file; without it: the loopback lab.")
@subset_option
@blocks_option
@click.option("--resume", metavar="RUN", help="Go on with this unfinished run; without it: with the latest.")
@click.option("--new", is_flag=True, help="Start a new run although the last one is unfinished.")
@click.option(
    "--more", type=click.IntRange(min=1), metavar="K",
    help="Add K blocks to the finished run, or to that of --resume; exploratory unless the study looks there.",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for hosts that another run uses, instead of being refused.")
@click.option("--wait-limit", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait, but no longer than this.")
@click.option(
    "--break-lock", default="", metavar="ID",
    help="End the run that holds a host, by the id that a refusal shows. Yours, or as root on the host.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Start although other programs use the hosts, without a question.")
@click.option("--dry-run", "dry", is_flag=True, help="Only print every command, host by host; no host is touched.")
@click.option("--verbose", is_flag=True, help="With --dry-run: with every file and script in full.")
@events_option
@estimates_option
@attached_option
@terminal.json_option("the run, its folder, planned and valid trials, and the next command")
def run(
    study: str, hosts: Path | None, subset: str | None, blocks: int | None, resume: str | None, new: bool,
    more: int | None, wait: bool, wait_limit: float | None, break_lock: str, yes: bool, dry: bool, verbose: bool,
    events: bool, estimates: bool, attached: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run a study's plan on hosts, or resume the unfinished run; then make the tables.

    STUDY is a name in studies/, a .toml file, or <name>-smoke. Ctrl-C stops the load and the service, records the
    trial as cancelled, and the same command resumes later.
    """
    from loadbook.cli.data import ingest_tables, run_record, tables_text
    from loadbook.execution.progress import LockPolicy
    from loadbook.execution.select import RunRequest
    from loadbook.execution.session import run_study
    from loadbook.stats.text import added_blocks_text
    from loadbook.store.ledger import read_current_plan

    if (verbose and not dry) or (dry and (resume or more)):
        raise UsageError("--dry-run shows a new run, and --verbose goes with it", "leave --resume and --more out")
    if dry and as_json:
        raise UsageError("--dry-run prints commands as text, not as JSON", f"loadbook plan {study} --json")
    if dry and events:
        raise UsageError("--dry-run prints commands, and --events what happens", "leave one of them out")
    check_events(events, attached, as_json, estimates)
    layout = project_layout()
    if dry:
        _print_dry_run(layout, study, hosts, subset, blocks, verbose)
        return
    lock_policy = LockPolicy(wait_limit if wait_limit is not None else float("inf") if wait else 0.0, break_lock)
    # without --new, --subset and --blocks, since an unfinished run is resumed as it was planned
    again = ["loadbook", "run", study, *(["--hosts", str(hosts)] if hosts else [])]
    again += [*(["--resume", resume] if resume else []), *(["--more", str(more)] if more else [])]
    request = RunRequest(study, hosts, subset, blocks, new, resume, more, lock_policy)
    if events:
        with event_lines(attached) as send:
            run_id = run_study(layout, request, on_event=run_events(send, layout, study, estimates))
            name = load_study(layout, study).name
            ingest_tables(layout, name, run_id)
            send("ran", study=name, run=run_id)
        return
    question = terminal.confirm if terminal.can_ask() and not yes else None
    hosts_file = hosts or layout.lab / "hosts.toml"
    with terminal.handle_interrupts(hosts_file, shlex.join(again)), terminal.ProgressDisplay(sys.stderr) as display:
        run_id = run_study(layout, request, on_event=display, confirm=question)
    name = load_study(layout, study).name
    summary = ingest_tables(layout, name, run_id)
    added = read_current_plan(layout.run(name, run_id)).added
    if as_json:
        exploratory = {"exploratory": added_blocks_text(added) if added else None}
        terminal.print_json(run_record(layout, name, run_id, summary) | exploratory)
    terminal.echo(tables_text(layout, name, run_id, summary))
    if added:
        terminal.echo(f"exploratory: {added_blocks_text(added)}")
    terminal.echo(f"run {run_id}")
    terminal.echo(f"data {layout.run(name, run_id).raw}")
    terminal.echo(f"next: loadbook report {name}")


def _print_dry_run(
    layout: Layout, study: str, hosts: Path | None, subset: str | None, blocks: int | None, verbose: bool
) -> None:
    """Print all steps of a run without executing them; exit code 3 if hosts lack something that a treatment needs."""
    from loadbook.execution.dry_run import dry_run

    plan = plan_study(layout, load_study(layout, study), subset, blocks)
    path = hosts or layout.lab / "hosts.toml"
    if hosts is None and not path.is_file():
        raise UsageError("the lab has no hosts yet", "loadbook lab up, or --hosts FILE")
    recorded, parts = dry_run(layout, plan, path)
    hosts_by_alias, inventory = recorded.hosts if recorded else {}, read_hosts(path)
    if recorded and not plan.plain_because and (reason := recorded.testbed.plan.plain_because):
        plan = plan.with_plain_trials(reason)
    shape = f"{plan.blocks_text} of {len(plan.treatments)}, {plan.mode.order_text(plan)}"
    terminal.echo(f"{plan.study.name} on {path}: what a run would do; nothing was touched")
    terminal.echo(f"trials   {len(plan.trials)}: {shape}; about {format_duration(plan.hours * 3600)}")
    if plan.left_out:
        terminal.echo(f"{'':9}{left_out_text(plan.left_out)}")
    terminal.echo(f"executed {plan.execution_text}")
    for alias, host in hosts_by_alias.items():
        roles = ", ".join(inventory.hosts[alias].roles)
        terminal.echo(f"host     {alias}: {host.destination}, under load at {host.address}; {roles}")
    terminal.echo(
        "names    RUN is the run's id, t0001-a1 trial and attempt, 000000000000 a random word, LEADER a process id"
    )
    width = max(map(len, hosts_by_alias), default=0)
    for part in parts:
        about = "about " if part.unit == "probe" else ""
        repeats = f": {about}{pluralize(part.repeats, part.unit)}, each" if part.repeats else ""
        terminal.echo(f"\n== {part.title}{repeats}")
        for lack in part.missing:
            terminal.echo(f"   cannot be done here: {lack}")
        for title, steps in part.phases:
            terminal.echo(f"-- {title}")
            for step in steps:
                _print_step(step, width, verbose)
    lacking = sum(bool(part.missing) for part in parts)
    if lacking:
        terminal.echo(f"{lacking} of {len(plan.treatments)} treatments cannot be done on these hosts", err=True)
        if hosts is None:
            terminal.echo_next_step("without --dry-run the lab gets the hosts that it lacks")
        sys.exit(3)


def _print_step(step: DryRunStep, width: int, verbose: bool) -> None:
    """Print a step as one line; with `verbose`, followed by the text of its file or script."""
    terminal.echo(f"{step.alias:{width}}  {_step_text(step)}" + (f"   # {step.note}" if step.note else ""))
    contents = [step.data] if step.action == "put" else [arg.encode() for arg in step.args if "\n" in arg]
    for content in contents if verbose else ():
        for line in content.decode(errors="replace").splitlines():
            terminal.echo(f"{step.alias:{width}}  | {line}")


def _step_text(step: DryRunStep) -> str:
    """Return a step as shell text; scripts and files are replaced by their length and hash."""
    args = [
        f"'({len(arg.splitlines())} lines, sha256 {sha256(arg.encode()).hexdigest()[:12]})'" if "\n" in arg
        else shlex.quote(arg)
        for arg in step.args
    ]  # fmt: skip
    if step.action == "job":
        return f"job {args[0]}: {' '.join(args[1:])}"
    if step.action == "script":
        return f"$ sh -c {' '.join([args[0], 'sh', *args[1:]])}"
    if step.action == "run":
        return f"$ {' '.join(args)}"
    content = f" ({format_bytes(len(step.data))}, sha256 {sha256(step.data).hexdigest()[:12]})"
    return f"{STEP_VERBS.get(step.action, step.action)} {' '.join(args)}{content if step.action == 'put' else ''}"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", "dry", is_flag=True, help="Only print what would be done, in which order, and how long it takes."
)
@click.option("--new", is_flag=True, help="Begin a new round although the last one is not over.")
@click.option("--failed", is_flag=True, help="Of the last round, do again what failed.")
@click.option("--fail-fast", is_flag=True, help="Start nothing more after the first failure.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=4, show_default=True, help="Entries at a time, where hosts differ."
)
@click.option(
    "--wait-limit", type=click.FloatRange(min=0), default=3600.0, show_default=True, metavar="SECONDS",
    help="How long an entry waits for hosts that another run uses.",
)  # fmt: skip
@click.option(
    "--timeout-s", type=click.IntRange(min=1), help="Seconds that one cell of a notebook may take; default: 600."
)
@terminal.json_option("the record of the batch run, batch.json")
def batch(
    file: Path, dry: bool, new: bool, failed: bool, fail_fast: bool, jobs: int, wait_limit: float,
    timeout_s: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Run every study of a batch FILE and execute its notebooks; then a table, a summary page, and its JSON.

    After an interruption, the same command continues without repeating finished entries; once all are finished, it
    starts anew. Exit code: the highest of any entry (1: a verdict that its study declares unacceptable).
    """
    from loadbook.batch.file import read_batch
    from loadbook.batch.index import PAGE_FILE
    from loadbook.batch.jobs import batch_jobs, read_batch_run, start_batch_run
    from loadbook.batch.scheduler import BatchOptions
    from loadbook.report.notebooks import TIMEOUT_S
    from loadbook.store.atomic import hold_study_lock

    if new and failed:
        raise UsageError("--new begins another round, --failed goes on with the last one", "leave one of them out")
    layout, spec = project_layout(), read_batch(file)
    folder, batch_job_list = layout.batch(spec.name), batch_jobs(layout, spec)

    def start() -> tuple[BatchRun, str]:
        last = None if new else read_batch_run(folder)
        return start_batch_run(spec, batch_job_list, last, new=new, failed=failed)

    if dry:
        batch_run, choice = start()
        if as_json:
            terminal.print_json(_timetable_record(batch_job_list, batch_run, jobs))
        else:
            _print_timetable(layout, batch_job_list, batch_run, choice, jobs)
        return
    with hold_study_lock(folder):
        batch_run, choice = start()
        terminal.echo(f"batch {spec.name}: {choice}; {folder / PAGE_FILE} shows how far it is", err=True)
        options = BatchOptions(jobs, fail_fast, wait_limit, timeout_s or TIMEOUT_S)
        interrupted = _run_batch(layout, batch_run, batch_job_list, options)
    _print_batch(layout, batch_run, as_json)
    sys.exit(terminal.EXIT_CODE if interrupted else batch_run.exit_code)


def _run_batch(layout: Layout, batch_run: BatchRun, jobs: list[BatchJob], options: BatchOptions) -> bool:
    """Execute the unfinished jobs of a batch run; return whether Ctrl-C or SIGTERM (twice: at once) stopped it."""
    from loadbook.batch.scheduler import BatchSession

    with terminal.ProgressDisplay(sys.stderr) as display:
        session = BatchSession(
            layout, batch_run, jobs, options,
            lambda job, name, event, remaining_s: display(event, name, remaining_s, key=id(job)),
        )  # fmt: skip

        def on_signal(signum: int, frame: FrameType | None) -> None:
            terminal.echo_now(BATCH_SECOND_INTERRUPT if session.scheduler.stops else terminal.FIRST_INTERRUPT)
            session.scheduler.stop()

        with terminal.signal_handlers(on_signal):
            session.run()
    if session.scheduler.stops:
        terminal.echo("stopped; the same command goes on where it was", err=True)
    return bool(session.scheduler.stops)


def _unfinished_jobs(jobs: list[BatchJob], batch_run: BatchRun) -> list[BatchJob]:
    return [job for job in jobs if any(batch_run.entry_of(report).state != "done" for report in job.reports)]


def _timetable_record(jobs: list[BatchJob], batch_run: BatchRun, max_parallel: int) -> dict[str, Any]:
    """Return what `--dry-run --json` prints: the unfinished jobs with their expected times."""
    from loadbook.batch.scheduler import timetable

    left = _unfinished_jobs(jobs, batch_run)
    times = timetable(left, max_parallel)
    records = [
        {"study": job.study, "hosts": job.hosts_text, "trials": job.trials, "starts_after_s": times[id(job)][0],
         "ends_after_s": times[id(job)][1], "entries": [report.name for report in job.reports]}
        for job in left
    ]  # fmt: skip
    expected_s = max((end for _, end in times.values()), default=0.0)
    return {"batch": batch_run.batch, "expected_s": expected_s, "jobs": records}


def _print_timetable(layout: Layout, jobs: list[BatchJob], batch_run: BatchRun, choice: str, max_parallel: int) -> None:
    """Print the order, expected times and hosts of the unfinished jobs; no host is contacted."""
    from loadbook.batch.scheduler import timetable
    from loadbook.report.build import page_file_name

    left = _unfinished_jobs(jobs, batch_run)
    times = timetable(left, max_parallel)
    whole_s = max((end for _, end in times.values()), default=0.0)
    terminal.echo(f"batch {batch_run.batch}: {choice}; what it would do, nothing was touched")
    trials = sum(job.trials for job in left)
    terminal.echo(
        f"{pluralize(trials, 'trial')}, about {format_duration(whole_s)} in all; "
        f"pages in {layout.batch(batch_run.batch)}"
    )
    for number, job in enumerate(sorted(jobs, key=lambda job: times.get(id(job), (0.0,))[0]), 1):
        planned = times.get(id(job))
        if planned is None:
            start = "is done, not repeated"
        else:
            start = f"after {format_duration(planned[0])}" if planned[0] else "at once"
        terminal.echo(f"\n{number}. {job.study} on {job.hosts_text}: {start}")
        if planned:
            terminal.echo(
                f"   {pluralize(job.trials, 'trial')}, about {format_duration(job.run_s)}; "
                f"notebooks {', '.join(job.notebooks)}"
            )
        for report in job.reports:
            parameters = ", ".join(f"{name} = {value}" for name, value in report.parameters.items())
            done = batch_run.entry_of(report).state == "done"
            page = "done" if done else page_file_name(report.name, "", first=True)
            terminal.echo(f"   {page}" + (f": {parameters}" if parameters else ""))


def _print_batch(layout: Layout, batch_run: BatchRun, as_json: bool) -> None:
    """Write the index page; print the entries of a batch run as a table, and the path of its page."""
    from loadbook.batch.index import PAGE_FILE, entry_rows, tally, write_index
    from loadbook.batch.jobs import BATCH_FILE

    folder = layout.batch(batch_run.batch)
    write_index(layout.reports)
    if as_json:
        terminal.print_json(batch_run.model_dump(mode="json"))
        return
    rows = entry_rows(batch_run)
    cells = [
        (row["entry"].name, f"{row['glyph']} {row['state']}", row["valid_trials"], row["took"], "\n".join(row["lines"]))
        for row in rows
    ]
    verdict = "Verdict, or why there is none"
    terminal.print_table(("Entry", "State", "Valid", "Took", verdict), cells, fold=(verdict,), width=160, style="")
    terminal.echo(f"{tally(batch_run)}; exit code {batch_run.exit_code}")
    if resume := next((row["resume_command"] for row in rows if row["resume_command"]), None):
        terminal.echo(f"to go on: {resume}")
    terminal.echo(f"page: {folder / PAGE_FILE}")
    terminal.echo(f"json: {folder / BATCH_FILE}")
