"""The report as readers meet it: in a real browser, on a laptop, on a phone, on paper."""

import re
import shutil
import subprocess

import pytest

from chromium import BINARY, Chrome
from loadbook.analyses.effects.page import EffectsPage
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from rendered_pages import page_html

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]

PAGES = ("nginx-directives.html", "nginx-directives-quality.html", "index.html")
SIZES = {"laptop": (1280, 720), "phone": (390, 844)}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    with Chrome(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(params=SIZES)
def size(request):
    return SIZES[request.param]


@pytest.mark.parametrize("name", PAGES)
def test_report_opens_in_a_browser_without_errors_or_overflow(chrome, made, size, name, tmp_path):
    chrome.open(made.layout.reports / name, *size)
    assert chrome.complaints() == []
    assert chrome.requests() == [(made.layout.reports / name).as_uri()]
    assert chrome.value("document.documentElement.scrollWidth") <= size[0]
    assert chrome.value("document.body.scrollWidth") <= size[0]
    assert chrome.value("document.scripts.length") == 0
    chrome.picture(tmp_path / "first.png")
    chrome.picture(tmp_path / "full.png", full=True)
    assert all((tmp_path / f"{part}.png").read_bytes().startswith(PNG) for part in ("first", "full"))


def test_figures_fit_a_laptop_screen_and_scroll_in_their_boxes_on_a_phone(chrome, made):
    for name, size in SIZES.items():
        chrome.open(made.layout.reports / PAGES[0], *size)
        assert chrome.value("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        box = "[...document.querySelectorAll('figure .scroll')].at(-1)"
        assert chrome.value(f"{box}.scrollWidth > {box}.clientWidth") == (name == "phone")
        chrome.value(f"{box}.scrollLeft = 10000")
        right = "[...document.querySelectorAll('figure img')].at(-1).getBoundingClientRect().right"
        assert chrome.value(right) <= size[0]  # the end of the picture can be reached


def test_effects_figure_shows_numbers_on_hover_in_a_browser(chrome, made):
    chrome.open(made.layout.reports / PAGES[0], *SIZES["laptop"])
    texts = chrome.value("[...document.querySelectorAll('figure span[title]')].map(s => s.title)")
    assert any(re.search(r"^tcp_nopush on: faster, \+[\d.]+\s%.* blocks, p ", text) for text in texts)
    middle = """(() => { const span = document.querySelector('figure span[title]'), box = span.getBoundingClientRect();
        const at = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
        return at === span && box.width > 50 && box.height > 20 })()"""
    chrome.value("document.querySelector('figure').scrollIntoView()")
    assert chrome.value(middle)


WORDS_IN_VIEW = """[...document.querySelectorAll('ul.rows .v')].map(word => {
    const box = word.getBoundingClientRect();
    return [word.textContent.trim(), box.width > 0 && box.left >= 0 && box.right <= innerWidth] })"""


def test_phone_shows_each_verdict_and_interval_without_scrolling_sideways(chrome, made):
    chrome.open(made.layout.reports / PAGES[0], *SIZES["phone"])
    words = chrome.value(WORDS_IN_VIEW)
    assert {"▲ faster", "▼ slower", "■ equivalent", "○ passed", "□ passed"} <= {word for word, _ in words}
    assert all(in_view for _, in_view in words)
    bars = """[...document.querySelectorAll('ul.rows .strip .bar')].map(bar => {
        const own = bar.getBoundingClientRect(), strip = bar.parentElement.getBoundingClientRect();
        return own.width > 0 && own.left >= strip.left && own.right <= strip.right && strip.width > 300 })"""
    assert chrome.value(bars) and all(chrome.value(bars))
    effects = "document.querySelector('figure .rows ~ .scroll img').getBoundingClientRect().height"
    assert chrome.value(effects) == 0, "the list stands in place of the picture"
    picture = "getComputedStyle([...document.querySelectorAll('figure .scroll')].at(-1)).backgroundImage"
    table = "getComputedStyle(document.querySelector('div.scroll[aria-label=Effects]')).backgroundImage"
    assert chrome.value(picture) == chrome.value(table) != "none"
    assert chrome.value("getComputedStyle(document.querySelector('figure img')).mixBlendMode") == "multiply"
    chrome.open(made.layout.reports / PAGES[0], *SIZES["laptop"])
    assert not any(in_view for _, in_view in chrome.value(WORDS_IN_VIEW)) and chrome.value(effects) > 200


def test_index_shows_the_interval_of_the_first_treatment(chrome, made, size):
    chrome.open(made.layout.reports / "index.html", *size)
    strip = "document.querySelector('td .strip')"
    assert chrome.value(f"{strip}.getBoundingClientRect().right") <= size[0]
    assert 60 <= chrome.value(f"{strip}.getBoundingClientRect().width") <= 100
    assert "tcp_nopush on: faster, +" in chrome.value(f"{strip}.getAttribute('aria-label')")


def test_report_headline_and_harness_checks_are_visible_without_scrolling(chrome, made):
    """Laptop: answer, trust and five rows of the effect plot; phone: two rows of its list."""
    top = "document.querySelector('figure img').getBoundingClientRect().top"
    chrome.open(made.layout.reports / PAGES[0], *SIZES["laptop"])
    scale = 840 / (8.75 * 96)
    assert chrome.value(top) + (0.34 + 5 * 0.34) * 96 * scale <= 720
    chrome.open(made.layout.reports / PAGES[0], *SIZES["phone"])
    assert chrome.value("document.querySelectorAll('ul.rows li')[1].getBoundingClientRect().bottom") <= 844


def test_report_text_is_legible_on_a_phone(chrome, made):
    chrome.open(made.layout.reports / PAGES[0], *SIZES["phone"])
    sizes = "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert chrome.value(f"Math.min(...{sizes})") >= 12.9
    assert chrome.value("document.querySelector('figure img').width / (8.75 * 72)") * 7.5 >= 9


def test_report_details_open_without_widening_the_page(chrome, made, size):
    chrome.open(made.layout.reports / PAGES[0], *size)
    chrome.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chrome.value("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("name", PAGES)
def test_report_prints_completely(chrome, made, name, tmp_path):
    chrome.open(made.layout.reports / name, *SIZES["laptop"])
    chrome.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
    if shutil.which("pdftotext"):
        text = subprocess.run(
            ["pdftotext", tmp_path / "page.pdf", "-"], capture_output=True, text=True, timeout=60
        ).stdout
        assert re.search(r"tcp_nopush on is\s+faster by|trials count", text)


def test_report_of_a_hostile_study_runs_no_script(chrome, tmp_path):
    nasty = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'
    arms = {"baseline": Arm(label=nasty), "one": Arm(0.06, label=nasty)}
    layout = make_project(tmp_path, arms, name="hostile", question=nasty[:80], doubt=nasty, blocks=6, traces=False)
    (tmp_path / "page.html").write_text(page_html(EffectsPage(load_run(layout, "hostile"))))
    chrome.open(tmp_path / "page.html", 1280, 720)
    assert chrome.complaints() == []
    assert chrome.value("document.title") != "1"
    assert chrome.value("document.scripts.length") == 0
    assert nasty in chrome.value("document.body.innerText")
