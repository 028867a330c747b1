"""Slices of one target of a shared load: how late the last response to a request of each was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadbook.core.errors import ParseError
from loadbook.modes.shared.spec import SCHEDULE_FILE
from loadbook.request_logs.read import read_batches
from loadbook.request_logs.stream import RequestBatch
from loadbook.store.trial_record import SLICE_SERIES
from loadbook.tools.base import ParsedReport, Sample, ToolOutput
from loadbook.tools.shared_load import Part

Turns = NDArray[np.int64]  # (turns, 2): arm and number of requests
EMPTY = np.zeros(0, np.int64)


def read_turns(tool: str, data: bytes) -> Turns:
    """Return the turns in a file `schedule`; ParseError, which names the tool, for anything else."""
    try:
        turns = np.array(data.split(), np.int64).reshape(-1, 2)
    except ValueError as error:
        raise ParseError(tool, SCHEDULE_FILE, 0, f"not a schedule of a shared load: {error}") from None
    if not len(turns) or (turns < 0).any():
        raise ParseError(tool, SCHEDULE_FILE, 0, "not a schedule of a shared load: it is empty or has numbers below 0")
    return turns


def with_slices(
    report: ParsedReport,
    tool: str,
    data: bytes | Path,
    part: Part,
    properties: Mapping[str, str],
    output: ToolOutput,
    interval_us: float,
) -> ParsedReport:
    """Return a report with the slices of a target as samples.

    `data` is the log of its requests, which is read with the `properties`; the files of the output have the schedule.
    """
    turns = read_turns(tool, output.files.get(SCHEDULE_FILE, b""))
    slices = slice_samples(read_batches(data, tool, properties=properties), part, turns, interval_us)
    return replace(report, samples=(*report.samples, *slices))


def slice_samples(batches: Iterable[RequestBatch], part: Part, turns: Turns, interval_us: float) -> Iterator[Sample]:
    """Yield the length of each slice of a target, the median latency, and by how much its last response was late.

    `latency` counts from the place of a request in the schedule, of answered requests. `overrun` is the time from the
    end of a slice, when the next target's begins, to the last response to a request of it; 0 if all came before. x is
    the place of the slice's start in the schedule (s). Turns of single requests are no slices.

    Parameters
    ----------
    batches : the requests of the target, with their lateness.
    turns : those of all targets; `interval_us` is the time between two places in the schedule.
    """
    arms, counts = turns.T
    own = np.flatnonzero(arms == part.arm)
    if part.least_lateness_us is None or not len(own) or counts.max() < 2:
        return
    edges_us = np.concatenate([[0], np.cumsum(counts)]) * interval_us
    last_us, of_slice, latencies_us = np.zeros(len(turns)), [EMPTY], [EMPTY]
    for batch in batches:
        if batch.start_us is None or batch.lateness_us is None or not len(batch):
            continue
        due_us = batch.start_us - batch.lateness_us
        # two workers can take neighbouring targets in another order than their numbers: the nearest own slice counts
        number = np.searchsorted(edges_us, due_us + interval_us / 2, side="right") - 1
        after = np.clip(np.searchsorted(own, number), 0, len(own) - 1)
        before = np.maximum(after - 1, 0)
        is_before = np.abs(own[before] - number) < np.abs(own[after] - number)
        slices = np.where(is_before, own[before], own[after])
        ended_us = batch.start_us + batch.elapsed * batch.tick_us - part.least_lateness_us
        np.maximum.at(last_us, slices, ended_us)
        of_slice.append(slices[batch.answered])
        latencies_us.append((ended_us - due_us)[batch.answered])
    times = pd.DataFrame({"slice": np.concatenate(of_slice), "us": np.concatenate(latencies_us)})
    medians = times.groupby("slice")["us"].median()
    medians_us = dict(zip(medians.index.tolist(), medians.tolist(), strict=True))
    columns = (edges_us[:-1], edges_us[1:], last_us)
    begins_s, ends_s, last_s = ((values[own] / 1e6).tolist() for values in columns)
    for turn, begin_s, end_s, latest_s in zip(own.tolist(), begins_s, ends_s, last_s, strict=True):
        yield Sample(SLICE_SERIES, "slice", begin_s, "s", round(end_s - begin_s, 9), "s")
        if turn in medians_us:
            yield Sample(SLICE_SERIES, "latency", begin_s, "s", medians_us[turn] / 1e6, "s")
        yield Sample(SLICE_SERIES, "overrun", begin_s, "s", max(0.0, latest_s - end_s), "s")
