"""Validity rules on trials that an objective judges."""

from __future__ import annotations

from loadbook.modes.plain.rules import PlainRules


class CapacityRules(PlainRules):
    """Validity rules on searches for capacity and on starts at a rate that is to be certified."""

    is_judged_by_objective = True


FACET = CapacityRules()
