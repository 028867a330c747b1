"""`loadbook init`: make a project folder with notebooks, studies, the example run and a hosts file."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from loadbook.cli.terminal import echo
from loadbook.core.errors import UsageError
from loadbook.store.paths import EXAMPLE_STUDY

SHIPPED_FOLDERS = ("notebooks", "studies", f"data/{EXAMPLE_STUDY}")  # copied into the wheel by setup.py

README = """\
# A loadbook project

| here | is |
|---|---|
| `studies/` | one TOML file per question; `loadbook new` writes one to begin with, `loadbook studies` lists all |
| `notebooks/` | one notebook per kind of question: `loadbook report` executes them, `jupyter lab` opens them |
| `hosts.toml` | your hosts and what each is for; without `--hosts hosts.toml` the lab on this machine is used |
| `data/example/` | a recorded run to try things with |
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
    """Return the folder with the files that come with loadbook: that in the wheel, or the clone."""
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
    source = shipped_project()
    for name in SHIPPED_FOLDERS:
        shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    (folder / "data" / "raw").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    echo(f"project {folder.resolve()}")
    go = "" if folder == Path() else f"cd {folder}; "
    echo(f"next: {go}loadbook report {EXAMPLE_STUDY} makes a report of the recorded run; README.md has the rest")
