"""JMeter, where `make jmeter` put it, or where JMETER_HOME says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from loadbook.study.workload import Workload

HOME = Path(os.environ.get("JMETER_HOME") or Path(__file__).parents[2] / ".cache" / "jmeter")
MISSING = (
    f"JMeter is not at {HOME}: make jmeter"
    if not (HOME / "bin" / "jmeter").is_file()
    else ""
    if shutil.which("java")
    else "java is not installed: make jmeter"
)
NEEDS_JMETER = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def put_jmeter_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test find JMeter."""
    monkeypatch.setenv("PATH", f"{HOME / 'bin'}{os.pathsep}{os.environ['PATH']}")


def jmeter_load(**settings: object) -> Workload:
    """Return a load of four connections by JMeter."""
    return Workload.model_validate({"tool": "jmeter", "connections": 4, "timeout_s": 10} | settings)
