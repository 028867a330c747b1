"""A run whose harness checks do not pass has the same neutral headline wherever a headline is printed."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner

from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import entry_rows
from loadbook.batch.jobs import BatchRun, EntryRecord
from loadbook.cli import report as report_commands
from loadbook.stats.analyse import SATURATION_RULE
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from report_maker import make_report

GOLDEN = Path(__file__).with_name("neutral_outputs.txt")
FASTER = Arm(0.3, label="tcp_nopush on")
CHECKS = {
    "noisy A/A arm": (Arm(check="aa", label="A/A", scatter=0.3), Arm(-0.1, check="control", expect="worse")),
    "failed A/A arm": (Arm(0.2, check="aa", label="A/A"), Arm(-0.1, check="control", expect="worse")),
    "known effect not found": (Arm(check="aa", label="A/A"), Arm(0.0, check="control", expect="worse")),
    "driver at its limit": (Arm(check="aa", label="A/A"), Arm(-0.1, check="control", expect="worse")),
}


@pytest.fixture(params=CHECKS)
def doubtful(request, tmp_path):
    """A page whose treatment is clearly faster, in a run one of whose checks did not pass; its project; its check."""
    aa, control = CHECKS[request.param]
    arms = {"baseline": Arm(), "aa": aa, "slow": control, "fast": FASTER}
    layout = make_project(tmp_path, arms, name="doubtful", blocks=10)
    data = load_run(layout, "doubtful")
    if request.param == "driver at its limit":
        trials = data.trials["trial"].head(24)
        doubts = [{"trial": t, "name": SATURATION_RULE, "level": "doubt", "message": "busy"} for t in trials]
        data = replace(data, problems=pd.concat([data.problems, pd.DataFrame(doubts)], ignore_index=True))
    return EffectsPage(data), layout, request.param


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
    said = []
    for name, arms in CHECKS.items():
        if name != "driver at its limit":
            root = tmp_path / name.replace("/", "-")
            root.mkdir()
            said.append(f"======== {name}\n{outputs(root, *arms)}")
    if not GOLDEN.exists():
        GOLDEN.write_text("\n".join(said), encoding="utf-8")
        pytest.fail(f"{GOLDEN.name} was missing and is written anew: read it")
    assert "\n".join(said) == GOLDEN.read_text(encoding="utf-8"), f"if it is right: delete {GOLDEN.name}, test twice"
