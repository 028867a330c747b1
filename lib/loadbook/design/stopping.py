"""When a study stops, declared before it runs: after fixed blocks, at planned looks, or whenever it is decided.

Looking at results and going on until they please finds differences where there are none (statistics.md 3.8). A rule
that allows looks pays for them with a smaller threshold at each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

StoppingRuleName = Literal["fixed", "looks", "always-valid"]

# below, nothing is judged (stats.compare)
MIN_ANALYSIS_BLOCKS = 5
# p below which one of so many equally spaced looks decides, 5 % in all (Pocock 1977, two-sided)
POCOCK_P = {2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}


class StoppingRule(BaseModel):
    """The rule by which a run ends.

    Attributes
    ----------
    rule : after `blocks`; at planned looks, each with a smaller threshold; or whenever all is decided.
    looks : numbers of blocks, two to five, equally spaced; only with the rule "looks", and needed there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: StoppingRuleName = "fixed"
    looks: tuple[Annotated[int, Field(ge=MIN_ANALYSIS_BLOCKS, le=1000)], ...] = ()

    @model_validator(mode="after")
    def _check_looks(self) -> StoppingRule:
        if self.rule != "looks":
            if self.looks:
                raise ValueError(f'looks go with rule = "looks", not with {self.rule!r}')
            return self
        if len(self.looks) not in POCOCK_P:
            raise ValueError(
                f"two to five looks, looks = [10, 20, 30] say: thresholds are known for these ({len(self.looks)} given)"
            )
        even = tuple(self.looks[0] * k for k in range(1, len(self.looks) + 1))
        if self.looks != even:
            raise ValueError(
                f"looks must be equally spaced, as their threshold supposes: {list(even)} instead of {list(self.looks)}"
            )
        return self

    def interim_blocks(self, blocks: int) -> tuple[int, ...]:
        """Return the numbers of blocks after which a run of `blocks` blocks looks; the last is its end."""
        if self.rule == "looks":
            return self.looks
        return tuple(range(min(MIN_ANALYSIS_BLOCKS, blocks), blocks + 1)) if self.rule == "always-valid" else (blocks,)

    def allows_interim(self, blocks: int) -> bool:
        """Tell whether a run may be judged after so many blocks although it was looked at before."""
        return self.rule == "always-valid" or blocks in self.looks

    def describe(self) -> str:
        """Return the rule in words."""
        if self.rule == "looks":
            *first, last = map(str, self.looks)
            return f"looks after {', '.join(first)} and {last} blocks, each at p < {POCOCK_P[len(self.looks)]}"
        if self.rule == "always-valid":
            return f"always-valid: a look after every block from {MIN_ANALYSIS_BLOCKS} on"
        return "a fixed number of blocks"


def last_declared_look(raw: Mapping[str, Any]) -> int | None:
    """Return the last look of a study as its file says it, None where it has none or says something else."""
    stopping = raw.get("stopping")
    looks = stopping.get("looks") if isinstance(stopping, Mapping) else None
    last = looks[-1] if isinstance(looks, (list, tuple)) and looks else None
    return last if isinstance(last, int) else None
