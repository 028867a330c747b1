"""docs/statistics.md shows what loadbook says today; what benchstat is given are the trials that loadbook compares."""

from pathlib import Path

import benchstat

# what benchstat prints for two arms: a header of two rows, one benchmark, the geometric mean
PRINTED = ",a,,b,,,\n,u,CI,u,CI,vs base,P\nTrial,1,7%,2,6%,-8.92%,p=0.002 n=11+12\ngeomean,1,,2,,-8.92%,\n"


def test_export_for_benchstat_has_only_valid_trials(tmp_path: Path, monkeypatch, capsys) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "benchstat"
    program.write_text(f"#!/bin/sh\nshift 2\nhead -n 99 \"$@\" >{seen}\nprintf '{PRINTED}'\n".replace("%,", "%%,"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    rows = [
        f"{arm},{k},{value},{k != 3}" for k in range(6) for arm, value in (("a", 100 + k), ("b", 0 if k == 1 else 90))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["treatment,block,req rate,valid", *rows]) + "\n")
    benchstat.main(str(tmp_path / "t.csv"), "a", "req rate")
    given = seen.read_text()
    assert "Unit req_rate better=higher\nBenchmarkTrial 1 100.0 req_rate\n" in given
    assert (given.count("BenchmarkTrial"), "103.0" in given) == (9, False)
    assert "| b | -8.92% (p=0.002 n=11+12) | " in capsys.readouterr().out
