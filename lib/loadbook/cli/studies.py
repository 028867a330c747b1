"""`loadbook init`: make a project folder with notebooks, studies, the example run and a hosts file.

`loadbook docs`: show where the documentation is.
`loadbook studies`: list studies with their question, trials and duration, or the packages that they need.
`loadbook new`: write a commented study file. None of these commands contacts a host.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.terminal import echo, json_option, print_json, studies_argument
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.units import format_duration
from loadbook.execution.studies import load_study, service_folders, study_file
from loadbook.services import ServiceSpec, known_services, load_service
from loadbook.store.atomic import DiskFullError, explain_disk_full
from loadbook.store.paths import EXAMPLE_STUDY, EXAMPLES, Layout, check_name, project_layout
from loadbook.study.model import Study
from loadbook.study.plan import make_plan
from loadbook.study.reader import find_study, is_variant, read_study, smoke_variant, study_files

if TYPE_CHECKING:
    from loadbook.hosts.doctor import RequiredProgram

SHIPPED_FOLDERS = ("notebooks", "studies", *(f"data/{name}" for name in EXAMPLES))  # copied into the wheel by setup.py

NO_CONTROL = "none: no service here has a setting of known cost; name one by --control, a slow-down that you know"

README = """\
# A loadbook project

| here | is |
|---|---|
| `studies/` | one TOML file per question; `loadbook new` writes one to begin with, `loadbook studies` lists all |
| `notebooks/` | one notebook per kind of question: `loadbook report` executes them, `jupyter lab` opens them |
| `hosts.toml` | your hosts and what each is for; without `--hosts hosts.toml` the lab on this machine is used |
| `data/example/`, `data/example-sizes/` | recorded runs to try things with |
| `data/raw/` | what was measured, written once: keep it |
| `data/processed/`, `reports/` | tables and HTML pages, made again from `data/raw/` at any time |

```sh
loadbook report example           # a report of the recorded run: reports/index.html
loadbook doctor                   # which programs are missing, here and on every host
loadbook lab up                   # hosts to try it with: sshd processes on this machine
loadbook studies                  # every study of studies/
loadbook plan STUDY               # trials, hours, and the smallest difference that so many blocks detect
loadbook run STUDY                # Ctrl-C stops it, the same command goes on
loadbook report STUDY
```

Commands find this folder from anywhere inside it. From elsewhere, set `LOADBOOK_HOME` to its path.
"""

GITIGNORE = """\
# data/raw holds what was measured: remove its line to commit it
data/raw/
data/processed/
reports/
.cache/
.ipynb_checkpoints/
"""

HOSTS = """\
# Hosts and what each is for; names, users, ports and keys come from ~/.ssh/config. Every key: docs/hosts.md
[hosts.load1]
roles = ["driver"]

[hosts.web1]
roles = ["web"]
# address = "192.0.2.21"    # the address under load, where that is not the one that ssh connects to
"""

FILES = {"README.md": README, ".gitignore": GITIGNORE, "hosts.toml": HOSTS}


def shipped_project() -> Path:
    """Return the folder with the files that come with loadbook: in the installed wheel, or else the git clone."""
    in_wheel = Path(__file__).parents[1] / "project"
    return in_wheel if in_wheel.is_dir() else Path(__file__).parents[3]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(folder: Path) -> None:
    """Make FOLDER (default: the current one) a project: notebooks, studies, data with an example run, hosts.toml.

    Nothing is overwritten: a file or folder of one of these names is an error, and nothing is written.
    """
    existing = [name for name in ("notebooks", "studies", "data", *FILES) if (folder / name).exists()]
    if existing:
        raise UsageError(f"{folder.resolve()} already has {', '.join(existing)}", "loadbook init NEW-FOLDER")
    try:
        with explain_disk_full(folder.resolve()):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".loadbook-init-", dir=folder) as made:
                _write_project(Path(made))
                for path in sorted(Path(made).iterdir()):
                    path.rename(folder / path.name)
    except DiskFullError:
        raise
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", "loadbook init FOLDER, in one that is yours") from error
    echo(f"project {folder.resolve()}")
    go = "" if folder == Path() else f"cd {folder}; "
    echo(f"next: {go}loadbook report {EXAMPLE_STUDY} makes a report of the recorded run; README.md has the rest")


def _write_project(folder: Path) -> None:
    """Write the files of a project; OSError of the file that failed."""
    for name in SHIPPED_FOLDERS:
        source = shipped_project() / name
        for file in sorted(source.rglob("*")):
            if file.is_file() and ".ipynb_checkpoints" not in file.parts:
                target = folder / name / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
    (folder / "data" / "raw").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open it in a browser, too.")
def docs(opens: bool) -> None:
    """Print the address of the documentation: a site with a search that needs no network."""
    folder = shipped_project()
    built = [folder / where / "index.html" for where in ("docs", "build/docs")]  # in a wheel, in a clone
    site = next((page for page in built if page.is_file()), None)
    if site is None:
        raise UsageError(f"the documentation of {folder} is not built", "make docs")
    address = site.resolve().as_uri()
    echo(address)
    if opens:
        click.launch(address)


@click.command()
@studies_argument
@click.option("--packages", is_flag=True, help="Print COMMAND=PACKAGE of what they need, as scripts/setup.sh takes it.")
@json_option("one object per study")
def studies(studies: tuple[str, ...], packages: bool, as_json: bool) -> None:
    """List every STUDY (default: all): question, trials and time, and those of its smoke variant; no network."""
    layout = project_layout()
    for name in studies:
        find_study(layout.studies, name)  # raises an error for an unknown or invalid study given by name
    if packages:
        _print_packages(layout, studies or [path.stem for path in study_files(layout.studies)])
        return
    records = [
        _record(path) for path in ([study_file(layout, name) for name in studies] or study_files(layout.studies))
    ]
    if as_json:
        print_json(records)
        return
    width = max((len(record["study"]) for record in records), default=0)
    for record in records:
        for name, line in zip((record["study"], ""), _lines(record), strict=False):
            echo(f"{name:{width}}  {line}")


def _print_packages(layout: Layout, names: Sequence[str]) -> None:
    """Print one package per line that studies need; programs without a package are listed on stderr."""
    from loadbook.execution.preflight import package_arguments, required_programs

    needed: dict[str, RequiredProgram] = {}
    for name in names:
        try:
            by_role = required_programs(load_study(layout, name), service_folders(layout))
        except LoadbookError as error:
            echo(f"{name}: {error.message}", err=True)
            continue
        needed |= {program.binary: program for programs in by_role.values() for program in programs}
    lines = package_arguments(needed.values())
    for line in sorted(lines):
        echo(line)
    packaged = {line.partition("=")[0] for line in lines}
    for program in needed.values():
        if program.binary not in packaged:
            echo(f"{program.binary}: {program.install}", err=True)


def _record(path: Path) -> dict[str, Any]:
    """Return the JSON record of one study file; if it cannot be read, a record with the error."""
    try:
        study = read_study(path)
        sizes = {"standard": _size(study), "smoke": None if is_variant(path) else _size(smoke_variant(study))}
    except LoadbookError as error:
        return {"study": path.stem, "error": error.message}
    return {"study": path.stem, "question": study.question, "variant": is_variant(path)} | sizes


def _size(study: Study) -> dict[str, Any]:
    plan = make_plan(study)
    blocks = {"blocks": plan.blocks} | ({"latency_blocks": plan.latency_blocks} if plan.latency_blocks else {})
    return {"trials": len(plan.trials)} | blocks | {"arms": len(plan.treatments), "hours": plan.hours}


def _lines(record: dict[str, Any]) -> list[str]:
    """Return the printed lines about one study: its question, numbers of trials and durations."""
    if "error" in record:
        return [f"cannot be read: {record['error'].splitlines()[0]}"]
    smoke, standard = record["smoke"], record["standard"]
    blocks = standard["blocks"] + standard.get("latency_blocks", 0)
    trials = f"{standard['trials']} trials ({blocks} blocks of {standard['arms']})"
    smoke_time = f"; smoke variant {format_duration(smoke['hours'] * 3600)}" if smoke else ""
    return [record["question"], f"{trials}, {format_duration(standard['hours'] * 3600)}{smoke_time}"]


@click.command()
@click.argument("study")
@click.option(
    "--service", "chain", multiple=True, metavar="[ROLE=]SERVICE",
    help="What answers; the role is web unless given. Of several the first gets the load, each asks the next.",
)  # fmt: skip
@click.option("--try", "tried", multiple=True, metavar="[ROLE.]VAR=VALUE", help="Compare this value: a treatment.")
@click.option("--set", "fixed", multiple=True, metavar="[ROLE.]VAR=VALUE", help="What every treatment has.")
@click.option(
    "--control", multiple=True, metavar="[ROLE.]VAR=VALUE",
    help="A deliberate slow-down that the run must find; by default one of the service's own.",
)  # fmt: skip
@click.option("--no-control", is_flag=True, help="Without such a check.")
def new(
    study: str,
    chain: tuple[str, ...],
    tried: tuple[str, ...],
    fixed: tuple[str, ...],
    control: tuple[str, ...],
    no_control: bool,
) -> None:
    """Write a study to begin with, studies/STUDY.toml: commented, with every variable of its services.

    For example: loadbook new buffered-log --service nginx --set access_log=unbuffered --try access_log=buffered
    """
    from loadbook.services.check import control_settings, parse_setting, starter_study
    from loadbook.store.atomic import write_atomic

    layout = project_layout()
    path = layout.studies / f"{check_name('study', study)}.toml"
    if path.exists():
        raise UsageError(f"{path} is there already", "give the new study another name")
    services = _services(layout, chain)
    if control and no_control:
        raise UsageError("--control and --no-control exclude each other", "leave one of them out")
    compared, common, slower = ([parse_setting(text, services) for text in texts] for texts in (tried, fixed, control))
    chosen = not control and not no_control
    slower = control_settings(services, compared, common) if chosen else slower
    write_atomic(path, starter_study(study, services, compared, common, slower).encode())
    echo(f"study {path}")
    if chosen:
        echo(f"control {', '.join(f'{s.role}.{s.var}={s.value}' for s in slower) or NO_CONTROL}")
    echo(f"next: look at it, then loadbook plan {study}")


def _services(layout: Layout, chain: tuple[str, ...]) -> dict[str, ServiceSpec]:
    """Return role -> service, in the order given."""
    if not chain:
        known = ", ".join(known_services(service_folders(layout)))
        raise UsageError("no service is given that could answer", f"--service NAME; services: {known}")
    services: dict[str, ServiceSpec] = {}
    for text in chain:
        role, _, name = text.rpartition("=")
        role = role or "web"
        if role in services or role == "driver" or not role.isidentifier() or role != role.lower():
            hint = "each service needs a role of its own, in small letters: --service balancer=haproxy"
            raise UsageError(f"--service {text}: no role for it", hint)
        services[role] = load_service(name, service_folders(layout))
    return services
