"""Noise for simulated studies: log values by slot (position of a trial in the run), for many studies at once.

Arrays of slots have the shape (studies, slots); `order[s, k]` is the arm that study s runs in slot k, 0 the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.floating]
Order = NDArray[np.integer]
Rng = np.random.Generator
Noise = Callable[[Rng, Order], Floats]

MARGIN = float(np.log(1.02))


def ar(rng: Rng, shape: tuple[int, ...], rho: float = 0.9, sd: float = 0.02) -> Floats:
    """Return autocorrelated noise of first order with this standard deviation, along the last axis."""
    shocks = rng.normal(0, sd * np.sqrt(1 - rho**2), shape)
    shocks[..., 0] = rng.normal(0, sd, shape[:-1])
    return np.asarray(lfilter([1.0], [1.0, -rho], shocks, axis=-1))


def white(rng: Rng, shape: tuple[int, ...], sd: float = 0.01) -> Floats:
    """Return independent noise."""
    return rng.normal(0, sd, shape)


def ramp(shape: tuple[int, ...], change: float) -> Floats:
    """Return a loss that grows linearly over the run to `change`."""
    return np.broadcast_to(np.linspace(0, -change, shape[-1]), shape)


def host_states(rng: Rng, shape: tuple[int, int]) -> Floats:
    """Return the loss of a host that is 8 % slower during periods of about ten slots."""
    switches = np.cumsum(rng.random(shape) < 0.1, axis=1)
    return -0.08 * ((switches + rng.integers(2, size=(shape[0], 1))) % 2)


def stalls(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Return the loss by stalls in one of twenty trials."""
    return -1.0 * (rng.random(shape) < 0.05) * rng.exponential(0.15, shape)


def periodic(rng: Rng, shape: tuple[int, int]) -> Floats:
    """Return the loss by a periodic job that disturbs every fourth slot."""
    return -0.06 * ((np.arange(shape[1]) + rng.integers(4, size=(shape[0], 1))) % 4 == 0)


def after(order: Order, arm: int) -> NDArray[np.bool_]:
    """Return a mask of the slots that follow a slot of this arm."""
    before = np.full_like(order, -1)
    before[:, 1:] = order[:, :-1]
    return before == arm


NOISES: dict[str, Noise] = {
    "iid": lambda r, o: white(r, o.shape, 0.02),
    "ar1": lambda r, o: ar(r, o.shape) + white(r, o.shape),
    "drift": lambda r, o: ramp(o.shape, 0.05) + white(r, o.shape, 0.02),
    "ar1+drift": lambda r, o: ar(r, o.shape) + white(r, o.shape) + ramp(o.shape, 0.03),
    "host-states": lambda r, o: host_states(r, o.shape) + white(r, o.shape),
    "run-modes": lambda r, o: -0.06 * (r.random(o.shape) < 0.3) + white(r, o.shape),
    "stalls": lambda r, o: stalls(r, o.shape) + white(r, o.shape),
    "t2.5": lambda r, o: 0.01 * r.standard_t(2.5, o.shape),
    "hetero": lambda r, o: r.normal(0, np.where(o == o.max(), 0.04, 0.01)),
    "periodic": lambda r, o: periodic(r, o.shape) + white(r, o.shape),
    # what only some questions ask for
    "quiet": lambda r, o: white(r, o.shape),
    "carry-over": lambda r, o: -0.02 * after(o, 1) + white(r, o.shape, 0.02),
    "noisy baseline": lambda r, o: r.normal(0, np.where(o == 0, 0.04, 0.01)),
}
# the noises that every claim is held against
IN_WORDS = {
    "iid": "independent, 2 %",
    "ar1": "slow random drift, 2 % + 1 %",
    "drift": "steady loss of 5 % over the run",
    "ar1+drift": "both",
    "host-states": "host 8 % slower for a while",
    "run-modes": "3 of 10 trials 6 % slow",
    "stalls": "1 of 20 trials stalls",
    "t2.5": "heavy tails",
    "hetero": "one arm scatters four times as much",
    "periodic": "every 4th trial 6 % slow",
}
SCENARIOS = tuple(IN_WORDS)


def blocked(rng: Rng, studies: int, blocks: int, arms: int) -> Order:
    """Return a random order within every block."""
    rounds = np.tile(np.arange(arms), (studies, blocks, 1))
    return rng.permuted(rounds, axis=2).reshape(studies, -1)


def sequential(_: Rng, studies: int, blocks: int, arms: int) -> Order:
    """Return an order with all trials of one arm, then all of the next."""
    return np.tile(np.repeat(np.arange(arms), blocks), (studies, 1))


def alternating(_: Rng, studies: int, blocks: int, arms: int) -> Order:
    """Return an order in which the arms alternate strictly."""
    return np.tile(np.arange(arms), (studies, blocks))


def draw(
    rng: Rng, noise: str, studies: int, blocks: int, effects: Sequence[float] = (0.0,), order: Any = blocked
) -> Floats:
    """Return the log values, shape (arms, studies, blocks); all arms but the first have the log effects `effects`."""
    arms = len(effects) + 1
    slots = order(rng, studies, blocks, arms)
    values = NOISES[noise](rng, slots) + np.array([0.0, *effects])[slots]
    by_arm = np.take_along_axis(values, np.argsort(slots, axis=1, kind="stable"), axis=1)
    return by_arm.reshape(studies, arms, blocks).swapaxes(0, 1)
