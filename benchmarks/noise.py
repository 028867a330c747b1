"""The noise of statistics.md 3.2: log values by slot for two arms, `order[k]` being the arm (0 or 1) in slot k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Noise = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def ar(rng: np.random.Generator, slots: int, rho: float = 0.9, sd: float = 0.02) -> np.ndarray:
    """Autocorrelated noise of first order with this standard deviation."""
    shocks = rng.normal(0, sd * np.sqrt(1 - rho**2), slots)
    shocks[0] = rng.normal(0, sd)
    out = np.empty(slots)
    last = 0.0
    for k, shock in enumerate(shocks):
        out[k] = last = rho * last + shock if k else shock
    return out


def host_states(rng: np.random.Generator, slots: int) -> np.ndarray:
    """Return the loss of a host that is 8 % slower for stretches of about ten slots."""
    switches = rng.random(slots) < 0.1
    return -0.08 * ((np.cumsum(switches) + rng.integers(2)) % 2)


def white(rng: np.random.Generator, slots: int, sd: float = 0.01) -> np.ndarray:
    """Independent noise."""
    return rng.normal(0, sd, slots)


def ramp(slots: int, change: float) -> np.ndarray:
    """Return a steady loss over the run."""
    return np.linspace(0, -change, slots)


SCENARIOS: dict[str, Noise] = {
    "iid": lambda r, o: white(r, len(o), 0.02),
    "ar1": lambda r, o: ar(r, len(o)) + white(r, len(o)),
    "drift": lambda r, o: ramp(len(o), 0.05) + white(r, len(o), 0.02),
    "ar1+drift": lambda r, o: ar(r, len(o)) + white(r, len(o)) + ramp(len(o), 0.03),
    "host-states": lambda r, o: host_states(r, len(o)) + white(r, len(o)),
    "run-modes": lambda r, o: -0.06 * (r.random(len(o)) < 0.3) + white(r, len(o)),
    "stalls": lambda r, o: -1.0 * (r.random(len(o)) < 0.05) * r.exponential(0.15, len(o)) + white(r, len(o)),
    "t2.5": lambda r, o: 0.01 * r.standard_t(2.5, len(o)),
    "hetero": lambda r, o: r.normal(0, np.where(o == 1, 0.04, 0.01)),
    "periodic": lambda r, o: -0.06 * ((np.arange(len(o)) + r.integers(4)) % 4 == 0) + white(r, len(o)),
    "carry-over": lambda r, o: -0.02 * (np.concatenate([[0], o[:-1]]) == 1) + white(r, len(o)),
}


def blocked(rng: np.random.Generator, blocks: int) -> np.ndarray:
    """Random order in every block."""
    first = rng.integers(0, 2, blocks)
    return np.column_stack([first, 1 - first]).ravel()


def sequential(_: np.random.Generator, blocks: int) -> np.ndarray:
    """All of one arm, then all of the other."""
    return np.repeat([0, 1], blocks)


def alternating(_: np.random.Generator, blocks: int) -> np.ndarray:
    """Strict alternation."""
    return np.tile([0, 1], blocks)


def draw(
    rng: np.random.Generator, scenario: str, blocks: int, effect: float = 0.0, order=blocked
) -> tuple[np.ndarray, np.ndarray]:
    """Return logs of baseline and variant, the latter with this log effect, by block."""
    arms = order(rng, blocks)
    values = SCENARIOS[scenario](rng, arms) + effect * arms
    return values[arms == 0], values[arms == 1]
