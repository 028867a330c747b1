"""The sentence by which a report cites the certificate of its driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from loadbook.calibration.certificate import Certificate, Trust, write_certificate
from loadbook.calibration.citation import calibration_text
from loadbook.study.model import Study
from run_records import make_run_record


def trust(metric: str, statistic: str, said: float, true: float, **changes: Any) -> Trust:
    fields = {"tool": "wrk", "load_model": "closed", "trusted": False, "case": "frozen"} | changes
    return Trust(metric=metric, statistic=statistic, said=said, true=true, **fields)


TRUSTS = [
    trust("requests_per_s", "value", 500.4, 500.0, trusted=True),
    trust("errors", "count", 0, 0, missing=["failing"]),
    trust("latency", "p50", 0.0203, 0.020, trusted=True),
    trust("latency", "p90", 0.601, 0.0211),
]


def certificate(run: str, machine: str = "here", version: str = "4.1.0") -> Certificate:
    return Certificate(
        runs={"calibration-closed": run},
        machine=machine,
        driver="driver",
        tools={"wrk": version},
        readings=[],
        trusts=TRUSTS,
        failed={},
    )


@pytest.fixture
def data(tmp_path: Path) -> Any:
    study = Study.model_validate(
        {
            "name": "x", "question": "Does it matter?", "baseline": "base", "workload": {"tool": "wrk"},
            "roles": {"driver": {}, "web": {"service": "nginx"}}, "treatments": {"base": {}},
        }
    )  # fmt: skip
    run = make_run_record(hosts={"driver": {"roles": ["driver"]}, "web": {"roles": ["web"]}})
    trials = pd.DataFrame({"tool": ["wrk", "wrk"], "tool_version": ["4.1.0", "4.1.0"]})
    facts = {"driver-before": {"machine": {"value": "here", "kind": "identity"}}}
    paths = SimpleNamespace(certificates=tmp_path)
    return cast("Any", SimpleNamespace(run_record=run, study=study, facts=facts, trials=trials, paths=paths))


def test_report_cites_the_newest_certificate_of_its_driver_and_tool(data: Any, tmp_path: Path) -> None:
    for run in ("20261120-060000", "20261126-060000"):
        write_certificate(certificate(run), tmp_path / f"{run}.json")
    assert calibration_text(data) == (
        "wrk 4.1.0, calibrated on this driver 2026-11-26: trusted: rate and p50 of latency; not trusted: "
        "errors (not told in case failing) and p90 of latency (601 ms for 21.1 ms, case frozen)"
    )


def test_numbers_that_a_report_cites_are_those_of_the_newest_certificate(data: Any, tmp_path: Path) -> None:
    old = certificate("20261120-060000").model_copy(
        update={"trusts": [trust("latency", "p50", 0.02, 0.02, trusted=True)]}
    )
    write_certificate(old, tmp_path / "20261120-060000.json")
    write_certificate(certificate("20261126-060000"), tmp_path / "20261126-060000.json")
    text = calibration_text(data)
    assert text is not None and "not trusted: errors" in text


def test_certificate_is_not_cited_for_drivers_of_which_one_is_another_machine(data: Any, tmp_path: Path) -> None:
    write_certificate(certificate("20261126-060000"), tmp_path / "20261126-060000.json")
    data.run_record = make_run_record(hosts={name: {"roles": ["driver"]} for name in ("driver", "driver-2")})
    data.facts["driver-2-before"] = {"machine": {"value": "elsewhere", "kind": "identity"}}
    assert calibration_text(data) is None
    data.facts["driver-2-before"] = data.facts["driver-before"]
    assert calibration_text(data) is not None


@pytest.mark.parametrize("changes", [{"machine": "elsewhere"}, {"version": "4.2.0"}])
def test_certificate_of_another_machine_or_version_is_not_cited(
    data: Any, tmp_path: Path, changes: dict[str, str]
) -> None:
    write_certificate(certificate("20261126-060000", **changes), tmp_path / "20261126-060000.json")
    assert calibration_text(data) is None


def test_broken_certificate_is_named_and_does_not_stop_the_report(data: Any, tmp_path: Path) -> None:
    (tmp_path / "20261126-060000.json").write_text("{")
    assert "20261126-060000.json is no certificate" in str(calibration_text(data))


def test_trial_without_a_known_version_is_not_cited(data: Any, tmp_path: Path) -> None:
    write_certificate(certificate("20261126-060000"), tmp_path / "20261126-060000.json")
    data.trials = pd.DataFrame({"tool": ["wrk", "wrk"], "tool_version": [None, "4.1.0"]})
    assert str(calibration_text(data)).startswith("wrk 4.1.0, calibrated")


def test_report_without_a_certificate_cites_none(data: Any) -> None:
    assert calibration_text(data) is None
