"""Which mode a study asks for, and a record is of; the order of trials that a mode draws."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from loadbook.modes import base
from loadbook.modes.base import MODES, Mode, all_modes, mode_of, mode_of_block, mode_of_record
from loadbook.study import plan as plans
from loadbook.study.plan import make_plan
from run_records import STUDY


class Mirrored(Mode):
    """Every second block is the one before, backwards."""

    name = "plain"

    def draw_order(self, treatments: Sequence[str], random: Random, before: Sequence[str]) -> list[str]:
        return list(before)[::-1] or super().draw_order(treatments, random, before)


def record(**values: Any) -> Any:
    return SimpleNamespace(**{"interleaved": None, "shared": None, "capacity": None, "execution": None} | values)


def test_every_mode_of_the_list_is_a_folder_with_its_name_and_plain_trials_are_asked_last() -> None:
    assert [mode.name for mode in all_modes()] == ["capacity", "shared", "interleaved", "plain"]
    assert {mode.name for mode in all_modes()} == set(MODES)


EXECUTIONS = [("auto", "interleaved"), ("interleaved", "interleaved"), ("shared", "shared"), ("plain", "plain")]


@pytest.mark.parametrize(("execution", "name"), EXECUTIONS)
def test_mode_of_a_study_follows_from_its_execution(execution: str, name: str) -> None:
    assert mode_of(STUDY.model_copy(update={"execution": execution})).name == name


def test_open_load_is_shared_unless_the_study_asks_for_another_execution() -> None:
    load = STUDY.workload.model_copy(update={"model": "open", "rate_per_s": 100.0})
    opened = STUDY.model_copy(update={"execution": "auto", "workload": load})
    assert mode_of(opened).name == "shared"
    assert mode_of(opened.model_copy(update={"execution": "plain"})).name == "plain"


def test_mode_of_a_record_follows_from_what_only_its_trials_record() -> None:
    interleaved, capacity, old = record(interleaved=1), record(capacity=1), record()
    assert [mode_of_record(one).name for one in (interleaved, capacity, old)] == ["interleaved", "capacity", "plain"]
    assert mode_of_block([old, interleaved]).name == "interleaved"
    assert mode_of_record(record(execution="interleaved")).name == "plain"  # an arm that failed has no slices


def test_mode_without_records_of_its_own_is_found_by_the_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored = Mirrored()
    monkeypatch.setattr(Mirrored, "name", "mirrored")
    monkeypatch.setitem(MODES, "mirrored", "mirrored")
    monkeypatch.setattr(base, "all_modes", lambda: (mirrored,))
    assert mode_of_record(record(execution="mirrored")) is mirrored


def test_mode_draws_the_order_of_its_blocks_from_the_block_before(monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDY.model_copy(update={"execution": "plain"})
    usual = make_plan(study, blocks=4, seed=3)
    monkeypatch.setattr(plans, "mode_of", lambda study: Mirrored())
    mirrored = make_plan(study, blocks=4, seed=3)
    first, *others = [[t.treatment for t in mirrored.trials if t.block == block] for block in (1, 2, 3, 4)]
    assert first == [t.treatment for t in usual.trials if t.block == 1]
    assert others == [first[::-1], first, first[::-1]]
