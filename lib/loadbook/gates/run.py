"""Rules on a run as a whole: whether its trials belong together, and its A/A arm agrees with itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import median

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import p_value, percent
from loadbook.design.study import Study
from loadbook.gates.base import TOTAL, Hit, Level, Row, message
from loadbook.records.manifest import TrialRecord
from loadbook.stats.reasons import answers_differ

MIN_DIGEST_TRIALS = 2
# tools print bytes with three or four digits
MAX_BYTES_DIFFERENCE = 0.02


def check_run(
    study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row], excluded: Collection[str] = ()
) -> list[Hit]:
    """Return the hits on a run: those on one trial name it, those on a treatment or on everything do not.

    Parameters
    ----------
    measurements : rows of all trials with trial, driver, metric, statistic, value.
    excluded : trials that a rule on trials has called invalid; they do not count here either.
    """
    measured = [record for record in records if record.status == "ok" and record.trial not in excluded]
    return [
        *arms_answer_differently(study, measured),
        *bytes_differ(study, measured, measurements),
        *facts_differ(measured),
        *aa_differs(study, measured, measurements),
    ]


def arms_answer_differently(study: Study, records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Compare the usual answer of each treatment (status, bytes, then content) with the baseline's."""
    base = [r for r in records if r.treatment == study.baseline]
    for treatment in study.treatments:
        own = [r for r in records if r.treatment == treatment]
        if not own or treatment == study.baseline:
            continue
        found = answers_differ(_answers(own), _answers(base))
        if found:
            yield _on_treatment("arms_answer_differently", "invalid", treatment, found)
        elif _contents_differ(own, base):
            seen = "it sends other bytes than the baseline, of the same number"
            yield _on_treatment("arms_answer_differently", "doubt", treatment, seen)


def _answers(records: Sequence[TrialRecord]) -> list[tuple[int | None, int | None]]:
    return [(r.response_before.status, r.response_before.bytes) for r in records if r.response_before]


def _contents_differ(own: Sequence[TrialRecord], base: Sequence[TrialRecord]) -> bool:
    """Tell whether each arm always sends the same content, and not the other's."""
    ours, theirs = ([r.response_before.sha256 for r in arm if r.response_before] for arm in (own, base))
    steady = len(set(ours)) == len(set(theirs)) == 1
    return steady and min(len(ours), len(theirs)) >= MIN_DIGEST_TRIALS and ours[0] != theirs[0]


def bytes_differ(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[Hit]:
    """Compare the bytes per response that arms received under load: the page asked for beside it may be another one."""
    each = _bytes_per_response(records, measurements)
    if study.baseline not in each:
        return
    base = each[study.baseline]
    for treatment, size in each.items():
        if abs(size - base) > MAX_BYTES_DIFFERENCE * base:
            seen = f"under load it sent {size:,.0f} bytes per response, the baseline {base:,.0f} (headers included)"
            yield _on_treatment("arms_answer_differently", "doubt", treatment, seen)


def _bytes_per_response(records: Sequence[TrialRecord], measurements: Sequence[Row]) -> dict[str, float]:
    """Return each treatment's median of bytes received per response, where the tool counts both."""
    counted = {
        (row["trial"], row["metric"]): row["value"]
        for row in measurements
        if row["driver"] == TOTAL and row["metric"] in ("bytes_read", "requests")
    }
    sizes: dict[str, list[float]] = {}
    for record in records:
        got, number = (counted.get((record.trial, metric)) for metric in ("bytes_read", "requests"))
        if got is not None and number:
            sizes.setdefault(record.treatment, []).append(got / number)
    return {treatment: median(found) for treatment, found in sizes.items()}


def facts_differ(records: Sequence[TrialRecord]) -> Iterator[Hit]:
    """Find hosts that were rebooted, and tools or services that changed their version, during the run."""
    read: dict[str, Callable[[TrialRecord], Mapping[str, str | None]]] = {
        "was rebooted": lambda r: r.boot_ids,
        "ran another version of the tool": lambda r: {driver.host: r.tool_version for driver in r.drivers},
        "ran another version of the service": lambda r: {service.host: service.version for service in r.services},
    }
    for what, values in read.items():
        yield from _changes(what, [(record, values(record)) for record in records])


def _changes(what: str, values: Sequence[tuple[TrialRecord, Mapping[str, str | None]]]) -> Iterator[Hit]:
    """Yield a doubt on each trial whose value differs from the one that most trials have."""
    for host in sorted({host for _, known in values for host in known}):
        usual = Counter(known[host] for _, known in values if known.get(host)).most_common(1)
        for record, known in values:
            if usual and known.get(host) not in (None, usual[0][0]):
                seen = f"{host} {what} ({known[host]}, {usual[0][0]} in most trials)"
                yield Hit("facts_differ", "doubt", record.trial, record.treatment, host, message("facts_differ", seen))


def aa_differs(study: Study, records: Sequence[TrialRecord], measurements: Sequence[Row]) -> Iterator[Hit]:
    """Compare each A/A arm with its twin on the study's metric."""
    for name, spec in study.treatments.items():
        if spec.check != "aa" or not any(r.treatment == name for r in records):
            continue
        twin = spec.same_as or study.baseline
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
