"""An ssh program that reads a configuration of the test's own; OpenSSH does not look at $HOME."""

from __future__ import annotations

import shutil
from pathlib import Path


def own_ssh(folder: Path, config: Path, *options: str, program: str = "ssh") -> Path:
    """Write a program that calls ssh (or scp) with this configuration and options; return its folder, for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["exec", str(shutil.which(program)), "-F", str(config), *options, '"$@"']
    (folder / program).write_text(f"#!/bin/sh\n{' '.join(words)}\n")
    (folder / program).chmod(0o755)
    return folder
