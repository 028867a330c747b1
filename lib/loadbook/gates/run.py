"""Rules on a run as a whole: whether its trials belong together, and its A/A arm agrees with itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import p_value, percent
from loadbook.design.pages import alike
from loadbook.design.study import Study
from loadbook.gates.base import TOTAL, Hit, Level, Row, message
from loadbook.gates.conditions import facts_differ, not_back_at_start
from loadbook.gates.origin import order_not_random, same_output
from loadbook.gates.within import unsteady
from loadbook.records.manifest import TrialRecord
from loadbook.stats.reasons import BASELINE, answers_differ

if TYPE_CHECKING:
    import pandas as pd

MIN_DIGEST_TRIALS = 2


def check_run(
    study: Study,
    records: Sequence[TrialRecord],
    measurements: Sequence[Row],
    excluded: Collection[str] = (),
    facts: Mapping[str, Any] | None = None,
    samples: pd.DataFrame | None = None,
) -> list[Hit]:
    """Return the hits on a run: those on one trial name it, those on a treatment or on everything do not.

    Parameters
    ----------
    measurements : rows of all trials with trial, driver, metric, statistic, value.
    excluded : trials that a rule on trials has called invalid; they do not count here either.
    facts : of the hosts, under ``<host>-before`` and ``<host>-after``.
    samples : the samples table; without it nothing is said about what happened within trials.
    """
    measured = [record for record in records if record.status == "ok" and record.trial not in excluded]
    return [
        *arms_answer_differently(study, measured),
        *bytes_differ(study, measured, measurements),
        *facts_differ(study, measured, facts or {}),
        *(hit for hit in not_back_at_start(study, records) if hit.trial in {r.trial for r in measured}),
        *aa_differs(study, measured, measurements),
        *order_not_random(records),
        *same_output(records),
        *(unsteady(measured, samples) if samples is not None else ()),
    ]


def arms_answer_differently(study: Study, records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Compare the usual answer of each treatment (status, bytes, then content) with the baseline's.

    Where a factor sets the size of the page, arms of one size are compared with the first of them; that each has its
    own size is asked of every trial (`pages.wrong_response`).
    """
    for treatment in study.treatments:
        first = alike(study, treatment)
        own, base = ([r for r in records if r.treatment == name] for name in (treatment, first))
        if not own or treatment == first:
            continue
        found = answers_differ(_answers(own), _answers(base))
        if found:
            seen = found.replace(BASELINE, _called(study, first))
            yield _on_treatment("arms_answer_differently", "invalid", treatment, seen)
        elif _contents_differ(own, base):
            seen = f"it sends other bytes than {_called(study, first)}, of the same number"
            yield _on_treatment("arms_answer_differently", "doubt", treatment, seen)


def _called(study: Study, arm: str) -> str:
    return BASELINE if arm == study.baseline else arm


def _answers(records: Sequence[TrialRecord]) -> list[tuple[int | None, int | None]]:
    return [(r.response_before.status, r.response_before.bytes) for r in records if r.response_before]


def _contents_differ(own: Sequence[TrialRecord], base: Sequence[TrialRecord]) -> bool:
    """Tell whether each arm always sends the same content, and not the other's."""
    ours, theirs = ([r.response_before.sha256 for r in arm if r.response_before] for arm in (own, base))
    steady = len(set(ours)) == len(set(theirs)) == 1
    return steady and min(len(ours), len(theirs)) >= MIN_DIGEST_TRIALS and ours[0] != theirs[0]


def bytes_differ(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[Hit]:
    """Compare the bytes per response under load: of each trial with its arm's, of each arm with the baseline's.

    Tools send other headers and count other bytes, so only arms of one tool are compared.
    """
    slack, each = study.gates.bytes_tolerance, _bytes_per_response(records, measurements)
    usual = {key: median(sizes.values()) for key, sizes in each.items()}
    for (treatment, tool), sizes in each.items():
        first = alike(study, treatment)
        own, base = usual[treatment, tool], usual.get((first, tool))
        for trial, size in sizes.items():
            if abs(size - own) > slack * own:
                seen = f"{size:,.0f} bytes came per response, {own:,.0f} in most trials of {treatment}"
                yield Hit("bytes_per_response", "doubt", trial, treatment, None, message("bytes_per_response", seen))
        if base is not None and abs(own - base) > slack * base:
            than = f"{_called(study, first)} {base:,.0f}"
            seen = f"under load it sent {own:,.0f} bytes per response, {than} (headers included)"
            yield _on_treatment("arms_answer_differently", "doubt", treatment, seen)


def _bytes_per_response(
    records: Sequence[TrialRecord], measurements: Sequence[Row]
) -> dict[tuple[str, str], dict[str, float]]:
    """Return bytes received per response by treatment and tool, then trial, where the tool counts both."""
    counted = {
        (row["trial"], row["metric"]): row["value"]
        for row in measurements
        if row["driver"] == TOTAL and row["metric"] in ("bytes_read", "requests")
    }
    sizes: dict[tuple[str, str], dict[str, float]] = {}
    for record in records:
        got, number = (counted.get((record.trial, metric)) for metric in ("bytes_read", "requests"))
        if got is not None and number:
            sizes.setdefault((record.treatment, record.tool), {})[record.trial] = got / number
    return sizes


def aa_differs(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[Hit]:
    """Compare each A/A arm with its twin on the study's metric."""
    for name, spec in study.treatments.items():
        if spec.check != "aa" or not any(r.treatment == name for r in records):
            continue
        twin = study.repeats(name) or study.baseline
        p, effect, blocks = _compared(study, records, measurements, name, twin)
        if p is None:
            lacking = f"{blocks} complete blocks, 5 are needed"
            yield Hit("aa_differs", "unchecked", None, name, None, f"not checked: {lacking}")
        elif p < study.gates.aa_p:
            seen = f"it differs from {twin} by {percent(effect)} (p {p_value(p)}, {blocks} blocks)"
            yield _on_treatment("aa_differs", "invalid", name, seen)


def _compared(
    study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row], name: str, twin: str
) -> tuple[float | None, float, int]:
    import pandas as pd

    from loadbook.stats.compare import compare

    statistic = metric_of(study.metric).default_statistic
    values = {
        row["trial"]: row["value"]
        for row in measurements
        if (row["driver"], row["metric"], row["statistic"]) == (TOTAL, study.metric, statistic)
    }
    rows = [(r.treatment, r.block, values.get(r.trial)) for r in records if r.treatment in (name, twin)]
    found = compare(pd.DataFrame(rows, columns=["treatment", "block", "value"]), name, twin)
    return found.p, found.effect or 0.0, found.blocks


def _on_treatment(name: str, level: Level, treatment: str, seen: str) -> Hit:
    return Hit(name, level, None, treatment, None, message(name, f"{treatment}: {seen}"))
