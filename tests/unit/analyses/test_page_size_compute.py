"""The two-regime curve on data of known costs: do its intervals cover, and what does it refuse to say?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import TwoRegimeCurve, analyse_page_sizes, fit_curve, page_size_series
from page_size_runs import EIGHT, HOSTS, LINK_BYTES_PER_S, PER_REQUEST_S, sized_run, sized_study
from run_records import make_run_record, plan_of

A, KNEE = 1 / 2000, 65_536
TIER_SIZES = (128, 8192, 32_768, 65_536, 262_144, 524_288)
FOUR = (128, 8192, 65_536, 524_288)


def rates(blocks: int, sizes, rng, *, knee: float = KNEE, sd: float = 0.04, missing: float = 0.0):
    """Rates of the model: noise of every trial, and what all trials of a block share."""
    found: dict[float, dict[object, float]] = {float(s): {} for s in sizes}
    for block in range(blocks):
        shared = rng.normal(0, 0.05)
        for size in sizes:
            if rng.random() >= missing:
                found[size][block] = math.exp(shared + rng.normal(0, sd)) / (A * (1 + size / knee))
    return found


def curve(values, **more) -> TwoRegimeCurve:
    fit = fit_curve(values, **more)
    assert isinstance(fit, TwoRegimeCurve), fit
    return fit


@pytest.mark.parametrize(
    ("blocks", "sizes", "missing"), [(6, FOUR, 0.0), (10, FOUR, 0.05)], ids=["smoke", "trials lost"]
)
def test_page_size_curve_intervals_cover_the_truth(blocks: int, sizes: tuple[int, ...], missing: float) -> None:
    """95 % of 120 studies, less two standard errors; benchmarks/regimes.py has 2,000 of each kind."""
    rng, hits, studies = np.random.default_rng(11), np.zeros(4), 120
    truths = (A, A / KNEE, KNEE, 1 / (A * (1 + 40_000 / KNEE)))
    for _ in range(studies):
        fit = curve(rates(blocks, sizes, rng, missing=missing))
        found = (fit.per_request_s, fit.per_byte_s, fit.knee_b, fit.rate_at(40_000))
        hits += [e.interval[0] <= truth <= e.interval[1] for e, truth in zip(found, truths, strict=True)]
    assert (hits / studies >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / studies)).all(), hits / studies


def test_page_size_curve_without_noise_recovers_its_parameters() -> None:
    fit = curve(rates(5, EIGHT, np.random.default_rng(1), sd=0.0))
    assert fit.knee_b.value == pytest.approx(KNEE, rel=1e-4)
    assert fit.knee_b.interval[1] / fit.knee_b.interval[0] < 1.001  # what blocks share does not move the knee
    assert fit.rate_at(KNEE).value == pytest.approx(1 / (2 * A), rel=0.15)
    assert fit.ceiling_bytes_per_s.value == pytest.approx(1 / fit.per_byte_s.value)
    assert all(found.value == pytest.approx(1, abs=1e-3) for found in fit.misfits.values())


@settings(max_examples=examples(25), deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_page_size_knee_is_independent_of_machine_speed(factor: float, seed: int) -> None:
    values = rates(6, FOUR, np.random.default_rng(seed))
    fit = curve(values)
    other = curve({size: {b: v * factor for b, v in own.items()} for size, own in values.items()})
    assert other.knee_b.value == pytest.approx(fit.knee_b.value, rel=1e-3)
    assert other.per_request_s.value * factor == pytest.approx(fit.per_request_s.value, rel=1e-3)


@pytest.mark.parametrize(("knee", "seen"), [(1e9, "request"), (2.0, "byte"), (KNEE, "both")])
def test_page_size_knee_outside_the_sizes_is_not_reported(knee: float, seen: str) -> None:
    fit = curve(rates(8, EIGHT, np.random.default_rng(2), knee=knee))
    assert fit.visible_regime == seen
    printed = words.curve_sentence(fit)
    expected = {
        "request": "the cost per request rules; both costs are equal beyond",
        "byte": "the cost per byte rules from 128", "both": "bytes cost more than the request",
    }  # fmt: skip
    assert expected[seen] in printed.replace("\xa0", " ")
    assert ("approaches" in printed) == (seen != "request")
    assert words.knee_text(fit).startswith({"request": "beyond ", "byte": "below ", "both": ""}[seen])


def test_page_size_curve_reports_a_poor_fit() -> None:
    rng = np.random.default_rng(3)
    values = rates(10, EIGHT, rng, sd=0.02)
    values[131_072.0] = {block: rate * 0.6 for block, rate in values[131_072.0].items()}
    fit = curve(values)
    assert fit.misfits[131_072.0].interval[1] < 0.9
    assert "too simple here" in words.misfit_sentence(fit) and "128" in words.largest_misfit_text(fit)
    assert words.misfit_sentence(curve(rates(10, EIGHT, rng, sd=0.02))) == ""


def test_page_size_curve_needs_enough_sizes() -> None:
    rng = np.random.default_rng(4)
    assert "2 of 2 sizes have 5 trials" in str(fit_curve(rates(8, FOUR[:2], rng)))
    assert "0 of 4 sizes have 5 trials" in str(fit_curve(rates(4, FOUR, rng)))
    disjoint: dict[float, dict[object, float]] = {
        float(size): {5 * k + b: 100.0 for b in range(5)} for k, size in enumerate(FOUR)
    }
    assert "only 0 blocks have two sizes" in str(fit_curve(disjoint))


def test_page_size_series_contain_treatments_that_differ_in_size_only() -> None:
    study = sized_study()
    series = page_size_series(study, study.treatments)
    assert [one.name for one in series] == [
        "small balancer, 2 nodes", "small balancer, 4 nodes", "large balancer, 2 nodes", "large balancer, 4 nodes",
    ]  # fmt: skip
    assert all(list(one.arms) == list(EIGHT) for one in series)
    assert "again" not in {arm for one in series for arm in one.arms.values()}
    plain = sized_study(balancers=("large",), tiers=(2,))
    assert [one.name for one in page_size_series(plain, plain.treatments)] == ["all arms"]
    assert (study.page_size_factor, study.page_bytes(series[0].arms[2048])) == ("page_bytes", 2048)
    assert study.first_same_page(series[3].arms[2048]) == series[0].arms[2048]


def test_page_size_reports_network_limit_and_equivalent_tiers() -> None:
    found = analyse_page_sizes(sized_run(sized_study(sizes=TIER_SIZES), failing=0.6), "ok_per_s")  # type: ignore[arg-type]
    by_name = {one.name: one for one in found.series}
    assert found.network_limited_from(by_name["large balancer, 2 nodes"]) == 262_144
    assert found.network_limited_from(by_name["small balancer, 2 nodes"]) is None
    large = found.curves["large balancer, 2 nodes"]
    assert large.per_request_s.interval[0] < PER_REQUEST_S["large"] < large.per_request_s.interval[1]
    assert large.ceiling_bytes_per_s.value == pytest.approx(LINK_BYTES_PER_S, rel=0.03)
    assert found.link_bytes_per_s == LINK_BYTES_PER_S
    assert found.tiers and [pair.converge_from_b for pair in found.tiers.pairs] == [65_536, 65_536]
    assert {name: found.errors[name].kind for name in found.errors} == {"2 nodes": "baseline", "4 nodes": "fewer"}
    printed = words.headline(found).replace("\xa0", " ")
    assert printed == "From 256 KiB on the network is the limit (large balancer); never for 2 of 4 curves."
    nowhere = replace(found, bottlenecks=dict.fromkeys(found.bottlenecks, "C"))
    assert "At no size up to 512 KiB is the network the limit: the balancer CPU is full at 24 of 24 points" in (
        words.headline(nowhere).replace("\xa0", " ")
    )
    assert words.headline(replace(found, bottlenecks={})).startswith("Not known")
    assert "80 % of the link" not in words.bandwidth_headline(found)
    assert words.bandwidth_headline(found).endswith("of the link.")


def test_page_size_limit_is_unknown_with_few_valid_trials() -> None:
    """Of the article's tool in a small lab: the driver was full in most trials, and the page spoke of the network."""
    run = sized_run(sized_study(sizes=TIER_SIZES))
    late = run.trials["block"] > 4
    few = replace(run, trials=run.trials.assign(valid=run.trials["valid"] & ~late))
    found = analyse_page_sizes(few, "ok_per_s")  # type: ignore[arg-type]
    assert (words.headline(found), words.network_limit_text(found)) == (
        "No answer: at no size do 5 trials count.",
        "not known",
    )
    large = run.trials["treatment"].str.startswith("524288")
    short = analyse_page_sizes(
        replace(run, trials=run.trials.assign(valid=run.trials["valid"] & ~(late & large))),  # type: ignore[arg-type]
        "ok_per_s",
    )
    nowhere = replace(short, bottlenecks=dict.fromkeys(short.bottlenecks, "C"))
    assert words.headline(nowhere).replace("\xa0", " ").startswith("At no size up to 256 KiB is the network")


def test_page_size_analysis_of_a_subset_ignores_factors_with_one_level() -> None:
    """As a smoke variant is: one tier of two, one balancer of two."""
    study = sized_study(FOUR, blocks=5)
    part = [name for name in study.treatments if name.endswith("-large-2")]
    run = sized_run(study)
    run.trials = run.trials[run.trials["treatment"].isin(part)].reset_index(drop=True)
    found = analyse_page_sizes(replace(run, plan=plan_of(treatments=tuple(part), blocks=5)), "ok_per_s")  # type: ignore[arg-type]
    assert (found.tiers, found.errors, list(found.curves)) == (None, {}, ["all arms"])


@pytest.mark.parametrize(("balancer", "web", "letter"), [(0.6, 0.2, "C"), (0.2, 0.6, "W")])
def test_page_size_attributes_a_shared_full_core_by_process_cpu(balancer: float, web: float, letter: str) -> None:
    run = sized_run(sized_study(FOUR, ("large",), (2,), blocks=5), watched=False)
    one_core = {n: h.model_copy(update={"cpus": [min((h.cpus or [1])[0], 1)]}) for n, h in HOSTS.items()}
    run.run_record = make_run_record(lab=True, hosts=one_core)
    rows = [
        {"trial": trial, "host": host, "role": "", "t_s": t, "unit": "1", "metric": metric, "item": item, "value": v}
        for trial in run.trials["trial"] for t in (0.5, 1.0, 1.5)
        for host, own in (("lb", balancer), ("www", web))
        for metric, item, v in (("cpu_busy", "cpu1", 0.99), ("process_cpu", "p:1", own))
    ]  # fmt: skip
    found = analyse_page_sizes(replace(run, traces=pd.DataFrame(rows)), "ok_per_s")  # type: ignore[arg-type]
    assert set(found.bottlenecks.values()) == {letter}


@pytest.mark.parametrize(("size", "text"), [(128, "128 B"), (65_536, "64 KiB"), (1500, "1.5 KiB"), (2**20, "1 MiB")])
def test_page_sizes_are_printed_in_binary_units(size: float, text: str) -> None:
    assert words.size_text(size).replace("\xa0", " ") == text
    assert words.tick_text(size).replace("\xa0", " ") == text.replace("iB", "")
