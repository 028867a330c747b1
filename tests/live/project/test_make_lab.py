"""pyproject.toml is the single source of dependencies: environment.yml and the locks agree with it."""

import importlib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_make_lab_opens_jupyterlab_for_its_user_only() -> None:
    """Loopback, with its token, and without asking anybody for news or newer versions."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = next(line for line in makefile.splitlines() if "-m jupyterlab" in line)
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "--LabApp.news_url=None " in command
    assert "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate" in command
    for word in ("token", "password", "allow_origin", "disable_check_xsrf", "0.0.0.0", "allow_remote_access"):
        assert word not in command
    assert importlib.import_module("jupyterlab").NeverCheckForUpdate
