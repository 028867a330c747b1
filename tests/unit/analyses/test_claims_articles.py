"""The sentences of five published articles as checks: under the truth that they report, and under none at all.

All of them stand in studies.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from claim_runs import run_of
from loadbook.analyses.claims.checks import check_claims
from loadbook.study.model import Study
from loadbook.study.reader import read_study, study_files

ROOT = Path(__file__).parents[3]
PAGES = (65_536, 131_072, 524_288)


def read(name: str) -> Study:
    return read_study(ROOT / "studies" / f"{name}.toml")


def fates(name: str, truth: dict[str, dict[str, float]], **options) -> list[str]:
    """How the claims of a study fare in a run with these true effects."""
    study = read(name)
    wanted = {arm for claim in study.published.claims for arm in claim.treatments}
    checks = [n for n, t in study.treatments.items() if t.check]
    arms = {
        n: truth.get(n, {}) for n in study.treatments if n not in checks and (not options.get("few") or n in wanted)
    }
    options.pop("few", None)
    return [one.finding.outcome for one in check_claims(study, run_of(study, arms, **options))]


def log(value: float, against: float) -> dict[str, float]:
    return {"effect": math.log(value / against)}


def test_article_claims_of_the_balancer_study() -> None:
    name = "lb-vs-single-article"
    (claim,) = read(name).published.claims
    as_published = {"external-2": log(claim.value, claim.against_value)}
    assert fates(name, as_published, few=True) == ["holds"]
    assert fates(name, {}, few=True) == ["holds"]
    assert fates(name, {"external-2": {"effect": -0.05}}, few=True) == ["contradicted"]
    assert fates(name, {"external-2": {"effect": -0.02}}, few=True) == ["undecided"]
    assert fates(name, {}, few=True, offered=25_000.0) == ["unchecked"]  # as in the article: all that was offered


def test_article_balancer_numbers_match_the_printed_output() -> None:
    report = (ROOT / "studies/lb-vs-single/published-httperf.stdout").read_text(encoding="utf-8")
    for name in ("lb-vs-single", "lb-vs-single-article"):
        claim = read_study(ROOT / "studies" / f"{name}.toml").published.claims[0]
        assert f"Request rate: {claim.value} req/s" in report
        assert f"Errors: total {claim.errors} " in report


def test_article_claims_of_the_backend_study() -> None:
    rows = list(csv.DictReader((ROOT / "studies/backend-modes/published.csv").open(encoding="utf-8")))
    modes = {"static": "static", "fastcgi": "fastcgi", "http_proxy": "proxy", "http_proxy_keepalive": "pooled"}
    place = {"local-keepalive-c100": "near", "remote-100ms-no-keepalive-c10000": "remote"}
    rate = {f"{place[r['scenario']]}-{modes[r['mode']]}": float(r["requests_per_s"]) for r in rows}
    as_published = {name: log(value, rate["remote-static"]) for name, value in rate.items()}
    assert fates("backend-modes", as_published) == ["holds", "holds", "holds"]
    assert fates("backend-modes", {}) == ["contradicted", "contradicted", "contradicted"]
    for claim in read("backend-modes").published.claims:
        assert (claim.value, claim.against_value) == (rate[claim.treatment], rate[claim.against])


def test_article_claims_of_the_cpu_affinity_study() -> None:
    assert fates("cpu-affinity", {}) == ["holds"]
    assert fates("cpu-affinity", {"separate": log(1550, 1592) | {"sd": 0.04}}) == ["undecided"]
    assert fates("cpu-affinity", {"separate": {"effect": -0.09}}) == ["contradicted"]
    (claim,) = read("cpu-affinity").published.claims
    for name, value in (("shared", claim.value), ("separate", claim.against_value)):
        assert f", {value:.0f} req/s" in (ROOT / f"studies/cpu-affinity/weighttp-{name}-cores.stdout").read_text()


def sized(gbits: dict[int, float], four: float = 0.0) -> dict[str, dict[str, float]]:
    """Pages per second of sizes from 64 KB, by the Gbit/s that they carry; four nodes have `four` (log) more."""
    logs = {size: math.log(gbits[size] * 1e9 / 8 / size / 40_000) for size in PAGES}
    two = {f"{size}-large-two": {"effect": log} for size, log in logs.items()}
    return two | {f"{size}-large-four": {"effect": log + four} for size, log in logs.items()}


def test_article_claims_of_the_page_size_study() -> None:
    ceiling = sized(dict.fromkeys(PAGES, 2.5))
    balancers = {"128-small-two": {"effect": -0.3}, "128-large-two": {"effect": 0.2, "failing": 0.9}}
    untraced = ["unchecked"] * 3  # nobody watches the hosts of a simulated run
    assert fates("page-size-tps", ceiling | balancers, few=True) == ["holds"] * 5 + untraced
    assert fates("page-size-tps", {}, few=True) == [
        "contradicted", "contradicted", "contradicted", "holds", "unchecked", *untraced,
    ]  # fmt: skip


def test_article_claims_about_rates_below_saturation_are_undecided() -> None:
    """1 Gbit/s at 64 KB and 2.5 at 512 KB: bytes per second still rise, and the nodes may differ where they do."""
    rising = sized(dict(zip(PAGES, (1.0, 1.36, 2.5), strict=True)), four=0.1)
    assert fates("page-size-tps", rising, few=True)[2:4] == ["contradicted", "contradicted"]


def test_article_claims_of_the_directive_sequence() -> None:
    rows = {r["treatment"]: r for r in csv.DictReader((ROOT / "studies/nginx-directives/published.csv").open())}
    base = float(rows["baseline-auto"]["requests_per_s"])
    truth = {name: log(float(r["requests_per_s"]), base) for name, r in rows.items()}
    failing = {name: {"failing": float(int(r["errors_total"]) > 5_000)} for name, r in rows.items()}
    arms = {name: truth[name] | failing[name] for name in rows}
    claims = [claim.claim for claim in read("nginx-directives").published.claims]
    found = dict(zip(claims, fates("nginx-directives", arms), strict=True))
    assert found == {
        "tcp_nopush helps most": "holds",
        "tcp_nopush makes errors fewer": "holds",  # both have some in every trial, fewer of its more requests fail
        "tcp_nodelay helps too": "holds",
        "one worker or two hardly differ": "undecided",  # 1.8 % is too near to the margin for 12 blocks
        "multi_accept brings errors": "contradicted",
        "use epoll removes the errors of multi_accept": "unchecked",
        "1024 connections are best": "undecided",  # the article never ran 2048 alone: taken as equal here
        "the first of its ranking is the fastest of ten": "contradicted",  # 0.2 % ahead of the second: no lead
        "the first of its ranking is faster than the baseline": "holds",
    }


def test_article_claim_numbers_occur_in_the_published_file() -> None:
    rows = {r["treatment"]: r for r in csv.DictReader((ROOT / "studies/nginx-directives/published.csv").open())}
    for claim in read("nginx-directives").published.claims:
        for name, value, errors in (
            (claim.treatment, claim.value, claim.errors),
            (claim.against, claim.against_value, claim.against_errors),
        ):
            assert (float(rows[name]["requests_per_s"]), int(rows[name]["errors_total"])) == (value, errors)


@pytest.mark.parametrize(("failing", "fate"), [(1.0, "holds"), (0.0, "contradicted")])
def test_article_claims_of_the_factorial_study(failing: float, fate: str) -> None:
    study = read("nginx-screening")
    broken = [n for n in study.treatments if study.levels_of(n)["multi_accept"] == "on"]
    alone = [n for n in broken if study.levels_of(n)["use_epoll"] == "unset"]
    assert len(alone) == 4
    assert fates("nginx-screening", {n: {"failing": failing} for n in alone}, blocks=8) == [fate]


def test_article_claims_of_the_whole_file_study() -> None:
    """The rate by 16 % up and p99 by 40 % down; this run has no p50, which is said instead of guessed."""
    after = log(14_377.90, 12_408.57)
    tail = {"tail": 15.69 / 26.30 * math.exp(after["effect"])}
    assert fates("nginx-whole-file", {"after": after | tail}, few=True) == ["holds", "unchecked", "holds"]


def test_article_files_lie_beside_their_study() -> None:
    reported = {path.stem: read(path.stem).published for path in study_files(ROOT / "studies")}
    named = [(study, printed.file) for study, printed in reported.items() if printed and printed.file]
    files = [(study, name) for study, file in named for name in ([file] if isinstance(file, str) else file)]
    assert len(files) > len(named)
    assert [(study, name) for study, name in files if not (ROOT / "studies" / name).is_file()] == []
