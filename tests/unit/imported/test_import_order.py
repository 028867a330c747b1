"""When times show that the order of imported trials cannot explain an effect, and when they do not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.store.trial_record import DriverRecord, FileRecord, TrialRecord
from loadbook.validity.responses import order_not_random, same_output

ARMS = "abc"


def trial(number, treatment, block, started, source="x", sha256=""):
    driver = DriverRecord(host="driver", argv=[], rc=None, stdout="o", stderr="e", source=source)
    return TrialRecord(
        study="s", run="r", trial=f"t{number:04d}", treatment=treatment, factors={}, block=block, slot=number,
        attempt=1, status="ok", started=started, tool="wrk", workload={}, drivers=[driver],
        files={"o": FileRecord(size=9 if sha256 else 0, sha256=sha256)},
    )  # fmt: skip


def rounds(*orders, source="x"):
    """Trials one second apart, a round for each text of treatments."""
    reported = [(treatment, block) for block, order in enumerate(orders, 1) for treatment in order]
    return [trial(i, treatment, block, float(i), source) for i, (treatment, block) in enumerate(reported, 1)]


def printed(records):
    return [hit.message.partition(":")[0] for hit in order_not_random(records)]


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        (("abc", "abc", "abc"), "the order was the same in all 3 blocks"),
        (("abc", "acb", "abc"), "a ran at place 1 of every block"),
        (("abc", "bac"), "c ran at place 3 of every block"),
        (("ab", "ba"), None),
        (("abc", "bca", "cab"), None),
        (("abc",), None),
    ],
)
def test_import_raises_a_doubt_if_every_block_had_the_same_order(orders, says):
    assert printed(rounds(*orders)) == ([says] if says else [])


def test_import_raises_a_doubt_if_treatments_ran_one_after_the_other():
    records = [trial(10 * k + b, arm, b, float(10 * k + b)) for k, arm in enumerate(ARMS) for b in (1, 2, 3)]
    assert printed(records) == ["block 2 began before block 1 was over, so they are no rounds"]


def test_import_with_a_missing_time_has_an_unknown_order():
    records = rounds("abc", "bca")
    assert printed([*records[:-1], records[-1].model_copy(update={"started": None})]) == [
        "for 1 of 6 trials it is not known when they began"
    ]


def test_order_is_not_checked_for_runs_that_loadbook_randomised():
    assert printed(rounds("abc", "abc", source=None)) == printed([]) == []


@given(st.integers(0, 10**6), st.integers(8, 20))
def test_import_doubt_about_the_order_is_rare_for_random_orders(seed, blocks):
    draw = random.Random(seed)
    orders = ["".join(draw.sample(ARMS, 3)) for _ in range(blocks)]
    records = rounds(*orders)
    fixed = any(len({order.index(arm) for order in orders}) == 1 for arm in ARMS)
    assert bool(printed(records)) == fixed
    assert printed(draw.sample(records, len(records))) == printed(records)


def test_import_doubt_about_identical_outputs_names_the_second_trial():
    records = [trial(i, "a", i, None, sha256=sha) for i, sha in enumerate(("p", "q", "p", ""), 1)]
    (hit,) = same_output(records)
    assert (hit.trial, hit.level) == ("t0003", "doubt") and "byte for byte that of t0001" in hit.message
