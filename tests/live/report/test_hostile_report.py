"""A report made of hostile data, in a real browser without a network: nothing runs, nothing is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from chromium import BINARY, Chrome
from counting_server import Counter, counting
from hostile_texts import CANARY, CORPUS, HTML, TERMINAL, silent
from inert_pages import chrome_without_network, is_inert
from loadbook.batch import index
from loadbook.core.errors import ReportError
from loadbook.report import html
from loadbook.report.html import CONTENT_SECURITY_POLICY, forbidden_content

pytestmark = [
    pytest.mark.fault(44, 55),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]  # fmt: skip


@pytest.fixture
def counter() -> Iterator[Counter]:
    with counting() as made:
        yield made


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chrome_without_network(tmp_path_factory.mktemp("chromium")) as one:
        yield one


def test_check_for_active_content_finds_unescaped_texts(chrome: Chrome, tmp_path: Path, counter: Counter) -> None:
    """The very same texts, unescaped and without a policy, run, ask and lead away."""
    seen = set()
    chrome.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    try:
        for number, text in enumerate(HTML):
            page = tmp_path / f"{number}.html"
            page.write_text(f"<!doctype html><title>t</title><body>{counter.of(text)}")
            chrome.open(page, 800, 600)
            time.sleep(0.1)
            seen |= {CANARY} & {chrome.value("document.title")}
            seen |= {"away"} if chrome.value("location.href") != page.as_uri() else set()
        assert seen == {CANARY, "away"} and len(counter.requested) >= 3
    finally:
        chrome.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
        )


ACTIVE_TYPES = ("text/html", "text/markdown", "application/javascript", "image/svg+xml", "text/latex", "text/plain",
                "application/vnd.jupyter.widget-view+json", "application/pdf", "video/mp4")  # fmt: skip


def book_of(*outputs: nbformat.NotebookNode, markdown: str = "# A page?") -> nbformat.NotebookNode:
    cells = [
        new_markdown_cell(markdown),
        new_code_cell("nasty = '</code></pre><script>1</script>'", outputs=list(outputs)),
    ]
    return new_notebook(cells=cells)


SVG = "<svg xmlns='http://www.w3.org/2000/svg'><script>document.title='PWN'</script></svg>"


@pytest.mark.filterwarnings("ignore:Your element with mimetype")
@pytest.mark.parametrize("mime", ACTIVE_TYPES)
def test_forged_notebook_outputs_are_inactive_or_not_exported(
    chrome: Chrome, tmp_path: Path, counter: Counter, mime: str
) -> None:
    """Somebody edits what papermill left, or a library prints HTML of its own."""
    texts = [*map(counter.of, HTML), SVG]
    for some in [[text] for text in texts] if mime == "text/html" else [texts]:
        data = [{mime: {"model_id": text} if mime.endswith("+json") else text} for text in some]
        nbformat.write(book_of(*(new_output("display_data", data=one) for one in data)), tmp_path / "n.ipynb")
        page = tmp_path / "n.html"
        page.unlink(missing_ok=True)
        try:
            html.export_html(tmp_path / "n.ipynb", page, " ".join(some))
        except ReportError as refused:
            assert mime == "text/html" and silent(refused.message)
        else:
            is_inert(chrome, page, counter)


def test_notebook_streams_tracebacks_titles_and_links_have_no_active_content(
    chrome: Chrome, tmp_path: Path, counter: Counter
) -> None:
    texts = [counter.of(text).replace("\ud800", "?") for text in (*HTML, *TERMINAL)]
    outputs = [new_output("stream", name=name, text="\n".join(texts)) for name in ("stdout", "stderr")]
    outputs += [new_output("error", ename=text, evalue=text, traceback=[text]) for text in texts]
    page = html.to_html(book_of(*outputs), " ".join(texts), [(text, None) for text in texts])
    assert forbidden_content(page) == []
    (tmp_path / "page.html").write_text(page)
    is_inert(chrome, tmp_path / "page.html", counter)
    for text in map(counter.of, HTML):  # markdown of a notebook is its author's: refused, or text
        page = html.to_html(book_of(markdown=f"# A page?\n\n{text}"), "t")
        if not forbidden_content(page):
            (tmp_path / "page.html").write_text(page)
            is_inert(chrome, tmp_path / "page.html", counter)


def test_content_security_policy_alone_stops_scripts_and_requests(
    chrome: Chrome, tmp_path: Path, counter: Counter
) -> None:
    """What the scan does not know: the browser is told, too. It cannot be told not to go elsewhere."""
    for text in map(counter.of, HTML):
        page = html.to_html(book_of(new_output("display_data", data={"text/html": text})), "t")
        if "refresh" in text:
            assert forbidden_content(page) == ["<meta>"]
            continue
        assert CONTENT_SECURITY_POLICY in page
        (tmp_path / "page.html").write_text(page)
        chrome.open(tmp_path / "page.html", 800, 600)
        time.sleep(0.1)
        assert chrome.value("document.title") != CANARY
        assert chrome.value("location.href") == (tmp_path / "page.html").as_uri()
    assert counter.requested == []


def test_index_page_of_hostile_studies_has_no_active_content(chrome: Chrome, tmp_path: Path, counter: Counter) -> None:
    for number, text in enumerate(map(counter.of, CORPUS)):
        verdict = dict.fromkeys(("kind", "glyph", "word", "sentence"), text)
        printed = {"study": f"study-{number}", "run": text, "question": text, "started": 1.7e9, "ended": None,
                "failed": [text], "origin": text, "verdict": verdict, "more": {text: "x.html"}}  # fmt: skip
        html.write_summary(tmp_path, json.loads(json.dumps(printed)))
    index.write_site_summary(tmp_path, {"began": 1.7e9, "ran_s": 1, "reported_s": 1, "parts": [
        {"study": text, "lacks": text} for text in CORPUS]})  # fmt: skip
    page = index.write_index(tmp_path)
    assert silent(page.read_text())
    is_inert(chrome, page, counter)
    html.write_summary(
        tmp_path, {"study": "x", "run": "r", "question": "q?", "started": 1.7e9, "ended": None, "page": "javascript:1"}
    )
    with pytest.raises(ReportError, match="not written"):
        index.write_index(tmp_path)
    assert page.is_file()
