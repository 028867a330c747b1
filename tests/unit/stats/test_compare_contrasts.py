"""What is compared with what: ladders, every arm against the best one, one-sided questions; on tables of one's own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import exit_code
from effort import examples
from loadbook.stats.compare import (
    compare,
    compare_contrasts,
    compare_declared,
    compare_with_best,
    find_best_arm,
    step_down_p,
)
from loadbook.stats.paired_tests import PairedLogs, pair_arms, rank_differences
from trial_frames import frame, noisy

LADDER = {"base": 0.0, "one": 0.03, "two": 0.031, "three": 0.07}
RUNGS = [("one", "base"), ("two", "one"), ("three", "two")]


def rungs(values) -> list:
    return compare_declared(values, "base", ["one", "two", "three"], "adjacent").comparisons


def test_adjacent_contrasts_compare_each_treatment_with_the_previous() -> None:
    values = noisy(10, LADDER)
    found = rungs(values)
    assert [(c.treatment, c.baseline) for c in found] == RUNGS
    for one in found:
        alone = compare(values, one.treatment, one.baseline)
        assert (one.p, one.effect, one.ci95) == (alone.p, alone.effect, alone.ci95)
        assert one.p_adjusted >= one.p and one.family_size == 3


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(8, 12), st.integers(0, 1000))
def test_reversed_adjacent_contrasts_have_opposite_sign_and_equal_p(blocks: int, seed: int) -> None:
    values = noisy(blocks, LADDER, seed=seed)
    up = rungs(values)
    down = compare_declared(values, "three", ["two", "one", "base"], "adjacent").comparisons[::-1]
    for one, other in zip(up, down, strict=True):
        assert (one.treatment, one.baseline) == (other.baseline, other.treatment)
        assert (1 + one.effect) * (1 + other.effect) == pytest.approx(1)
        assert (one.p, one.p_adjusted) == pytest.approx((other.p, other.p_adjusted))


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(8, 12), st.integers(0, 1000), st.permutations(["one", "two", "three"]))
def test_best_arm_is_independent_of_order_and_unit(blocks: int, seed: int, order) -> None:
    values = noisy(blocks, LADDER, seed=seed)
    first = compare_with_best(values, list(LADDER), "base")
    other = compare_with_best(values.assign(value=values["value"] * 1e-3), ["base", *order], "base")
    assert (first.reference, set(first.best_arm.tied)) == (other.reference, set(other.best_arm.tied))
    p = {c.treatment: c.p_adjusted for c in first.comparisons}
    assert {c.treatment: c.p_adjusted for c in other.comparisons} == pytest.approx(p)


def test_permutations_swap_labels_of_a_block_in_all_adjacent_comparisons_alike() -> None:
    """Every sign vector one by one, the same sign for both comparisons of an arm that stands in two."""
    values = noisy(9, LADDER, seed=4)
    z = []
    for one, other in RUNGS:
        found = pair_arms(values, one, other)
        d = rank_differences(found.base, found.other)
        z.append(d / np.sqrt((d**2).sum()))
    z = np.array(z)  # type: ignore[assignment]
    observed, signs = np.abs(z.sum(axis=1)), np.array(list(itertools.product([1, -1], repeat=9)))  # type: ignore[attr-defined]
    order, expected, last = np.argsort(-observed), np.empty(3), 0.0
    for rank, k in enumerate(order):
        largest = np.abs(signs @ z[order[rank:]].T).max(axis=1)
        last = expected[k] = max(last, float((largest >= observed[k] - 1e-9).mean()))
    assert step_down_p([pair_arms(values, *r) for r in RUNGS]) == pytest.approx(list(expected))


@pytest.mark.parametrize("steps", [{}, {2: 0.03, 4: 0.03}], ids=["no step", "two steps"])
def test_adjacent_contrasts_have_at_most_five_percent_false_alarms_in_a_family(steps: dict[int, float]) -> None:
    """Noise shared by blocks and drift within them; 400 studies of 10 blocks and 6 rungs: 5 % are 20, sd 4.4."""
    rng, arms, wrong = np.random.default_rng(3), 6, 0
    effects = np.cumsum([steps.get(k, 0.0) for k in range(arms)])
    for _ in range(400):
        values = rng.normal(0, 0.02, (10, 1)) + rng.normal(0, 0.01, (10, arms)) + effects
        pairs = [
            PairedLogs(str(k), str(k - 1), tuple(range(10)), values[:, k - 1], values[:, k], 0, 0)
            for k in range(1, arms)
        ]
        wrong += any(p < 0.05 for k, p in enumerate(step_down_p(pairs), 1) if k not in steps)
    assert wrong <= 34


def test_best_arm_is_named_only_if_it_beats_every_other() -> None:
    arms = {"base": 0.0, "x": 0.06, "y": 0.03, "z": -0.03}
    found = compare_with_best(noisy(12, arms), list(arms), "base")
    assert (found.reference, found.best_arm.best, found.best_arm.tied) == ("x", "x", ())
    assert [(c.treatment, c.baseline) for c in found.comparisons] == [("base", "x"), ("y", "x"), ("z", "x")]
    assert {c.p_adjusted for c in found.comparisons} == {max(c.p for c in found.comparisons)}
    down = compare_with_best(noisy(12, arms), list(arms), "base", better="lower")
    assert (down.reference, down.best_arm.best) == ("z", "z")


def test_p_of_arms_that_are_not_best_is_adjusted_for_all_their_comparisons() -> None:
    arms = {"base": 0.0, "x": 0.06, "y": 0.0601, "z": 0.045}
    values = noisy(12, arms, sd=0.012, seed=3)
    found = compare_with_best(values, list(arms), "base")
    assert found.best_arm.best is None
    for one in found.comparisons:
        others = [name for name in arms if name != one.treatment]
        family = dict(zip(others, step_down_p([pair_arms(values, o, one.treatment) for o in others]), strict=True))
        assert one.p_adjusted == pytest.approx(max(one.p, family[found.reference]))
    behind = [c.treatment for c in found.comparisons if c.p_adjusted < 0.05]
    assert set(found.best_arm.tied) == set(arms) - set(behind)


def test_ties_beat_the_rest_only_if_each_of_them_does() -> None:
    """The arm observed best beats `z`, and the one tied with it does not."""
    values = noisy(10, {"base": 0, "x": 0.06, "y": 0.045, "z": 0.035, "w": 0.03}, sd=0.012, seed=4)
    found = find_best_arm(values, ["base", "x", "y", "z", "w"], "base")
    assert found == (None, ("x", "y"), False)
    clear = find_best_arm(values, ["base", "x", "y"], "base")
    assert clear == (None, ("x", "y"), True)


@pytest.mark.parametrize("seed", range(12))
def test_adjusted_p_is_never_below_the_plain_one_where_arms_scatter_differently(seed: int) -> None:
    """These are compared by signed ranks, whose p can exceed that of the family's shared permutations."""
    values = noisy(12, {"base": 0, "x": 0.01, "y": 0.012}, sd=0.012, seed=seed)
    own = values["treatment"] == "y"
    values.loc[own, "value"] *= np.exp(np.random.default_rng(1000 + seed).normal(0, 0.05, own.sum()))
    best = compare_with_best(values, ["base", "x", "y"], "base")
    for one in (*compare_contrasts(values, [("x", "base"), ("y", "base")]), *best.comparisons):
        assert one.p_adjusted >= one.p


def test_best_of_only_two_arms_is_compared_with_the_baseline() -> None:
    values = noisy(12, {"base": 0, "x": 0.1})
    found = compare_declared(values, "base", ["x"], "best")
    assert (found.reference, found.best_arm, found.comparisons[0].baseline) == ("base", None, "base")
    assert compare_with_best(noisy(4, LADDER), list(LADDER), "base") is None


def test_invalid_arm_cannot_be_best() -> None:
    values = noisy(12, {"base": 0, "x": 0.2, "y": 0.05, "z": 0.0})
    found = compare_declared(values, "base", ["x", "y", "z"], "best", comparable=lambda c: c.treatment != "x")
    assert found.reference == "y"
    assert {(c.treatment, c.baseline) for c in found.comparisons} == {("base", "y"), ("z", "y"), ("x", "y")}


@pytest.mark.parametrize(("effects", "limit"), [((0.0, 0.0, 0.0, 0.0), 1), ((0.0, 0.0, 0.03, 0.03), 6)])
def test_wrong_claims_of_a_best_arm_are_rare(effects: tuple[float, ...], limit: int) -> None:
    """40 studies of 10 blocks: all equal, and two tied leaders (5 % are 2, sd 1.4)."""
    rng, names, wrong = np.random.default_rng(8), list("abcd"), 0
    for _ in range(40):
        logs = rng.normal(0, 0.01, (4, 10)) + np.array(effects)[:, None]
        values = frame({name: np.exp(own) for name, own in zip(names, logs, strict=True)})
        wrong += find_best_arm(values, names, "a").best is not None
    assert wrong <= limit


def test_arms_with_equal_values_are_all_tied() -> None:
    same = [5.0, 6.0] * 5
    found = compare_with_best(frame(dict.fromkeys("abc", same)), list("abc"), "a")
    assert (found.best_arm.best, len(found.best_arm.tied), found.best_arm.ties_beat_rest) == (None, 3, False)


def test_arm_with_too_few_common_blocks_counts_as_tied() -> None:
    values = noisy(12, {"base": 0, "x": 0.1, "y": 0.05})
    away = ((values["treatment"] == "x") & (values["block"] > 6)) | (
        (values["treatment"] == "y") & (values["block"] < 7)
    )
    found = compare_with_best(values[~away], ["base", "x", "y"], "base")
    other = next(c for c in found.comparisons if c.treatment == "y")
    assert (found.reference, other.blocks, other.p, other.p_adjusted) == ("x", 0, None, None)
    assert "y" in found.best_arm.tied


# `loadbook compare`


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "a.csv"
    arms = {"base": 0.0, "fast": 0.06, "more": 0.0602, "slow": -0.05}
    noisy(12, arms, sd=0.004).rename(columns={"value": "ok_per_s"}).to_csv(path, index=False)
    return path


@pytest.fixture
def table(csv, capsys, monkeypatch) -> Callable[..., SimpleNamespace]:
    """`loadbook compare` on the table with these options."""

    def run(*options: object) -> SimpleNamespace:
        code = exit_code(monkeypatch, "compare", str(csv), "--baseline", "base", *map(str, options))
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, stdout=printed.out, stderr=printed.err)

    return run


@pytest.fixture
def requested(table) -> Callable[..., dict]:
    """The JSON of `loadbook compare` with a margin of 2 %."""
    return lambda *options: json.loads(table("--margin", 0.02, "--json", *options).stdout)


def test_compare_json_of_default_contrasts_has_no_extra_keys(requested) -> None:
    default, printed = requested(), requested("--contrasts", "baseline")
    assert default == printed
    assert "against" not in default["comparisons"][0] and "best" not in default


def test_compare_adjacent_states_the_reference_of_each_comparison(requested, table) -> None:
    found = requested("--contrasts", "adjacent")["comparisons"]
    assert [(c["treatment"], c["against"]) for c in found] == [("fast", "base"), ("more", "fast"), ("slow", "more")]
    assert found[0]["sentence"].startswith("faster than base by ")
    assert found[1]["sentence"].startswith("no difference from fast larger than 2% (equivalent; ")
    text = table("--contrasts", "adjacent").stdout
    assert "slow: slower than more by " in text and "against" in text


def test_compare_best_lists_indistinguishable_arms(requested, table) -> None:
    found = requested("--contrasts", "best")
    assert (found["best"], set(found["tied_with_best"])) == (None, {"fast", "more"})
    assert {c["against"] for c in found["comparisons"]} == {found["tied_with_best"][0]}
    text = table("--contrasts", "best").stdout
    assert "may be best; all are ahead of the rest." in text


def test_compare_non_inferiority_uses_the_bound_on_the_loss_side(requested) -> None:
    found = requested("--no-loss")["comparisons"]
    assert [c["verdict"] for c in found] == ["no-loss", "no-loss", "worse"]
    low = found[0]["ci90"][0] * 100
    assert found[0]["sentence"] == f"no degradation beyond 2% (lower bound {low:.2f}%), 12 blocks"
    shorter = requested("--no-loss", "--lower-is-better")["comparisons"]
    assert [c["verdict"] for c in shorter] == ["worse", "worse", "no-loss"]
    assert "(upper bound -" in shorter[2]["sentence"]


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--no-loss"], "--no-loss needs --margin"),
        (["--no-loss", "--margin", "0.02", "--contrasts", "best"], "--no-loss goes without --contrasts best"),
        (["--contrasts", "worst"], "'worst' is not one of"),
    ],
)
def test_compare_refuses_contradictory_options(table, options: list[str], printed: str) -> None:
    done = table(*options)
    assert (done.code, done.stdout) == (2, "")
    assert printed in done.stderr


def test_flags_of_adjacent_comparisons_name_the_reference_with_an_invalid_trial() -> None:
    values = noisy(10, LADDER)
    values.loc[(values["treatment"] == "one") & (values["block"] == 3), "value"] = 0.0
    first, second, third = rungs(values)
    assert "of the treatment or of base does not count" in first.flags[0]
    assert "of the treatment or of one does not count" in second.flags[0]
    assert (first.blocks, second.blocks, third.blocks) == (9, 9, 10)


def test_contrasts_without_treatments_give_no_comparisons() -> None:
    assert compare_contrasts(noisy(8, LADDER), []) == []
