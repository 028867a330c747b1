"""The exported page: one file, no script, no request, its numbers the same wherever they stand."""

import json
import re
import shutil
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup

from loadbook.report import html
from loadbook.report.html import CONTENT_SECURITY_POLICY, MAX_PAGE_BYTES, forbidden_content


@pytest.fixture(scope="module")
def soup(made):
    assert made.exit_code == 0, made.output
    return BeautifulSoup(made.page(), "html.parser")


@pytest.fixture(params=["nginx-directives.html", "nginx-directives-quality.html", "index.html"])
def page(made, request):
    return made.page(request.param)


def test_exported_page_has_no_external_or_active_content(page):
    assert forbidden_content(page) == []
    named = re.sub(r"xmlns(:xlink)?='http://www\.w3\.org/[a-z0-9/]+'", "", page)  # names of SVG, which nobody fetches
    assert not re.search(r"https?://|<script|javascript:|@import|<link", named, re.IGNORECASE)


def test_exported_page_head_is_complete(page):
    soup = BeautifulSoup(page, "html.parser")
    assert soup.html["lang"] == "en"
    assert soup.title.string.strip()
    assert soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"] == CONTENT_SECURITY_POLICY
    assert soup.find("meta", attrs={"name": "viewport"})
    assert len(soup.find_all("style")) == 1
    assert len(soup.find_all("h1")) == 1


def test_exported_page_size_is_bounded(page):
    assert len(page.encode()) < MAX_PAGE_BYTES


def test_headings_are_questions(page):
    headings = BeautifulSoup(page, "html.parser").find_all(re.compile("h[1-3]"))
    assert all(h.get_text(strip=True).endswith("?") for h in headings), headings


def test_every_figure_has_caption_and_alt_text(soup):
    figures = soup.find_all("figure")
    assert len(figures) >= 7
    for figure in figures:
        image, box = figure.img, figure.find(class_="scroll")
        assert len(image["alt"]) > 40
        assert (
            box.img is image and box["tabindex"] == "0"
        )  # a picture that is wider than the screen scrolls by keys, too
        assert image["src"].startswith("data:image/svg+xml,")
        assert figure.figcaption.b.get_text(strip=True).endswith((".", "?", "!"))
        assert "<script" not in unquote(image["src"].split(",", 1)[1])


def test_exported_page_hides_its_code_until_a_click(soup):
    code = soup.find("details", class_="code")
    assert "open" not in code.attrs
    assert "lb.effects_page(" in code.get_text()
    assert "lb.effects_page(" not in soup.get_text().replace(code.get_text(), "")


def test_exported_page_links_exist(made, soup):
    for link in soup.find_all("a"):
        target, _, anchor = link["href"].partition("#")
        assert not target or (made.layout.reports / target).is_file()
        assert not anchor or soup.find(id=anchor)


def test_exported_page_has_no_warnings(soup):
    assert soup.find_all("pre", class_="stream") == []


def test_exported_page_sentence_table_and_headline_agree(soup):
    """Read the numbers back: the headline's and the sentences' are those of the table."""
    table = next(t for t in soup.find_all("table") if "Verdict" in t.get_text())
    cells = {
        r.th.get_text(strip=True): [c.get_text(strip=True) for c in r.find_all("td")]
        for r in table.tbody.find_all("tr")
    }
    printed = {li.b.get_text(strip=True): li.get_text(" ", strip=True) for li in soup.select("ul.verdicts li")}
    figure = soup.figure.img["alt"]
    assert set(printed) | {"baseline"} == set(cells)
    checked = 0
    for name, (_, change, interval, *_rest) in cells.items():
        if change == "–":
            continue
        assert f"{change}\u00a0% ({interval})" in figure, name
        magnitude = change.lstrip("+−")
        if "slower by" in printed[name] or "faster by" in printed[name]:
            assert f"by {magnitude}\u00a0%" in printed[name]
            low, high = sorted((b.lstrip("+−") for b in interval.split(" to ")), key=float)
            assert f"{low} to {high}\u00a0%" in printed[name]
            checked += 1
        elif "undecided" in printed[name]:
            assert f"{interval}\u00a0%" in printed[name]
            checked += 1
    headline = soup.select_one(".headline").get_text(strip=True)
    assert any(headline == text.replace("▲ ", "") for text in printed.values())
    assert checked >= 4


def test_exported_page_bytes_are_reproducible(made, tmp_path):
    notebook = made.layout.run("nginx-directives", "20261120T101500").processed / "notebooks" / "config_effects.ipynb"
    for name in ("a.html", "b.html"):
        html.export_html(notebook, tmp_path / name, "t")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    book = nbformat.read(notebook, as_version=4)
    for cell in book.cells:  # what differs between two executions of the same data
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        cell["execution_count"] = 99 if cell.cell_type == "code" else None
    book.metadata.pop("papermill")
    nbformat.write(book, tmp_path / "again.ipynb")
    html.export_html(tmp_path / "again.ipynb", tmp_path / "c.html", "t")
    assert (tmp_path / "c.html").read_bytes() == (tmp_path / "a.html").read_bytes()


def test_index_page_has_a_row_per_study_and_failure(made, tmp_path):
    from loadbook.batch import index

    shutil.copytree(made.layout.reports, tmp_path / "reports")
    summary = json.loads((made.layout.reports / "nginx-directives.summary.json").read_text())
    hostile = '"><img src=x onerror=alert(1)>'
    failed = {"study": "other", "run": "r", "question": f"Is {hostile} bad?", "started": summary["started"] + 9,
              "ended": None, "failed": ["notebook config_effects: cell 7 failed: <script>"]}  # fmt: skip
    html.write_summary(tmp_path / "reports", failed)
    page = index.write_index(tmp_path / "reports").read_text()
    assert forbidden_content(page) == []
    rows = BeautifulSoup(page, "html.parser").tbody.find_all("tr")
    assert [hostile in rows[0].get_text(), "cell 7 failed: <script>" in rows[0].get_text()] == [True, True]
    assert "107 of 108" not in rows[0].get_text()
    assert rows[1].a["href"] == "nginx-directives.html"
    assert summary["verdict"]["sentence"] in rows[1].get_text()
    assert [check in rows[1].get_text() for check in ("✓ A/A", "✓ known effect")] == [True, True]
    assert "A/A" not in rows[0].get_text()
