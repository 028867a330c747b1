"""Schedules for the program that lets load generators take slices."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

PROGRAM = str(files("loadbook.hosts").joinpath("interleave.pl"))
SETTINGS = {"first": 0.05, "slice": 0.025, "gap": 0.002, "end": 1.0, "tail": 1.0}


def write_schedule(folder: Path, commands: dict[str, str], **settings: float) -> None:
    """Write the file `schedule` for these arms, with a folder and a command for each."""
    lines = [f"{key} {value}" for key, value in (SETTINGS | settings).items()]
    for arm, command in commands.items():
        (folder / arm).mkdir()
        (folder / arm / "cmd").write_text(command)
        lines.append(f"arm {arm} {arm}")
    lines += [f"order {' '.join(commands)}", f"order {' '.join(reversed(commands))}"]
    (folder / "schedule").write_text("\n".join(lines) + "\n")
