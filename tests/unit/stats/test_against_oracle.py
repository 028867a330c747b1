"""Hundreds of nasty tables: what `loadbook compare --json` prints is what the definition, by brute force, says."""

import csv
import io
import json
import math
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compare_command import loadbook

import comparison_oracle
from effort import examples
from loadbook.stats.compare import compare, compare_declared
from loadbook.stats.verdict import decide_verdict
from trial_frames import frame

MARGIN = 0.02
NAMES = ["base", "B", "tcp_nopush on", "epoll, multi_accept", 'a "quoted" one', "größer 日本", "1", "t 7", "$x<b>"]
BLOCKS = [str, lambda k: f"block {k}", lambda k: f"{k + 1:02}", lambda k: "zyxwvutsrqpo"[k]]
UNUSABLE = ["0", "-3.5", "", "NaN", "inf", "0.0", "null"]
NOISE = {
    "independent": lambda rng, n: rng.normal(0, 0.01, n),
    "uneven": lambda rng, n: rng.normal(0, 0.04, n),
    "stalls": lambda rng, n: rng.normal(0, 0.005, n) - rng.exponential(0.15, n) * (rng.random(n) < 0.1),
    "two modes": lambda rng, n: rng.normal(0, 0.003, n) - 0.06 * (rng.random(n) < 0.3),
}


@st.composite
def tables(draw, blocks=(1, 10), arms=(1, 4)):
    """Trials by (treatment, block) as the texts of a CSV file; some are not there, some have no logarithm."""
    n, k = draw(st.integers(*blocks)), draw(st.integers(*arms))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    digits = draw(st.sampled_from([8, 3, 1, 0]))  # few digits make ties
    drift, holes = rng.normal(0, 0.05, n) * draw(st.booleans()), draw(st.sampled_from([0.0, 0.02, 0.15]))
    cells = {}
    for name in NAMES[: k + 1]:
        effect = 0.0 if name == "base" else draw(st.sampled_from([0.0, 0.004, -0.02, 0.06]))
        logs = drift + effect + NOISE[draw(st.sampled_from(sorted(NOISE)))](rng, n)
        for block, value in enumerate(100 * np.exp(logs)):
            if rng.random() >= holes / 2 or block == 0:
                cells[name, block] = draw(st.sampled_from(UNUSABLE)) if rng.random() < holes else f"{value:.{digits}f}"
    return cells


def written(cells, metric, *, seed=0, block=str, dialect="plain"):
    """Return the trials as the bytes of a CSV file, in random order, with columns that nobody asked for."""
    rows = [[name, "x;y", block(k), text, "3"] for (name, k), text in cells.items()]
    first = rows.pop(0)
    random.Random(seed).shuffle(rows)
    out = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if dialect == "quoted" else csv.QUOTE_MINIMAL
    writer = csv.writer(out, quoting=quoting, lineterminator="\r\n" if dialect != "plain" else "\n")  # type: ignore[arg-type]
    writer.writerows([["arm", "note", "round", metric, "n"], first, *rows])
    return out.getvalue().encode("utf-8-sig" if dialect != "plain" else "utf-8")


def requested(path, metric="ok_per_s"):
    """Return the JSON of the command line."""
    done = loadbook("compare", path, "--by", "arm", "--block", "round", "--metric", metric, "--baseline", "base",
                    "--margin", MARGIN, "--json")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout, parse_constant=pytest.fail)


def check(found, expected):
    """Hold one comparison of the JSON against what was expected of it."""
    assert (found["blocks"], found["verdict"]) == (expected.blocks, expected.verdict)
    assert isinstance(found["sentence"], str)
    assert found["flags"] or expected.blocks == expected.planned
    if expected.verdict == "invalid":
        assert found["sentence"].startswith("invalid: ")
        assert (found["p_adjusted"], found["more_blocks"]) == (None, None)
        assert expected.blocks >= 5 or (found["method"], found["p"], found["ci95"], found["ci90"]) == (None,) * 4
        return
    assert found["method"] == expected.method
    assert found["effect"] == pytest.approx(math.expm1(expected.estimate), abs=1e-9)
    assert found["p"] == pytest.approx(expected.p, abs=1e-9)
    assert found["p_adjusted"] == pytest.approx(expected.p_adjusted, abs=1e-9)
    assert found["more_blocks"] == (list(expected.more) if expected.more else None)
    for name in ("ci95", "ci90"):
        assert found[name] == pytest.approx([math.expm1(end) for end in getattr(expected, name)], abs=1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(
    tables(),
    st.sampled_from(["ok_per_s", "latency", "latency_p99_ms", "req/s"]),
    st.sampled_from(["plain", "quoted", "crlf"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_compare_json_equals_a_brute_force_computation(tmp_path_factory, cells, metric, dialect, naming, seed) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(written(cells, metric, seed=seed, block=BLOCKS[naming], dialect=dialect))
    found = {c["treatment"]: c for c in requested(path, metric)["comparisons"]}
    expected = {
        one.treatment: one for one in comparison_oracle.table(cells, "base", MARGIN, higher="latency" not in metric)
    }
    assert list(found) and set(found) == set(expected)
    for name, one in expected.items():
        check(found[name], one)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("blocks", [11, 12])
def test_compare_enumerates_all_permutations_up_to_twelve_blocks(blocks: int, seed: int, tmp_path) -> None:
    rng = np.random.default_rng(seed)
    noise = sorted(NOISE)[seed % len(NOISE)]
    drift = rng.normal(0, 0.03, blocks)
    arms = {"base": drift + NOISE["independent"](rng, blocks), "B": drift + 0.01 + NOISE[noise](rng, blocks)}
    cells = {
        (name, k): f"{100 * math.exp(log):.{1 + seed}f}" for name, logs in arms.items() for k, log in enumerate(logs)
    }
    (tmp_path / "t.csv").write_bytes(written(cells, "ok_per_s"))
    (found,), (expected,) = requested(tmp_path / "t.csv")["comparisons"], comparison_oracle.table(cells, "base", MARGIN)
    check(found, expected)


@pytest.mark.parametrize("spread", [1, 4])
@pytest.mark.parametrize("blocks", [13, 15])
def test_sampled_permutations_approximate_all_permutations(blocks: int, spread: int) -> None:
    rng = np.random.default_rng(blocks)
    drift = rng.normal(0, 0.03, blocks) * (spread == 1)
    a, b = drift + rng.normal(0, 0.01, blocks), drift + 0.01 + rng.normal(0, 0.01 * spread, blocks)
    found = compare(frame({"a": np.exp(a), "b": np.exp(b)}), "b", "a")
    assert found.method == comparison_oracle.method_of(a, b) == ("signed-rank" if spread == 4 else "blocked-rank")
    parts = comparison_oracle.signed_parts if spread == 4 else comparison_oracle.rank_parts
    assert found.p == pytest.approx(comparison_oracle.two_sided(parts(a, b)), abs=0.015)
    for alpha, (low, high) in {0.05: found.ci95, 0.10: found.ci90}.items():
        for end, outwards in ((math.log1p(low), -1e-9), (math.log1p(high), 1e-9)):
            beyond, within = (comparison_oracle.two_sided(parts(a, b - end - step)) for step in (outwards, -outwards))
            assert beyond - 0.01 <= alpha <= within + 0.01


@pytest.mark.parametrize("blocks", [8, 13])
def test_compare_adjusts_p_for_all_nineteen_treatments_together(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    arms = {f"t{k}": 100 * np.exp(rng.normal(0.03 * (k == 3), 0.01, blocks)) for k in range(20)}
    cells = {(name, k): value for name, values in arms.items() for k, value in enumerate(values)}
    found = {c.treatment: c for c in compare_declared(frame(arms), "t0", list(arms)[1:], "baseline").comparisons}
    family = [comparison_oracle.compare(cells, name, "t0", list(range(blocks))) for name in list(arms)[1:]]
    for one in family:
        if one.p is not None:  # the oracle adjusts plain p exactly; for 13 blocks ours are drawn
            one.p = found[one.treatment].p
    comparison_oracle.adjust(family)
    off = 1e-9 if blocks == 8 else 0.02
    assert [found[one.treatment].p_adjusted for one in family] == pytest.approx([o.p_adjusted for o in family], abs=off)


@settings(max_examples=examples(15), deadline=None)
@given(tables(blocks=(5, 9)), st.sampled_from([0.001, 7.0]), st.randoms(use_true_random=False))
def test_compare_is_invariant_to_unit_names_and_block_order(cells, factor: float, shuffled) -> None:
    """What a comparison says depends on neither the unit, nor what blocks are called, nor where they stand."""
    check_invariance(cells, factor, shuffled)


def test_interval_ending_at_the_margin_gives_the_same_verdict_in_every_unit() -> None:
    """102 against 100 is the margin itself; in thousandths it is rounded to the other side."""
    base, b = [99, 98, 100, 100, 101, 99, 101, 101], [100, 100, 100, 94, 100, 100, 100, 100]
    arms = {"base": base, "B": b, "tcp_nopush on": [101, 100, 101, 102, 100, 99, 99, 100]}
    cells = {(name, k): str(value) for name, values in arms.items() for k, value in enumerate(values)}
    for factor in (0.001, 7.0, 1e-9, 1e9):
        check_invariance(cells, factor, random.Random(1))


def check_invariance(cells, factor: float, shuffled) -> None:
    """Compare the verdicts with those of the same table in another unit, with blocks renamed and rows shuffled."""
    blocks = sorted({block for _, block in cells})
    renamed = dict(zip(blocks, shuffled.sample([f"b{k}" for k in blocks], len(blocks)), strict=True))
    one = assessed([(name, block, number(text)) for (name, block), text in cells.items()])
    rows = [(name, renamed[block], factor * number(text)) for (name, block), text in cells.items()]
    shuffled.shuffle(rows)
    other = assessed(rows)
    assert one.keys() == other.keys()
    for printed, numbers in one.items():
        assert other[printed] == pytest.approx(numbers, abs=1e-9)


def number(text: str) -> float:
    return math.nan if text in ("", "null") else float(text)


def assessed(rows) -> dict:
    """Return verdict and method of every treatment, and its numbers."""
    values = pd.DataFrame(rows, columns=["treatment", "block", "value"])
    names = sorted(set(values["treatment"]) - {"base"})
    found = {}
    for verdict in (decide_verdict(c, MARGIN) for c in compare_declared(values, "base", names, "baseline").comparisons):
        one = verdict.comparison
        intervals = [*(one.ci95 or ()), *(one.ci90 or ()), *(one.ci_family or ())]
        known = [x for x in (one.p, one.p_adjusted, one.effect, *intervals) if x is not None]
        found[one.treatment, verdict.kind, one.method, one.blocks] = known
    return found
