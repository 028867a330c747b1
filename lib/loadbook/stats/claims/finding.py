"""What a check of a claim found."""

from __future__ import annotations

from dataclasses import dataclass

from loadbook.stats.claims.words import ClaimOutcome
from loadbook.stats.result import Verdict


@dataclass(frozen=True)
class ClaimFinding:
    """How a claim fares and the sentences that say why.

    `verdict` is the comparison to draw beside the article's two values, where there is one; `size_met` says of a claim
    that holds whether the article's size is met, too (None: not asked). `short_evidence` is the evidence in few characters
    where there is no verdict to draw.
    """

    outcome: ClaimOutcome
    evidence: str
    verdict: Verdict | None = None
    size_met: bool | None = None
    short_evidence: str = ""
