"""`loadbook calibrate` in a lab: a real tool against the server that records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loadbook.calibration.certificate import Certificate, read_certificates
from loadbook.cli import cli
from loadbook.core.errors import LoadbookError
from loadbook.store.paths import Layout
from loopback_labs import own_lab
from recorded_run import with_studies
from shared_builds import needs_go

pytestmark = [needs_go, pytest.mark.timeout(300)]


def calibrate(home: Path, hosts: Path, *words: str) -> Result:
    environment = {"LOADBOOK_HOME": str(home)}
    return CliRunner().invoke(cli, ["calibrate", "--yes", "--hosts", str(hosts), *words], env=environment)


def test_calibration_says_what_a_tool_said_and_what_was_true(tmp_path: Path) -> None:
    layout: Layout = with_studies(tmp_path / "home")
    with own_lab(hosts={"driver": ("driver",), "server": ("server",)}) as lab:
        done = calibrate(layout.root, lab.hosts_file, "--tool", "ab")
        assert done.exit_code == 0, done.output
        assert "ab" in done.stdout and "frozen" in done.stdout and "steady-400" not in done.stdout
        (certificate,) = read_certificates(layout.certificates)
        check_of_ab(certificate)

        again = calibrate(layout.root, lab.hosts_file, "--tool", "ab", "--json")
        assert Certificate.model_validate(json.loads(again.stdout)) == read_certificates(layout.certificates)[-1]
        assert len(read_certificates(layout.certificates)) == 2


def check_of_ab(certificate: Certificate) -> None:
    assert set(certificate.tools) == {"ab"} and not certificate.failed
    read = {(one.case, one.metric, one.statistic): one for one in certificate.readings}
    assert {case for case, _, _ in read} == {"steady", "frozen", "limited", "failing", "cold"}
    for case in ("steady", "failing"):
        median = read[case, "latency", "p50"]
        assert median.true >= 0.020 and median.said == pytest.approx(median.true, abs=0.01)
    assert read["frozen", "latency", "max"].true == pytest.approx(1.02, abs=0.05)
    assert read["frozen", "latency", "max"].said == pytest.approx(1.02, abs=0.1)
    assert read["limited", "requests_per_s", "value"].true == pytest.approx(500, rel=0.1)
    assert ("failing", "errors", "count") not in read  # ab does not tell redirects from errors
    errors = next(trust for trust in certificate.trusts if trust.metric == "errors")
    assert not errors.trusted and errors.missing == ["failing"]
    assert read["cold", "latency", "max"].true == pytest.approx(0.220, abs=0.05)


def test_tool_that_is_not_there_or_not_run_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    layout: Layout = with_studies(tmp_path / "home")
    with own_lab(hosts={"driver": ("driver",), "server": ("server",)}) as lab:
        for tool, words in (
            ("wrk2", "wrk2 is not"),
            ("hey", "does not run hey"),
            ("weighttp", "weighttp cannot make a load of 3 s"),
        ):
            done = calibrate(layout.root, lab.hosts_file, "--tool", tool)
            error = done.exception
            assert isinstance(error, LoadbookError) and words in f"{error.message}; {error.hint}", done.output
    assert not layout.certificates.exists()
