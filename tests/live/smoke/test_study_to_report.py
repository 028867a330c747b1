"""One study of two treatments, as a new user runs it: sshd, nginx and wrk, a report, and a browser that opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chromium import BINARY, Chrome
from controller_processes import loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.hosts.lab import Lab
from loadbook.store.paths import Layout

STUDY = f"""
include = "aa.toml"
name = "smoke"
blocks = 2
notebooks = ["config_effects"]
{ON_A_BUSY_MACHINE}
"""
LAPTOP = 1280, 720


def test_study_runs_to_a_report_that_a_browser_opens(lab: Lab, layout: Layout, tmp_path: Path) -> None:
    (layout.studies / "smoke.toml").write_text(STUDY)
    for words in (["run", "smoke", "--hosts", str(lab.hosts_file)], ["report", "smoke"]):
        process = loadbook(layout, *words)
        printed = process.communicate(timeout=240)
        assert process.returncode == 0, printed
    page = layout.reports / "smoke.html"
    assert page.is_file()
    if not BINARY:
        pytest.skip("Chromium is not there: apt-get install chromium")
    with Chrome(tmp_path / "chromium") as chrome:
        chrome.open(page, *LAPTOP)
        assert chrome.complaints() == []
        assert chrome.value("document.querySelector('h1').innerText")
        assert chrome.value("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
