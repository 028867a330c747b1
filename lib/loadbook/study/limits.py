"""Stopping rule and limits of a study: `[stopping]`, `[monitors]`, `[reset]`, `[validity]` and `[ci]` (docs/ci.md).

A rule that allows interim analyses pays for them with a smaller threshold at each; stopping as soon as the result
pleases finds differences where there are none (docs/comparisons.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from loadbook.core.toml import renamed_field
from loadbook.study.treatments import Name, one_or_more
from loadbook.study.workload import StrictModel

StoppingRuleName = Literal["fixed", "looks", "always-valid"]

# fewer are not analysed (stats.compare)
MIN_ANALYSIS_BLOCKS = 5
# threshold of p at each of so many equally spaced looks, 5 % in all (Pocock 1977, two-sided)
POCOCK_P = {2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}


class StoppingRule(StrictModel):
    """The rule by which a run ends.

    Attributes
    ----------
    rule : after `blocks`; at planned looks, each with a smaller threshold; or whenever all is decided.
    looks : numbers of blocks, two to five, equally spaced; only with the rule "looks", and needed there.
    """

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
        """Return whether an interim analysis is allowed after so many blocks."""
        return self.rule == "always-valid" or blocks in self.looks

    def describe(self) -> str:
        """Return the rule in words."""
        if self.rule == "looks":
            *first, last = map(str, self.looks)
            return f"looks after {', '.join(first)} and {last} blocks, each at p < {POCOCK_P[len(self.looks)]}"
        if self.rule == "always-valid":
            return f"always-valid: a look after every block from {MIN_ANALYSIS_BLOCKS} on"
        return "a fixed number of blocks"


class MonitorSettings(StrictModel):
    """Traces of every host of the trial.

    Attributes
    ----------
    interval_s : seconds between two samples.
    sources : our own sampler, which needs nothing installed, and what else is asked on each host while the load runs:
        a munin node, a Prometheus node_exporter. Asking costs the host something (docs/traces.md).
    """

    interval_s: Annotated[float, Field(ge=0.05, le=60)] = 0.25
    sources: tuple[Literal["sampler", "munin", "node-exporter"], ...] = ("sampler",)


class ValidityLimits(StrictModel):
    """Thresholds of the validity rules (docs/validity-rules.md), with their defaults.

    Attributes
    ----------
    max_error_share : share of all requests that may fail in a trial.
    doubt_error_share : the same, for a doubt.
    driver_cpu : share of a driver's CPU, or of the core of a tool with one thread.
    driver_cpu_doubt : the same, for a doubt.
    driver_own_share : of that, the share that must be the load generator's.
    drivers_apart : share of the measurement in which not all drivers were at work.
    drivers_apart_doubt : the same, for a doubt.
    offered_ceiling : achieved / offered rate from which all was served.
    offered_shortfall : achieved / offered rate below which it was not met.
    steal : share of the CPUs' time that the hypervisor took.
    foreign_cpu : CPUs' worth of time that neither driver nor service used.
    aa_p : p value of the A/A arm.
    trace_coverage : share of the measurement that samples must cover.
    little_tolerance : how far rate x mean latency may lie beside the connections, as a share of these.
    min_tail_requests : requests that must lie beyond a percentile for it to be compared.
    bytes_tolerance : how far bytes per response may lie beside each other, as a share.
    header_bytes : bytes of headers that a response may have beside its page.
    stall : share of the measurement in which nothing was served, from which a trial does not count.
    late_slices : share of an interleaved trial's slices that may last 1.5 times as long as planned.
    unasked_work : share of a service's CPU time that it may use while other treatments have their slices.
    clock_step_s : seconds by which a host's clock may move against ours.
    absurd_duration : how many times as long as its window a measurement may have taken by the tool's account.
    facts_tolerance : how far a measured fact of a host may move during the run, as a share.
    time_wait_increase : sockets in TIME-WAIT above those at the block's start.
    rest_conntrack : conntrack entries above those at the block's start.
    rest_open_files : open files above those at the block's start.
    rest_load : load per CPU above that at the block's start.
    """

    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    doubt_error_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    driver_cpu: Annotated[float, Field(gt=0, le=1)] = 0.95
    driver_cpu_doubt: Annotated[float, Field(gt=0, le=1)] = 0.90
    driver_own_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    drivers_apart: Annotated[float, Field(ge=0, le=1)] = 0.25
    drivers_apart_doubt: Annotated[float, Field(ge=0, le=1)] = 0.05
    offered_ceiling: Annotated[float, Field(gt=0, le=1)] = 0.98
    offered_shortfall: Annotated[float, Field(gt=0, le=1)] = 0.95
    steal: Annotated[float, Field(ge=0, le=1)] = 0.02
    foreign_cpu: Annotated[float, Field(ge=0)] = 0.10
    aa_p: Annotated[float, Field(gt=0, lt=1)] = 0.01
    trace_coverage: Annotated[float, Field(gt=0, le=1)] = 0.95
    little_tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.3
    min_tail_requests: Annotated[float, Field(ge=0)] = 20.0
    bytes_tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.02
    header_bytes: Annotated[int, Field(ge=0)] = 1024
    stall: Annotated[float, Field(gt=0, le=1)] = 0.1
    late_slices: Annotated[float, Field(ge=0, le=1)] = 0.05
    unasked_work: Annotated[float, Field(ge=0, le=1)] = 0.02
    clock_step_s: Annotated[float, Field(ge=0)] = 0.1
    absurd_duration: Annotated[float, Field(gt=1)] = 10.0
    facts_tolerance: Annotated[float, Field(ge=0)] = 0.02
    time_wait_increase: Annotated[int, Field(ge=0)] = renamed_field("time_wait_increase", "rest_time_wait", 5000)
    rest_conntrack: Annotated[int, Field(ge=0)] = 5000
    rest_open_files: Annotated[int, Field(ge=0)] = 1000
    rest_load: Annotated[float, Field(ge=0)] = 2.0


class ResetSettings(StrictModel):
    """When a host counts as back at rest before a trial.

    Attributes
    ----------
    wait_s : seconds after which a trial begins anyway, with a doubt.
    settle_s : seconds of rest before each trial in any case.
    time_wait_sockets : sockets in TIME-WAIT up to which a host is at rest.
    """

    wait_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    settle_s: Annotated[float, Field(ge=0, le=60)] = 0.1
    time_wait_sockets: Annotated[int, Field(ge=0)] = renamed_field("time_wait_sockets", "max_time_wait", 5000)


# "small" is a real loss smaller than the margin; the only gain that can be unacceptable is "faster"
FailureVerdict = Literal["faster", "slower", "small", "more-errors"]
UndecidedPolicy = Literal["fail", "pass"]
DEFAULT_FAIL_ON: tuple[FailureVerdict, ...] = ("slower", "more-errors")
ALL_RULES = "all"
WORD_HINTS = {
    "undecided": 'is a choice of its own: undecided = "fail" or "pass"',
    "invalid": "goes without saying: a comparison that may not be made never passes",
    "worse": 'is called "slower", whatever the metric',
    "better": 'is called "faster", whatever the metric',
    "equivalent": "is never unacceptable",
    "no-loss": "is never unacceptable",
}
MetricName = Annotated[str, Field(pattern=r"^[a-z_]+( (value|mean|sd|min|max|p[0-9]{1,2}(\.[0-9]+)?))?$")]
EffectLimit = Annotated[float, Field(gt=-1, lt=1000)]


def _reject_other_words(value: Any) -> Any:
    for word in value if isinstance(value, (list, tuple)) else ():
        if isinstance(word, str) and word in WORD_HINTS:
            raise ValueError(f'"{word}" {WORD_HINTS[word]}')
    return value


OneOrMoreNames = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]
FailureVerdicts = Annotated[
    tuple[FailureVerdict, ...], BeforeValidator(lambda value: _reject_other_words(one_or_more(value)))
]


class CiLimits(StrictModel):
    """Limits for one treatment; keys that it leaves out are those of `[ci]`.

    The interval decides, not the estimate: beyond a limit it fails, within it passes, across it is undecided.

    Attributes
    ----------
    fail_on : verdicts that fail; default: slower (unless a limit says how much of a loss is accepted) and more-errors.
    undecided : "fail" or "pass" a build whose comparison shows neither.
    min_effect : least change that is acceptable, a ratio minus 1 to what the treatment is compared with, -0.02 for
        2 % less.
    max_effect : largest change that is acceptable, where growing is what must not be (a time, say).
    """

    fail_on: FailureVerdicts | None = None
    undecided: UndecidedPolicy | None = None
    min_effect: EffectLimit | None = None
    max_effect: EffectLimit | None = None

    @model_validator(mode="after")
    def _check_effect_range(self) -> CiLimits:
        if self.min_effect is not None and self.max_effect is not None and self.min_effect >= self.max_effect:
            raise ValueError(f"min_effect {self.min_effect:g} is not below max_effect {self.max_effect:g}")
        return self


class CiPolicy(CiLimits):
    """The table `[ci]`: results that fail a build.

    `undecided` has no default: the study decides whether a build passes that shows neither.

    Attributes
    ----------
    only : the treatments that are judged; default: all.
    doubts : validity rules (docs/validity-rules.md) whose doubt fails a build; "all" is any of them.
    metrics : other metrics that are judged, too, each by limits of its own: "latency p99", say.
    treatments : what differs for some of them.
    """

    undecided: UndecidedPolicy = Field(description='"fail" or "pass" a build whose comparison shows neither')
    only: OneOrMoreNames = ()
    doubts: OneOrMoreNames = ()
    metrics: dict[MetricName, CiLimits] = Field(default_factory=dict)
    treatments: dict[Name, CiLimits] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_treatment_limits(self) -> CiPolicy:
        for name in self.treatments:
            try:
                self.limits_for(name)
            except ValidationError as error:
                raise ValueError(
                    f"treatments.{name}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
                ) from error
        return self

    def limits_for(self, treatment: str) -> CiLimits:
        """Return the limits for a treatment, its own keys before those of `[ci]`."""
        common = {key: getattr(self, key) for key in CiLimits.model_fields}
        own = self.treatments.get(treatment, CiLimits()).model_dump(exclude_none=True)
        return CiLimits.model_validate(common | own)

    def metric_limits(self, metric: str, treatment: str) -> CiLimits:
        """Return the limits for a treatment on one of `metrics`."""
        own = self.metrics[metric]
        return own if own.undecided else own.model_copy(update={"undecided": self.limits_for(treatment).undecided})

    def restricted_to(self, treatments: Iterable[str]) -> CiPolicy | None:
        """Return the policy for a study with these treatments only; None if it is about others only."""
        known = set(treatments)
        only = tuple(name for name in self.only if name in known)
        if self.only and not only:
            return None
        own_limits = {name: limits for name, limits in self.treatments.items() if name in known}
        return self.model_copy(update={"only": only, "treatments": own_limits})
