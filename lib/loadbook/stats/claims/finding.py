"""What a check of a claim found."""

from __future__ import annotations

from dataclasses import dataclass

from loadbook.stats.claims.words import Outcome
from loadbook.stats.result import Verdict


@dataclass(frozen=True)
class Finding:
    """How a claim fares and the sentences that say why.

    `verdict` is the comparison to draw beside the article's two values, where there is one; `sized` says of a claim
    that holds whether the article's size is met, too (None: not asked). `number` is the evidence in few characters
    where there is no verdict to draw.
    """

    outcome: Outcome
    evidence: str
    verdict: Verdict | None = None
    sized: bool | None = None
    number: str = ""
