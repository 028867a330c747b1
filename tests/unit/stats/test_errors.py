import numpy as np
import pandas as pd
import pytest
from scipy import stats

from loadbook.stats.errors import (
    ErrorCounts,
    block_sign_flip_p,
    count_errors,
    find_refusals,
    rate_ratio,
    summarise_errors,
    zero_error_upper_bound,
)
from loadbook.stats.results import Refusal


def counts(errors: list[int], requests: int = 10_000) -> ErrorCounts:
    return ErrorCounts(np.array(errors, float), np.full(len(errors), float(requests)), {})


CLEAN, ALL_BAD = counts([0] * 12), counts([100, 3, 7, 250, 1, 9, 40, 12, 6, 88, 31, 2])


def test_numbers_of_trials_with_errors_are_compared_by_fishers_test() -> None:
    found = summarise_errors("t", ALL_BAD, CLEAN)
    assert (found.trials_with_errors, found.trials, found.kind) == (12, 12, "more")
    assert found.p == pytest.approx(stats.fisher_exact([[12, 0], [0, 12]]).pvalue)
    assert summarise_errors("t", CLEAN, ALL_BAD).kind == "fewer"


def test_burst_of_errors_in_a_single_trial_gives_no_verdict() -> None:
    found = summarise_errors("t", counts([0] * 11 + [9000]), CLEAN)
    assert (found.kind, found.upper_share) == ("undecided", None)


def test_treatment_without_errors_and_baseline_have_their_own_kinds() -> None:
    assert summarise_errors("t", CLEAN, CLEAN).kind == "none"
    base = summarise_errors("b", CLEAN, None)
    assert (base.kind, base.p) == ("baseline", None)


@pytest.mark.parametrize(("trials", "share"), [(1, 0.95), (5, 0.45), (10, 0.26), (20, 0.14), (30, 0.10), (59, 0.05)])
def test_share_of_trials_with_errors_has_an_upper_bound_if_none_had_any(trials: int, share: float) -> None:
    assert zero_error_upper_bound(trials) == pytest.approx(share, abs=0.005)
    assert summarise_errors("t", counts([0] * trials), CLEAN).upper_share == zero_error_upper_bound(trials)


def test_ratio_of_error_rates_needs_five_trials_with_errors_in_both_arms() -> None:
    few = counts([5, 9, 2, 7, 0, 0, 0, 0])
    assert rate_ratio(ALL_BAD, few) == (None, None)
    ratio, (low, high) = rate_ratio(counts([50, 60, 55, 52, 48, 61]), counts([10, 12, 9, 11, 13, 10]))
    assert low < ratio < high
    assert ratio == pytest.approx(326 / 65, rel=0.02)
    found = summarise_errors("t", counts([50, 60, 55, 52, 48, 61]), counts([10, 12, 9, 11, 13, 10]))
    assert (found.kind, found.p) == ("more", 1.0)


def test_error_counts_sum_all_trials_of_the_treatment() -> None:
    trials = pd.DataFrame(
        {"trial": ["t1", "t2", "t3", "t4"], "treatment": ["a", "a", "a", "b"], "valid": [True, False, True, True]}
    )
    rows = [
        ("t1", "*", "requests", 1000), ("t1", "*", "errors", 3), ("t1", "*", "errors_timeout", 3),
        ("t1", "d1", "errors", 3), ("t2", "*", "requests", 900), ("t2", "*", "errors_status", 7),
        ("t4", "*", "requests", 900), ("t4", "*", "errors", 50),
    ]  # fmt: skip
    measurements = pd.DataFrame(rows, columns=["trial", "driver", "metric", "value"]).assign(statistic="count")
    found = count_errors(trials, measurements, ["a"])["a"]
    assert (found.trials, found.trials_with_errors, found.errors.sum(), found.requests.sum()) == (2, 2, 10, 1900)
    assert found.by_class == {"errors_timeout": 3, "errors_status": 7}


def test_errors_of_a_tool_without_a_total_are_the_sum_of_their_classes() -> None:
    trials = pd.DataFrame({"trial": ["t1", "t2"], "treatment": ["a", "a"]})
    rows = [("t1", "requests", 900), ("t1", "errors_status", 7), ("t1", "errors_read", 2), ("t2", "requests", 900)]
    measurements = pd.DataFrame(rows, columns=["trial", "metric", "value"]).assign(statistic="count", driver="*")
    found = count_errors(trials, measurements, ["a"])["a"]
    assert (found.trials, found.errors.sum()) == (1, 9)


def test_error_responses_are_requests_and_other_failures_are_further_attempts() -> None:
    trials = pd.DataFrame({"trial": [f"t{n}" for n in range(12)], "treatment": ["a"] * 6 + ["b"] * 6})
    rows = [
        (trial, metric, value)
        for trial, treatment in trials.itertuples(index=False)
        for metric, value in [
            ("requests", 1000), ("errors_status", 800 if treatment == "a" else 80), ("errors_timeout", 250),
        ]
    ]  # fmt: skip
    measurements = pd.DataFrame(rows, columns=["trial", "metric", "value"]).assign(statistic="count", driver="*")
    found = count_errors(trials, measurements, ["a", "b"])
    assert found["a"].attempts.tolist() == [1250.0] * 6
    ratio, _ = rate_ratio(found["a"], found["b"])
    assert ratio == pytest.approx((1050 / 1250) / (330 / 1250))


def test_treatment_without_trials_has_no_error_counts() -> None:
    empty = pd.DataFrame({"trial": [], "driver": [], "metric": [], "statistic": [], "value": []})
    found = count_errors(pd.DataFrame({"trial": ["t1"], "treatment": ["a"]}), empty, ["a"])["a"]
    assert summarise_errors("a", found, found).p is None


def in_blocks(errors: list[int]) -> ErrorCounts:
    return counts(errors)._replace(blocks=tuple(range(1, len(errors) + 1)))


def test_sign_flips_by_block_check_the_verdict_on_errors() -> None:
    clean, bursts = in_blocks([0] * 10), in_blocks([30, 1, 0, 0, 0, 7, 200, 0, 4, 0])
    assert block_sign_flip_p(bursts, clean) == pytest.approx(2 / 2**5)
    assert block_sign_flip_p(clean, bursts) == block_sign_flip_p(bursts, clean)
    assert block_sign_flip_p(clean, clean) == 1.0
    found = summarise_errors("t", bursts, clean)
    assert (found.kind, found.p_blocks) == ("more", 2 / 2**5)
    assert stats.fisher_exact([[5, 5], [0, 10]]).pvalue == pytest.approx(found.p) and found.p < 0.05


def test_sign_flip_p_of_errors_equals_scipy_permutation_test() -> None:
    own, base = in_blocks([9, 0, 4, 16, 1, 0]), in_blocks([1, 0, 0, 4, 0, 25])
    shuffled = ErrorCounts(own.errors[::-1], own.requests, {}, own.blocks[::-1])
    differences = np.sqrt(own.errors) - np.sqrt(base.errors)
    oracle = stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert block_sign_flip_p(shuffled, base) == pytest.approx(oracle.pvalue)
    assert block_sign_flip_p(counts([1, 2]), base) is None


def test_sign_flip_p_of_many_blocks_is_sampled_and_never_zero() -> None:
    assert 0 < block_sign_flip_p(in_blocks([100] * 20), in_blocks([0] * 20)) <= 3e-4


def refused_run(text: str | None, status: int | None, gates: list[str]) -> tuple[pd.DataFrame, ...]:
    """Return trials, measurements and problems of three trials of "a", of which the first two have `gates`."""
    trials = pd.DataFrame(
        {
            "trial": ["t1", "t2", "t3", "t4"], "treatment": ["a", "a", "a", "b"],
            "gates": [gates, gates, [], []], "response_status": [status, status, 200, 200],
        }
    )  # fmt: skip
    rows = [(t, m, v, text if m == "status_5xx" else None)
            for t in ("t1", "t2", "t3", "t4")
            for m, v in (("requests", 100.0), ("errors_status", 82.0), ("status_5xx", 82.0))]  # fmt: skip
    measurements = pd.DataFrame(rows, columns=["trial", "metric", "value", "text"]).assign(
        statistic="count", driver="*"
    )
    problems = pd.DataFrame({"trial": ["t1", "t2"], "name": "error_log", "message": ["limiting connections"] * 2})
    return trials, measurements, problems


def test_refusal_has_share_statuses_and_log_of_the_trials_that_do_not_count():
    trials, measurements, problems = refused_run("503: 80, 500: 2", 200, ["error_responses"])
    found = find_refusals(trials, measurements, problems, ["a", "b"])
    assert found == {"a": Refusal(82 / 100, ("503", "500"), "limiting connections")}


def test_status_of_a_refusal_is_the_class_or_that_of_the_page_if_the_tool_tells_no_codes():
    trials, measurements, problems = refused_run(None, 200, ["error_responses"])
    assert find_refusals(trials, measurements, problems, ["a"])["a"].statuses == ("5xx",)
    untold = measurements[measurements["metric"] != "status_5xx"]
    assert find_refusals(trials, untold, problems, ["a"])["a"].statuses == ()
    trials, measurements, problems = refused_run(None, 503, ["wrong_response"])
    untold = measurements[measurements["metric"] == "requests"]
    assert find_refusals(trials, untold, problems, ["a"])["a"] == Refusal(None, ("503",), "limiting connections")


def test_tool_that_tells_only_2xx_from_others_has_a_share_of_refusals():
    trials, measurements, problems = refused_run(None, 200, ["error_responses"])
    ab = measurements[measurements["metric"] == "requests"]
    ab = pd.concat([ab, ab.assign(metric="status_2xx", value=18.0)])
    assert find_refusals(trials, ab, problems, ["a"])["a"].share == pytest.approx(0.82)


def test_trials_that_do_not_count_for_another_cause_are_no_refusal():
    trials, measurements, problems = refused_run("503: 82", 200, ["driver_saturated"])
    assert find_refusals(trials, measurements, problems, ["a"]) == {}
    trials, measurements, problems = refused_run("503: 82", 200, ["wrong_response"])
    assert find_refusals(trials, measurements, problems, ["a"]) == {}
    one = trials.assign(gates=pd.Series([["error_responses"], [], [], []], dtype=object))
    assert find_refusals(one, measurements, problems, ["a"]) == {}
