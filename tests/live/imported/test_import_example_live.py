"""The worked example of docs/import.md, typed as it stands there; and the pages that come of it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from import_files import project
from loadbook.analyses.effects.page import effects_page
from loadbook.analyses.quality import quality_page
from loadbook.cli import main
from loadbook.core.units import NBSP
from recorded_run import REPO

TEXT = (REPO / "docs" / "import.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```console\n\$ (.*?)\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return project(tmp_path_factory.mktemp("example"))


@pytest.fixture
def call(layout, monkeypatch, capsys):
    """Type a command in the repository's folder, for the project of the test; returns what it prints."""
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    monkeypatch.chdir(REPO)

    def typed(command):
        words = shlex.split(command)
        if words[0] != "loadbook":
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout
        monkeypatch.setattr(sys, "argv", words)
        main()
        return capsys.readouterr().out

    return typed


def same(text):
    """Return a text without what differs from run to run."""
    return re.sub(r"data /\S+", "data", re.sub(r"\d{8}-\d{6}(-\d+)?", "RUN", text)).replace(NBSP, " ")


def test_import_page_example_prints_the_documented_output(call):
    assert [command.split()[0:2] for command, _ in EXAMPLES] == [
        ["head", "-4"], ["loadbook", "import"], ["loadbook", "report"],
    ]  # fmt: skip
    for command, printed in EXAMPLES[:2]:
        assert same(call(command)) == same(printed)
    printed = same(call(EXAMPLES[2][0])).splitlines()
    assert printed[:3] == EXAMPLES[2][1].splitlines()
    assert printed[3].startswith("report: ") and printed[3].endswith("by-hand.html")


def test_report_of_an_import_names_its_source_in_the_second_line(call):
    page = effects_page("by-hand")
    line = page.scope().text.splitlines()[1].replace(NBSP, " ")
    assert line == (
        "IMPORTED from by-hand: loadbook measured nothing, conditions are as conditions.csv says · wrk, closed loop · "
        "margin ±2 %, declared with the import · 3 treatments × 6 blocks, 54 s"
    )
    assert "none excluded; in the order of their times" in page.trust().text
    assert "Not known: no monitor recorded anything." in page.limit().text
    assert "imported 20" in page.provenance().text and "seed: none" in page.provenance().text


def test_report_of_an_import_marks_rules_without_evidence_as_not_checked(call):
    printed = effects_page("by-hand").doubts().text.splitlines()
    (line,) = [line for line in printed if "13 rules could not be checked: " in line]
    assert "configuration not live" in line and "conditions changed during the run" in line
    html = effects_page("by-hand").doubts().html
    assert "Why they could not be checked" in html and "no service was recorded" in html
    assert not any("Order of trials" in line for line in printed)
    setup = effects_page("by-hand").setup()
    assert "No facts of any host were recorded." in setup.html and "unbuffered" in setup.text


def test_quality_page_of_an_import_is_rendered(call):
    page = quality_page("by-hand")
    assert page.answer().text.startswith("18 of 18 trials count; A/A arm missing, control missing.")
    assert "18 trials" in page.which_count().text and "plain" in page.noise().text
