"""A run whose harness checks do not pass has the same neutral headline wherever a headline is printed."""

import json
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner

from doubtful_runs import CHECKS, FASTER
from loadbook.batch.index import entry_rows
from loadbook.batch.jobs import BatchRun, EntryRecord
from loadbook.cli import report as report_commands
from mock_project import Arm, make_project
from report_maker import make_report

GOLDEN = Path(__file__).with_name("neutral_outputs.txt")


def outputs(root: Path, aa: Arm, control: Arm) -> str:
    """Return the words of a run in every output: terminal, page, Markdown, index, batch and gate."""
    arms = {"baseline": Arm(), "aa": aa, "slow": control, "fast": FASTER}
    layout = make_project(
        root, arms, name="doubtful", blocks=10, traces=False, ci={"undecided": "fail"}, notebooks=("config_effects",)
    )
    made = make_report(layout, "doubtful", "--format", "md")
    page = BeautifulSoup(made.page("doubtful.html"), "html.parser")
    top = [*page.find(class_="answer").find_all("p"), *page.find(class_="trust").find_all("div")]
    row = BeautifulSoup((layout.reports / "index.html").read_text(), "html.parser").find("td", {"data-name": "Verdict"})
    summary = json.loads((layout.reports / "doubtful.summary.json").read_text())
    entry = EntryRecord(name="a", identity="a", study="doubtful", question="?", hosts="lab", state="done")
    entry.summary, entry.reason = summary, summary["gate"]["sentence"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADBOOK_HOME", str(layout.root))
        gate = CliRunner().invoke(report_commands.gate, ["doubtful"]).stdout
    markdown = (layout.reports / "doubtful.md").read_text().partition("\n## Could")[0]
    texts = {
        "loadbook report": "\n".join(line for line in made.output.splitlines() if str(layout.root) not in line),
        "page": "\n".join(" ".join(part.get_text(" ", strip=True).split()) for part in top),
        "Markdown": "\n".join(line for line in markdown.splitlines()[4:] if line and not line.startswith(("|", "## "))),
        "index": " ".join(row.get_text(" ", strip=True).split()),
        "loadbook batch": "\n".join(
            entry_rows(BatchRun(batch="all", file="all.toml", began=0.0, entries=[entry]))[0]["lines"]
        ),
        "loadbook gate": gate.strip(),
    }
    return "".join(f"--- {where}\n{text}\n".replace("\u00a0", " ") for where, text in texts.items())


def test_all_outputs_say_the_same_words_in_the_same_order(tmp_path):
    printed = []
    for name, arms in CHECKS.items():
        if name != "driver at its limit":
            root = tmp_path / name.replace("/", "-")
            root.mkdir()
            printed.append(f"======== {name}\n{outputs(root, *arms)}")
    if not GOLDEN.exists():
        GOLDEN.write_text("\n".join(printed), encoding="utf-8")
        pytest.fail(f"{GOLDEN.name} was missing and is written anew: read it")
    assert "\n".join(printed) == GOLDEN.read_text(encoding="utf-8"), f"if it is right: delete {GOLDEN.name}, test twice"
