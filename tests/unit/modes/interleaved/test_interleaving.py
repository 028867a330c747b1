"""When a study can be interleaved, and the lengths of slice and gap."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import StudyError, UsageError
from loadbook.modes.interleaved.spec import (
    MAX_SLICE_S,
    MIN_GAP_S,
    MIN_SLICE_S,
    SliceLengths,
    block_seconds,
    draw_rounds,
    longest_pause_s,
    plain_reasons,
    slices_for_latency,
    slices_of_block,
    timeout_with_pauses_s,
)
from loadbook.study.model import Study
from loadbook.study.plan import make_plan, study_sha256, study_spec
from loadbook.study.reader import read_study

STUDIES = Path(__file__).parents[4] / "studies"


def changed(name: str, **keys: object) -> Study:
    study = read_study(STUDIES / f"{name}.toml")
    return study.model_copy(update=keys)


def with_load(**keys: object) -> Study:
    study = changed("aa")
    return study.model_copy(update={"workload": study.workload.model_copy(update=keys)})


def test_slice_and_gap_follow_the_latency_of_the_slowest_arm() -> None:
    assert slices_for_latency(0.0005) == SliceLengths(MIN_SLICE_S, MIN_GAP_S)
    assert slices_for_latency(0.004) == SliceLengths(0.08, 0.008)
    assert slices_for_latency(0.051) is None


def test_slices_of_several_drivers_are_long_against_the_error_of_their_clocks() -> None:
    assert slices_for_latency(0.0005, 0.001) == SliceLengths(0.05, 0.003)
    assert slices_for_latency(0.004, 0.001) == SliceLengths(0.08, 0.01)
    assert slices_for_latency(0.0005, 0.021) is None


@given(st.floats(0, 0.05))
def test_slice_lasts_twenty_latencies_and_gap_two(latency_s: float) -> None:
    lengths = slices_for_latency(latency_s)
    assert lengths is not None
    assert MIN_SLICE_S <= lengths.slice_s <= MAX_SLICE_S
    assert lengths.slice_s >= 20 * latency_s * 0.999 and lengths.gap_s >= 2 * latency_s * 0.999


def test_interleaved_block_lasts_until_every_arm_had_its_load_time() -> None:
    assert block_seconds(SliceLengths(0.025, 0.001, 0.05), 4, 1.0) == pytest.approx(4 * 0.051 + 38 * 4 * 0.026)


@given(st.integers(2, 12), st.integers(2, 20), st.floats(0, 0.05), st.floats(0, 0.5), st.text(max_size=5))
def test_no_generator_is_stopped_longer_than_the_longest_pause(
    arms: int, rounds: int, latency_s: float, end_s: float, seed: str
) -> None:
    """Every arm has a first slice, slices in random rounds, and a slice of `end_s` at its end, as in interleave.pl."""
    lengths = slices_for_latency(latency_s)
    assert lengths is not None
    turns = [(arm, lengths.first_s) for arm in range(arms)]
    turns += [(arm, lengths.slice_s) for order in draw_rounds(arms, rounds, seed) for arm in order]
    turns += [(arm, end_s) for arm in range(arms)]
    now, stopped, pauses = 0.0, dict[int, float](), list[float]()
    for arm, length_s in turns:
        if arm in stopped:
            pauses.append(now - stopped[arm])
        now += length_s
        stopped[arm] = now
        now += lengths.gap_s
    assert max(pauses) <= longest_pause_s(lengths, arms) + 1e-9
    assert timeout_with_pauses_s(2.0, lengths, arms) - 2.0 >= max(pauses)


@given(st.integers(1, 12), st.integers(1, 60), st.text(max_size=5))
def test_every_round_of_slices_has_every_arm_once(arms: int, rounds: int, seed: str) -> None:
    drawn = draw_rounds(arms, rounds, seed)
    assert len(drawn) == rounds
    assert all(sorted(order) == list(range(arms)) for order in drawn)
    assert drawn == draw_rounds(arms, rounds, seed)


def test_every_arm_comes_first_about_equally_often() -> None:
    rounds = draw_rounds(4, 4000, "balance")
    first = Counter(order[0] for order in rounds)
    assert all(900 < first[arm] < 1100 for arm in range(4))


@pytest.mark.parametrize("name", ["aa", "nginx-directives", "known-cost-cpu"])
def test_studies_of_rates_under_closed_loads_can_be_interleaved(name: str) -> None:
    study = changed(name)
    assert plain_reasons(study, study.treatments_in()) == []


@pytest.mark.parametrize(
    ("study", "reason"),
    [
        (changed("aa", metric="latency"), "the metric is latency"),
        (with_load(tool="jmeter"), "jmeter cannot be stopped"),
        (with_load(model="open", rate_per_s=100.0), "the load is open"),
        (with_load(requests=1000), "ends after a number of requests"),
        (with_load(think_time_s=0.1), "has a think time"),
        (with_load(tool="h2load", extra=("-N", "5")), "h2load's option -N acts by the wall clock"),
        (with_load(tool="h2load", extra=("--connection-inactivity=5",)), "--connection-inactivity=5 acts by"),
        (with_load(tool="h2load", extra=("-T5", "-m", "2")), "h2load's option -T5 acts by"),
    ],
)
def test_reason_against_interleaving_is_named(study: Study, reason: str) -> None:
    reasons = plain_reasons(study, study.treatments_in())
    assert len(reasons) == 1 and reason in reasons[0]
    with pytest.raises(UsageError, match="cannot be run in interleaved blocks"):
        make_plan(study.model_copy(update={"execution": "interleaved"}))


@pytest.mark.parametrize("name", ["baseline", "again"])
@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"model": "open", "rate_per_s": 100.0}, "the load is open"),
        ({"requests": 1000}, "ends after a number of requests"),
        ({"think_time_s": 0.1}, "has a think time"),
        ({"warmup_s": 9.0}, "treatments differ in duration_s or warmup_s"),
        ({"duration_s": 9.0}, "treatments differ in duration_s or warmup_s"),
        ({"tool": "h2load", "extra": ("-N", "5")}, "h2load's option -N acts by the wall clock"),
    ],
)
def test_load_of_a_single_treatment_is_a_reason_against_interleaving(
    name: str, own: dict[str, object], reason: str
) -> None:
    study = changed("aa")
    loads = {treatment: spec.model_copy(update={"same_as": None}) for treatment, spec in study.treatments.items()}
    loads[name] = loads[name].model_copy(update={"workload": own})
    (given_reason,) = plain_reasons(study.model_copy(update={"treatments": loads}), study.treatments_in())
    assert reason in given_reason


def test_study_with_a_factor_that_changes_the_whole_host_is_not_interleaved() -> None:
    reasons = [plain_reasons(study, study.treatments_in()) for study in map(read_study, STUDIES.glob("*.toml"))]
    texts = {reason for group in reasons for reason in group}
    assert any("changes its whole host" in text for text in texts)


def test_study_with_only_one_treatment_is_not_interleaved() -> None:
    assert plain_reasons(changed("aa"), ["baseline"]) == ["there is only one treatment"]


def test_plain_study_has_the_same_checksum_as_in_earlier_versions() -> None:
    study = changed("aa", execution="plain")
    assert "execution" not in study_spec(study)
    assert study_sha256(study) != study_sha256(study.model_copy(update={"execution": "interleaved"}))


def test_blocks_have_the_slices_of_the_study_in_turn() -> None:
    study, by_latency = changed("aa", slices=(0.025, 0.1)), SliceLengths(0.025, 0.001)
    assert [slices_of_block(study, block, by_latency).slice_s for block in (1, 2, 3)] == [0.025, 0.1, 0.025]
    assert slices_of_block(changed("aa"), 2, by_latency) == by_latency


@given(st.floats(0.0, 0.05), st.floats(0.0, 0.02), st.floats(0.01, 1.0), st.integers(1, 9))
def test_slices_of_the_study_are_never_shorter_than_latency_and_clocks_allow(
    latency_s: float, clock_error_s: float, slice_s: float, block: int
):
    by_latency = slices_for_latency(latency_s, clock_error_s)
    assert by_latency is not None
    lengths = slices_of_block(changed("aa", slices=(slice_s,)), block, by_latency)
    assert lengths.slice_s >= max(slice_s, 0.012, 20 * latency_s * 0.999, 50 * clock_error_s * 0.999)
    assert lengths.gap_s == by_latency.gap_s


def test_study_without_slices_is_recorded_as_before() -> None:
    assert "slices" not in study_spec(changed("aa"))
    assert study_spec(changed("aa", slices=(0.025, 0.1)))["slices"] == [0.025, 0.1]
    assert study_sha256(changed("aa")) != study_sha256(changed("aa", slices=(0.1,)))


def test_slices_need_interleaved_execution(tmp_path: Path) -> None:
    path = tmp_path / "sliced.toml"
    sliced = 'include = "aa.toml"\nname = "sliced"\nslices = [0.025, 0.1]\n'
    path.write_text(f'{sliced}execution = "plain"\n')
    (tmp_path / "aa.toml").write_bytes((STUDIES / "aa.toml").read_bytes())
    with pytest.raises(StudyError, match=r'slices.*needs execution = "interleaved"'):
        read_study(path)
    for execution in ("", 'execution = "auto"\n', 'execution = "interleaved"\n'):
        path.write_text(sliced + execution)
        assert read_study(path).slices == (0.025, 0.1)
