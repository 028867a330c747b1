"""A report made of hostile data, in a real browser without a network: nothing runs, nothing is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from chromium import BINARY, Chrome
from counting_server import Counter, counting
from hostile_texts import CORPUS, HTML, TERMINAL, silent
from inert_pages import chrome_without_network, is_inert
from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.quality import QualityPage
from loadbook.report.html import forbidden_content
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from mock_project import RUN, Arm, make_project
from rendered_pages import page_html
from report_maker import make_report

pytestmark = [
    pytest.mark.fault(44, 55),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]  # fmt: skip
ARMS = 4


@pytest.fixture
def counter() -> Iterator[Counter]:
    with counting() as made:
        yield made


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chrome_without_network(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def hostile_project(root: Path, counter: Counter) -> Layout:
    """A run whose every text is one of the corpus: labels, question, claims, doubts, facts, versions."""
    texts = [counter.of(text).replace("\ud800", "?") for text in CORPUS]
    labels = [" ".join(texts[k::ARMS]) for k in range(ARMS)]
    arms = {"baseline": Arm(label=labels[0])}
    arms |= {f"arm-{k}": Arm(0.01 * k, {f"f{k}": True}, labels[k], errors=k, error_share=0.3) for k in range(1, ARMS)}
    arms["gone"] = Arm(0.0, {"gone": True}, texts[5], invalid=" ".join(texts))
    claims = [{"claim": text, "treatment": "arm-1", "against": "baseline", "value": 2.0, "against_value": 1.0}
              for text in labels[:4]]  # fmt: skip
    layout = make_project(
        root, arms, name="hostile", question=counter.of(HTML[1])[:90], doubt=" ".join(texts), blocks=6,
        published={"source": " ".join(texts), "claims": claims}, background=" ".join(texts),
    )  # fmt: skip
    paths = layout.run("hostile", RUN)
    run = json.loads(paths.run_json.read_text())
    run["tool_versions"]["driver-1"] = run["service_versions"]["web-1"] = " ".join(texts)
    paths.run_json.write_text(json.dumps(run))
    for path in paths.facts.glob("*.json"):
        path.write_text(path.read_text().replace("6.1.0-31-amd64", json.dumps(" ".join(texts))[1:-1]))
    return layout


@pytest.mark.parametrize("kind", [EffectsPage, QualityPage])
def test_pages_of_hostile_data_execute_nothing(chrome: Chrome, tmp_path: Path, counter: Counter, kind: type) -> None:
    page = page_html(kind(load_run(hostile_project(tmp_path, counter), "hostile")))
    assert forbidden_content(page) == []
    assert silent(page)
    (tmp_path / "page.html").write_text(page)
    is_inert(chrome, tmp_path / "page.html", counter)
    displayed = chrome.value("document.body.innerText")
    assert "<script>document.title='PWN'</script>" in displayed and "{{7*7}}" in displayed and "=cmd|" in displayed


@pytest.mark.timeout(900)
def test_report_command_on_hostile_data_makes_pages_without_active_content(
    chrome: Chrome, tmp_path: Path, counter: Counter, record_property: object
) -> None:
    layout = hostile_project(tmp_path, counter)
    first = new_code_cell('study = "s"\nrun = "r"', metadata={"tags": ["parameters"]})
    raising = new_notebook(cells=[first, new_code_cell(f"raise ValueError({counter.of(HTML[1] + TERMINAL[0])!r})")])
    raising.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = make_report(layout, "hostile")
    assert made.exit_code == 0, made.output
    printed = json.loads((layout.reports / "hostile.summary.json").read_text())["sentences"]
    assert len(made.output.splitlines()) == len(printed) + len(("report", "index"))  # no label makes lines of its own
    nbformat.write(raising, layout.notebooks / "run_quality.ipynb")
    failed = make_report(layout, "hostile")
    assert failed.exit_code == 3 and silent(failed.output)
    pages = sorted(layout.reports.glob("*.html"))
    assert {"hostile.html", "index.html"} <= {page.name for page in pages}
    for page in pages:
        is_inert(chrome, page, counter)
    record_property("seen", f"{len(pages)} pages: no script, no request, nothing on the console")
