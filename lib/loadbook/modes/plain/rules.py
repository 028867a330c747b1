"""Validity rules that depend on how a trial was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, cast

from loadbook.modes.base import mode_of_record
from loadbook.store.trial_record import TrialRecord
from loadbook.validity.base import Evidence, RuleHit

TrialRule = Callable[[Evidence], Iterator[RuleHit]]


class PlainRules:
    """Validity rules of a mode; the attributes and methods of this class are those of plain trials.

    Attributes
    ----------
    trial_rules : further rules on a trial.
    is_judged_by_objective : whether an objective judges what the server does under too much load, and which share of
        the offered requests it answers; rules on that do not apply then.
    """

    trial_rules: ClassVar[tuple[TrialRule, ...]] = ()
    is_judged_by_objective: ClassVar[bool] = False

    def drivers_apart(self, evidence: Evidence) -> Iterator[RuleHit] | None:
        """Judge the share of the time in which not all drivers put load.

        None: the rule itself judges it, from the first start of a driver to the last end.
        """
        return None

    def stall(self, evidence: Evidence, shortest_s: float) -> Iterator[RuleHit] | None:
        """Find time over `shortest_s` in which nothing was served.

        None: the rule itself finds it in samples, rates per second, or the largest latency.
        """
        return None


FACET = PlainRules()


def rules_of(record: TrialRecord) -> PlainRules:
    """Return the validity rules of the mode whose trial has this record."""
    return cast("PlainRules", mode_of_record(record).facet("rules"))
