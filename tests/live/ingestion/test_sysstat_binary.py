"""Files of other monitors, added to a recorded run: kept, verified, read into its tables, the same on every ingest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from added_metrics import added, project_to_add_to
from loadbook.core.errors import DataError
from loadbook.ingestion.host_metrics import read_metric_files, sadf_json
from loadbook.store.paths import Layout
from loadbook.store.verify import verify_run
from recorded_run import STUDY

FIXTURES = Path("tests/fixtures/traces").absolute()


@pytest.fixture
def layout(tmp_path, monkeypatch) -> Layout:
    return project_to_add_to(tmp_path, monkeypatch)


@pytest.mark.skipif(shutil.which("sadf") is None, reason="sadf is not there: apt-get install sysstat")
def test_added_sysstat_binary_is_stored_beside_its_text(layout):
    binary = FIXTURES / "12.6.1--sa.dat"
    given = read_metric_files([binary])
    assert [(g.kind, list(g.read), list(g.originals)) for g in given] == [
        ("sadf-json", ["12.6.1--sa.dat.json"], [binary.name])
    ]
    assert len(given[0].traces.times) == 6
    added(layout, binary, "--host", "web")
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    assert sorted(p.name for p in paths.added_files.iterdir()) == ["1-12.6.1--sa.dat.json", "2-12.6.1--sa.dat"]
    assert not verify_run(paths).findings


@pytest.mark.skipif(shutil.which("sadf") is None, reason="sadf is not there: apt-get install sysstat")
def test_added_sysstat_binary_that_sadf_cannot_read_is_refused(tmp_path):
    torn = tmp_path / "sa.dat"
    torn.write_bytes((FIXTURES / "12.6.1--sa.dat").read_bytes()[:200])
    with pytest.raises(DataError, match="sadf could not read"):
        sadf_json(torn)
