"""Stopping rule and limits of a study: `[stopping]`, `[monitors]`, `[reset]`, `[validity]` and `[ci]` (docs/ci.md).

If interim analyses are allowed, each one has a smaller threshold of p; stopping as soon as the result pleases would
find differences that do not exist (docs/comparisons.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from loadbook.core.toml import renamed_field
from loadbook.study.treatments import Name, one_or_more
from loadbook.study.workload import Matching, StrictModel

StoppingRuleName = Literal["fixed", "looks", "always-valid"]

# with fewer, `stats.compare` makes no test
MIN_ANALYSIS_BLOCKS = 5
# number of equally spaced looks -> threshold of p at each, for 5 % in all (Pocock 1977, two-sided)
POCOCK_P = {2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}


class StoppingRule(StrictModel):
    """Rule that decides when a run ends.

    Attributes
    ----------
    rule : end after `blocks` ("fixed"), at planned looks, or when all is decided ("always-valid").
    looks : numbers of blocks at the looks, two to five, equally spaced; only for the rule "looks", which needs them.
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
        """Return the numbers of blocks at which a run of `blocks` blocks is analysed, including its end."""
        if self.rule == "looks":
            return self.looks
        return tuple(range(min(MIN_ANALYSIS_BLOCKS, blocks), blocks + 1)) if self.rule == "always-valid" else (blocks,)

    def allows_interim(self, blocks: int) -> bool:
        """Return whether an interim analysis is allowed after this number of blocks."""
        return self.rule == "always-valid" or blocks in self.looks

    def describe(self) -> str:
        """Return a description of the rule."""
        if self.rule == "looks":
            *first, last = map(str, self.looks)
            return f"looks after {', '.join(first)} and {last} blocks, each at p < {POCOCK_P[len(self.looks)]}"
        if self.rule == "always-valid":
            return f"always-valid: a look after every block from {MIN_ANALYSIS_BLOCKS} on"
        return "a fixed number of blocks"


class MonitorSettings(StrictModel):
    """Traces that are recorded of every host during a trial.

    Attributes
    ----------
    interval_s : seconds between two samples.
    sources : the built-in sampler, which needs no installation, and monitors of the host that are polled during the
        load: a munin node, a Prometheus node_exporter. Polling costs CPU time on the host (docs/import.md).
    """

    interval_s: Annotated[float, Field(ge=0.05, le=60)] = 0.25
    sources: tuple[Literal["sampler", "munin", "node-exporter"], ...] = ("sampler",)


class ValidityLimits(StrictModel):
    """Thresholds of the validity rules (docs/validity-rules.md), with their defaults.

    Attributes
    ----------
    max_error_share : share of all requests that may fail in a valid trial.
    doubt_error_share : share of failed requests above which a trial is doubtful.
    driver_cpu : use of a driver's CPU (for a tool with one thread, of its core) at which a trial is invalid.
    driver_cpu_doubt : use of a driver's CPU at which a trial is doubtful.
    driver_own_share : part of this CPU use that must be the load generator's own; if less, the trial is only doubtful.
    drivers_apart : share of the measurement in which not all drivers were running, above which a trial is invalid.
    drivers_apart_doubt : share in which not all drivers were running, above which a trial is doubtful.
    offered_ceiling : achieved / offered rate at and above which all of the load was served.
    offered_shortfall : achieved / offered rate below which the offered load was not served.
    steal : share of CPU time stolen by the hypervisor that is allowed.
    foreign_cpu : CPU time (in CPUs) used by processes other than driver and service that is allowed.
    aa_p : p-value of the A/A arm below which it differs.
    throttled : share of the measurement for which a CPU quota may stop the load generator or a service.
    trace_coverage : share of the measurement that samples must cover.
    little_tolerance : allowed relative difference between rate x mean latency and the number of connections.
    min_tail_requests : number of requests slower than a percentile that is needed to compare it.
    bytes_tolerance : allowed relative difference of bytes per response between trials or treatments.
    header_bytes : bytes of headers allowed in a response in addition to its page.
    stall : share of the measurement without any service above which a trial is invalid.
    late_slices : share of an interleaved trial's slices that may last more than 1.5 times as long as planned.
    slices_overrun, slices_overrun_doubt : share of a slice for which, on average, responses to its requests come later,
        in the next one; above the first a shared trial is invalid, above the second in doubt.
    unasked_work : share of a service's CPU time that it may use during the slices of other treatments.
    clock_step_s : seconds by which a host's clock may move relative to the controller's.
    absurd_duration : allowed ratio of the duration that the tool reports to the measurement window.
    facts_tolerance : allowed relative change of a measured fact of a host during the run.
    time_wait_increase : allowed increase of sockets in TIME-WAIT since the start of the block.
    rest_conntrack : allowed increase of conntrack entries since the start of the block.
    rest_open_files : allowed increase of open files since the start of the block.
    rest_load : allowed increase of the load per CPU since the start of the block.
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
    throttled: Annotated[float, Field(ge=0, le=1)] = 0.01
    trace_coverage: Annotated[float, Field(gt=0, le=1)] = 0.95
    little_tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.3
    min_tail_requests: Annotated[float, Field(ge=0)] = 20.0
    bytes_tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.02
    header_bytes: Annotated[int, Field(ge=0)] = 1024
    stall: Annotated[float, Field(gt=0, le=1)] = 0.1
    late_slices: Annotated[float, Field(ge=0, le=1)] = 0.05
    slices_overrun: Annotated[float, Field(ge=0)] = 0.5
    slices_overrun_doubt: Annotated[float, Field(ge=0)] = 0.03
    unasked_work: Annotated[float, Field(ge=0, le=1)] = 0.02
    clock_step_s: Annotated[float, Field(ge=0)] = 0.1
    absurd_duration: Annotated[float, Field(gt=1)] = 10.0
    facts_tolerance: Annotated[float, Field(ge=0)] = 0.02
    time_wait_increase: Annotated[int, Field(ge=0)] = renamed_field("time_wait_increase", "rest_time_wait", 5000)
    rest_conntrack: Annotated[int, Field(ge=0)] = 5000
    rest_open_files: Annotated[int, Field(ge=0)] = 1000
    rest_load: Annotated[float, Field(ge=0)] = 2.0


class ResetSettings(StrictModel):
    """Conditions for a host to be at rest before a trial.

    Attributes
    ----------
    wait_s : seconds after which a trial begins although the host is not at rest; the trial is then doubtful.
    settle_s : minimum seconds of rest before each trial.
    time_wait_sockets : largest number of sockets in TIME-WAIT of a host at rest.
    """

    wait_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    settle_s: Annotated[float, Field(ge=0, le=60)] = 0.1
    time_wait_sockets: Annotated[int, Field(ge=0)] = renamed_field("time_wait_sockets", "max_time_wait", 5000)


# "small" is a significant loss smaller than the margin; the only gain that can be unacceptable is "faster"
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
MetricName = Annotated[
    str,
    Matching(
        r"[a-z_]+( (value|mean|sd|min|max|p[0-9]{1,2}(\.[0-9]+)?))?",
        'a metric, or a metric and its statistic such as "latency p99"',
    ),
]
EffectLimit = Annotated[float, Field(gt=-1, lt=1000)]


def _reject_other_words(value: object) -> object:
    words = one_or_more(value)
    for word in words if isinstance(words, (list, tuple)) else ():
        if isinstance(word, str) and word in WORD_HINTS:
            raise ValueError(f'"{word}" {WORD_HINTS[word]}')
    return words


OneOrMoreNames = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]
FailureVerdicts = Annotated[tuple[FailureVerdict, ...], BeforeValidator(_reject_other_words)]


class CiLimits(StrictModel):
    """Limits for one treatment; keys that are left out have the values of `[ci]`.

    The interval decides, not the estimate: a limit is missed, met, or (if the interval contains it) undecided.

    Attributes
    ----------
    fail_on : verdicts that fail a build; default: more-errors, and slower unless a limit states the accepted loss.
    undecided : "fail" or "pass": outcome of a build if a limit is neither met nor missed.
    min_effect : smallest acceptable change, a ratio to the reference minus 1; -0.02 accepts a loss of 2 %.
    max_effect : largest acceptable change, for a metric that must not grow (a time, for example).
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
    """The table `[ci]`: results that fail a build in continuous integration.

    `undecided` has no default: each study must state whether an undecided comparison fails the build.

    Attributes
    ----------
    only : treatments that are judged; default: all.
    doubts : validity rules (docs/validity-rules.md) whose doubts fail a build; "all" means any rule.
    metrics : other metrics that are judged as well, each with its own limits, such as "latency p99".
    treatments : keys that differ for single treatments.
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
        """Return the limits for a treatment: its own keys, and for the others those of `[ci]`."""
        common = {key: value for key, value in self if key in CiLimits.model_fields}
        own = self.treatments.get(treatment, CiLimits()).model_dump(exclude_none=True)
        return CiLimits.model_validate(common | own)

    def metric_limits(self, metric: str, treatment: str) -> CiLimits:
        """Return the limits for a treatment on one of the metrics in `metrics`, as stated there.

        Only `undecided` is taken from `limits_for` if it is not stated.
        """
        own = self.metrics[metric]
        return own if own.undecided else own.model_copy(update={"undecided": self.limits_for(treatment).undecided})

    def restricted_to(self, treatments: Iterable[str]) -> CiPolicy | None:
        """Return the policy for a study with only these treatments; None if it concerns none of them."""
        known = set(treatments)
        only = tuple(name for name in self.only if name in known)
        if self.only and not only:
            return None
        own_limits = {name: limits for name, limits in self.treatments.items() if name in known}
        return self.model_copy(update={"only": only, "treatments": own_limits})
