"""Files of other monitors, added to a recorded run: kept, verified, read into its tables, the same on every ingest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadbook.cli import cli
from loadbook.core.errors import DataError, LoadbookError
from loadbook.ingestion.host_metrics import read_metric_files, sadf_json
from loadbook.store.paths import Layout
from loadbook.store.verify import verify_run
from recorded_run import STUDY, copy_recorded_run

FIXTURES = Path("tests/fixtures/traces").absolute()


@pytest.fixture
def layout(tmp_path, monkeypatch) -> Layout:
    layout = copy_recorded_run(tmp_path)
    monkeypatch.chdir(layout.root)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    return layout


def added(layout: Layout, *words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["traces", STUDY, *map(str, words)])
    if isinstance(done.exception, LoadbookError):
        raise done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


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
