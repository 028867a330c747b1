"""The validation in short: few simulated studies, limits wider by four standard errors; benchmarks/validation.py is it
whole. And that the validation itself can fail."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from effort import some
from noise import IN_WORDS, NOISES, alternating, blocked, draw, sequential
from simulated import controls
from simulated.check import Result, Row, Simulation
from simulated.tables import MODULES, cases, markdown, summary

SLACK = 4.0
EVERY = [simulation for module in MODULES for simulation in module.simulations()]
# words of a row, studies
SHORT = [
    ("false alarms, no difference, n = 5 to 7: iid, n=6", 400),
    ("false alarms, no difference, n = 5 to 7: t2.5, n=5", 400),
    ("false alarms, no difference: iid, n=10", 400),
    ("false alarms, no difference: ar1+drift, n=8", 400),
    ("false alarms, no difference: hetero, n=20", 400),
    ("false alarms, no difference: periodic, n=20", 400),
    ("interleaved: false alarms, no difference: two modes, n=8", 60),
    ("interleaved: a true 2 % found: two modes, n=15", 40),
    ("a true 2 % found: ar1+drift, n=10", 400),
    ("a true 2 % found: host-states, n=10", 400),
    ("a true 2 % found: stalls, n=10", 400),
    ("a true 2 % found: drift, n=20", 400),
    ("covers the truth: iid, n=10", 150),
    ("covers the truth: hetero, n=10", 150),
    ("covers the truth: ar1+drift, n=10, no difference", 150),
    ("studies with a claim: iid, n=8", 200),
    ("studies with a false claim: ar1+drift, n=10", 200),
    ("studies with a false claim: stalls, n=15", 100),
    ("called best: two tied leaders, iid, n=10", 40),
    ("two runs, an effect that did not change: called changed: iid, n=6 and 6", 300),
    ("two runs, an effect that did not change: called changed: stalls, n=8 and 8", 50),
    ("said to agree: ar1+drift, n=12 and 12", 30),
    ("trials with errors (Fisher): scattered, n=20", 100),
    ("trials with errors (Fisher): bursts, n=20", 100),
    ("looks after 10, 20 and 30 blocks: false alarms: ar1+drift", 150),
    ("always-valid, looks after 3 to 60 blocks: false alarms: iid", 150),
    ("bias of the mean after the cut, size in %: tau = 5 s", 400),
    ("whose 10 trials are flagged: steady", 300),
    ("whose 10 trials are flagged: tau = 12 s", 100),
]


def the_one_with(words: str) -> Simulation:
    found = [s for s in EVERY if any(f"{row.claim}: {row.case}".endswith(words) for row in s.rows)]
    assert len(found) == 1, words
    return found[0]


@pytest.mark.parametrize(("words", "studies"), some(SHORT, 10), ids=[words for words, _ in some(SHORT, 10)])
def test_simulated_error_rates_of_loadbook_are_within_limits(words: str, studies: int) -> None:
    results = the_one_with(words).run(studies, SLACK)
    assert any(r.row.limited for r in results)
    assert all(r.ok for r in results), cases(results)


@pytest.mark.parametrize("control", list(controls.simulations()), ids=lambda s: s.rows[0].case)
def test_simulated_naive_methods_have_excessive_error_rates(control: Simulation) -> None:
    results = control.run(60, SLACK)
    assert results[0].row.claim == controls.CONTROL
    assert all(r.ok for r in results), cases(results)


def test_validation_rows_are_unique_and_most_have_a_limit() -> None:
    rows = [(row.claim, row.case) for simulation in EVERY for row in simulation.rows]
    assert len(set(rows)) == len(rows)
    assert sum(row.limited for simulation in EVERY for row in simulation.rows) > len(rows) / 2


def test_simulation_is_reproducible() -> None:
    simulation = the_one_with("a true 2 % found: iid, n=10")
    assert simulation.run(50) == simulation.run(50)


def test_validation_marks_rows_outside_their_limits() -> None:
    row = Row("a claim", "a case", 2.5, 6.5)
    assert Result(row, 6.4, 5000).ok
    assert not Result(row, 6.6, 5000).ok
    assert Result(row, 6.6, 5000, slack=1.0).ok
    assert not Result(replace(row, high=math.inf), 2.0, 5000).ok
    known = EVERY[0].rows[0]
    assert "OUTSIDE" in summary([Result(known, known.high + 1, 5000)])
    assert "OUTSIDE" not in summary([Result(known, known.high, 5000)])


def test_validation_table_covers_every_kind_of_noise_and_every_claim() -> None:
    results = [Result(row, 50.0, 100) for simulation in EVERY for row in simulation.rows]
    text = markdown(results)
    assert all(f"| {words} (`{noise}`) |" in text for noise, words in IN_WORDS.items())
    assert all(row.claim in text for simulation in EVERY for row in simulation.rows if row.limited)


def test_simulations_page_contains_every_claim() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "simulations.md").read_text()
    assert all(f"| {row.claim}" in text for simulation in EVERY for row in simulation.rows if row.limited)
    assert "OUTSIDE" not in text
    noises = [line for line in text.splitlines() if line.startswith("|") and "(`" in line]
    assert len(noises) == len(IN_WORDS)


@pytest.mark.parametrize("noise", NOISES)
def test_simulated_noise_is_independent_of_effects(noise: str) -> None:
    plain, raised = (draw(np.random.default_rng(1), noise, 3, 6, [effect]) for effect in (0.0, 0.5))
    assert np.allclose(raised - plain, np.array([0.0, 0.5])[:, None, None])


def test_simulated_orders_match_their_names() -> None:
    rng = np.random.default_rng(1)
    order = blocked(rng, 200, 4, 3).reshape(200, 4, 3)
    assert (np.sort(order, axis=2) == [0, 1, 2]).all()
    assert 40 < (order[:, 0, 0] == 0).sum() < 95
    assert sequential(rng, 1, 2, 2).tolist() == [[0, 0, 1, 1]]
    assert alternating(rng, 1, 2, 2).tolist() == [[0, 1, 0, 1]]
