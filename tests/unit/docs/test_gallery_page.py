"""docs/gallery.md says what is kept of its runs, shows their pictures, and quotes articles as the studies do."""

import struct
from pathlib import Path

import pytest

import gallery
import gallery_page
from loadbook.analyses.claims.compute import article_numbers_text, claim_title
from loadbook.store.tables import load_run
from loadbook.study.reader import find_study
from recorded_run import STUDY, ingested_run

KEPT = gallery_page.load()


def test_gallery_page_matches_the_stored_results() -> None:
    assert gallery_page.written(KEPT) == gallery_page.PAGE.read_text(), f"run {gallery_page.COMMAND}"


def test_gallery_page_shows_all_five_articles() -> None:
    assert len(gallery_page.ARTICLES) == 5
    for studies in gallery_page.ARTICLES.values():
        assert any(KEPT[study]["source"] in gallery_page.PAGE.read_text() for study in studies if KEPT[study]["source"])


@pytest.mark.parametrize("study", sorted(KEPT))
def test_gallery_pictures_are_stored_as_small_files(study: str) -> None:
    picture = (gallery_page.PICTURES / KEPT[study]["picture"]).read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG") and len(picture) < 80_000
    assert 800 < width < 1300 and 200 < height < 1500


@pytest.mark.parametrize("study", sorted(KEPT))
def test_gallery_quotes_match_the_studies(study: str) -> None:
    published = find_study(gallery.STUDIES, KEPT[study]["study"]).published
    known = {claim_title(claim): article_numbers_text(claim) for claim in published.claims} if published else {}
    assert {claim["claim"]: claim["numbers"] for claim in KEPT[study]["claims"]}.items() <= known.items()
    assert KEPT[study]["source"] == (published.source if published else "")


def test_gallery_update_reads_the_runs_of_a_project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = ingested_run(tmp_path)
    data = load_run(home, STUDY)
    for name, path in (("PAGE", "gallery.md"), ("PICTURES", "."), ("KEPT", "gallery.json")):
        monkeypatch.setattr(gallery_page, name, tmp_path / path)
    monkeypatch.setattr(gallery_page, "ARTICLES", {"One": (data.study.name, "never-run")})
    monkeypatch.setattr(gallery, "find_study", lambda folder, name: data.study)
    gallery.main(str(home.root))
    (one,) = gallery_page.load().values()
    page = (tmp_path / "gallery.md").read_text()
    assert one["verdict"] in page and data.run == one["run"] and (tmp_path / one["picture"]).is_file()


def test_gallery_update_refuses_an_unknown_study(tmp_path: Path) -> None:
    with pytest.raises(gallery.UsageError, match="does not show noise"):
        gallery.main(str(tmp_path), "noise")


def test_gallery_files_contain_no_local_paths() -> None:
    text = gallery_page.KEPT.read_text()
    assert "/root" not in text and "/tmp" not in text and "/home" not in text
