"""docs/statistics.md shows what loadbook says today; what benchstat is given are the trials that loadbook compares."""

import re
from pathlib import Path

import pytest
from test_compare_command import loadbook

ROOT = Path(__file__).parents[3]

import benchstat  # noqa: E402
from loadbook.core.errors import UsageError  # noqa: E402

ROW = re.compile(r"^\| (\w+) \| (.+?) \| .+? \(p=.+?\) \| (.+?) \|$", re.MULTILINE)


def test_documented_comparison_sentences_are_current() -> None:
    text = (ROOT / "docs" / "statistics.md").read_text().split("## Beside benchstat")[1].split("\n## ")[0]
    rows = ROW.findall(text)
    assert {name for name, *_ in rows} == set(benchstat.SHOWN)
    for name, treatment, sentence in rows:
        path, base = benchstat.FIXTURES / f"{name}.csv", benchstat.SHOWN[name]
        assert f"{treatment}: {sentence}\n" in loadbook("compare", path, "--baseline", base, "--margin", 0.02).stdout


def test_missing_benchstat_error_names_the_remedy(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as found:
        benchstat.main(str(benchstat.FIXTURES / "drift.csv"), "plain")
    assert "go install" in (found.value.hint or "")
