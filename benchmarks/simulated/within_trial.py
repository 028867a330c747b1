"""Within a trial: 60 samples of one second that begin at half the rate; how well is the warm-up cut, and seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from loadbook.stats.steady_state import rate_trend, transient_samples
from noise import Floats, Rng, ar
from simulated.check import Row, Simulation, percent

SECONDS, TRIALS = 60, 10
BIAS = "warm-up: bias of the mean after the cut, size in %"
UNCUT = "warm-up: bias of the mean without a cut, size in %"
MOVING = "warm-up: treatments whose 10 trials are flagged"


def series(rng: Rng, shape: tuple[int, ...], tau_s: float) -> Floats:
    """Return rates around 1: scatter 5 % with autocorrelation 0.5, and a start at one half that decays with tau."""
    warm_up = 0.5 * np.exp(-np.arange(shape[-1]) / tau_s) if tau_s else 0.0
    return (1 - warm_up) * (1 + ar(rng, shape, 0.5, 0.05))


def bias(tau_s: float, rng: Rng, studies: int) -> tuple[float, float]:
    """Return by how much the mean is off, after loadbook's cut and without one."""
    made = series(rng, (studies, SECONDS), tau_s)
    kept = [one[transient_samples(one) :].mean() for one in made]
    return 100 * abs(float(np.mean(kept)) - 1), 100 * abs(float(made.mean()) - 1)


def flagged(tau_s: float, rng: Rng, studies: int) -> tuple[float]:
    """Return how many treatments are called moving after ten trials."""
    made = (series(rng, (TRIALS, SECONDS), tau_s) for _ in range(studies))
    return (percent([(trend := rate_trend(list(one))) is not None and trend.moving for one in made]),)


def simulations() -> Iterator[Simulation]:
    """Yield every simulation of what happens within a trial."""
    for tau_s, most in ((0.0, 0.5), (2.0, 0.5), (5.0, 0.5), (12.0, math.inf)):
        case = f"tau = {tau_s:g} s" if tau_s else "steady"
        yield Simulation(partial(bias, tau_s), (Row(BIAS, case, high=most), Row(UNCUT, case)))
    for tau_s, low, high in ((0.0, -math.inf, 3.0), (5.0, -math.inf, math.inf), (12.0, 90.0, math.inf)):
        case = f"tau = {tau_s:g} s" if tau_s else "steady"
        yield Simulation(partial(flagged, tau_s), (Row(MOVING, case, low, high),))
