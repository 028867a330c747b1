"""Rules on responses: the page, the server that sent it, number of requests, copied outputs.

Copied outputs and the order of trials are checked for imported runs, which loadbook did not measure itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from loadbook.store.trial_record import TrialRecord
from loadbook.tools.served_load import MIN_REQUESTS_PER_CONNECTION, at_work_text
from loadbook.validity.base import TOTAL, Evidence, RuleHit, rule_hit


def wrong_response(evidence: Evidence) -> Iterator[RuleHit]:
    """Compare the page, fetched before and after the load, with the workload's expectation and with each other."""
    record = evidence.record
    responses = [(when, r) for when, r in (("before", record.response_before), ("after", record.response_after)) if r]
    if not responses:
        yield evidence.unchecked("wrong_response", "the page was not fetched")
        return
    status, size = record.workload.get("expect_status", 200), record.workload.get("expect_bytes")
    for when, response in responses:
        if response.status != status:
            yield evidence.hit("wrong_response", "invalid", f"{when} the load: status {response.status}, not {status}")
        elif size is not None and response.bytes != size:
            yield evidence.hit("wrong_response", "invalid", f"{when} the load: {response.bytes} bytes, not {size}")
    (_, first), (_, last) = responses[0], responses[-1]
    if (first.status, first.bytes) == (last.status, last.bytes) and first.sha256 != last.sha256:
        yield evidence.hit("wrong_response", "note", "the page's content changed during the trial, not its size")
    elif size is None and first.bytes != last.bytes:
        observation = f"the page had {first.bytes} bytes before the load and {last.bytes} after"
        yield evidence.hit("wrong_response", "doubt", observation)


def bytes_per_response(evidence: Evidence) -> Iterator[RuleHit]:
    """Compare the bytes received per response with the known page: at least its body, plus a limit for headers.

    Bytes that connections were still receiving at the end of the load may be included: one page for each connection.
    """
    received, requests = evidence.total("bytes_read", "count"), evidence.total("requests", "count")
    expected, record = evidence.record.workload.get("expect_bytes"), evidence.record
    answers = (record.response_before, record.response_after)
    pages = [int(expected)] if expected is not None else [answer.bytes for answer in answers if answer]
    if received is None or requests is None:
        yield evidence.unchecked("bytes_per_response", "the tool does not count bytes")
    elif not pages:
        yield evidence.unchecked("bytes_per_response", "the size of the page is not known")
    elif requests > 0:
        tolerance, headers = evidence.thresholds.bytes_tolerance, evidence.thresholds.header_bytes
        open_connections = float(evidence.record.workload.get("connections") or 0)
        min_bytes = requests * min(pages) * (1 - tolerance)
        max_bytes = (requests + open_connections) * (max(pages) + headers) * (1 + tolerance)
        if not min_bytes <= received <= max_bytes:
            observation = f"{received / requests:,.0f} bytes came per response; the page has {pages[0]:,}"
            observation += f", and its headers at most {headers:,}" if received > max_bytes else ""
            yield evidence.hit("bytes_per_response", "doubt", observation)


# evidence of a fresh process that was not the one to answer (`services.instance`)
OTHER_SERVER = re.compile(r"https?://\S+?:(\d+)/\S* answered .*: another server")
PORT_REMEDY = "free the port, or set service_port in the hosts file"


def config_not_live(evidence: Evidence) -> Iterator[RuleHit]:
    """Check that the live process answered with the id of this configuration."""
    if not evidence.record.services:
        yield evidence.unchecked("config_not_live", "no service was recorded")
    for service in evidence.record.services:
        other = OTHER_SERVER.search(service.live_evidence or "") if service.mode == "managed" else None
        if service.live is False and other:
            message = f"another server answered on {service.host}:{other[1]}; {PORT_REMEDY}."
            yield replace(evidence.hit("config_not_live", "invalid", "", service.host), message=message)
        elif service.live is False:
            proof = f" ({service.live_evidence})" if service.live_evidence else ""
            observation = f"{service.service} did not run the treatment's configuration{proof}"
            yield evidence.hit("config_not_live", "invalid", observation, service.host)
        elif service.live is None:
            reason = f"{service.service} offers no proof of its live configuration"
            yield evidence.unchecked("config_not_live", reason, service.host)


def server_identity(evidence: Evidence) -> Iterator[RuleHit]:
    """Compare the Server header before and after the load."""
    before, after = evidence.record.response_before, evidence.record.response_after
    if not before or not after:
        yield evidence.unchecked("server_identity", "the page was not fetched before and after")
    elif before.server != after.server:
        first, last = (answer.server or "nothing" for answer in (before, after))
        observation = f"the server called itself {first[:60]} before the load and {last[:60]} after"
        yield evidence.hit("server_identity", "doubt", observation)


REQUEST_TIME_METRICS = ("latency", "latency_intended", "service_time")
# higher percentiles are ignored
MAX_PERCENTILE = 99.0
# tools whose latency is a request's whole, uncorrected time -> shortest mean (s) that their resolution allows
MIN_MEAN_LATENCY_S = {"ab": 0.010, "jmeter": 0.010, "h2load": 0.0, "oha": 0.0, "vegeta": 0.0, "weighttp": 0.0}
MIN_DURATION_S = 0.5  # below, start and end affect the mean
H2LOAD_STREAMS = re.compile(r"(?:-m ?|--max-concurrent-streams[= ])(\d{1,6})")


def too_short(evidence: Evidence) -> Iterator[RuleHit]:
    """Find percentiles that the trial has too few requests to measure (ab prints p99 of 10 requests)."""
    highest = _highest_percentiles(evidence)
    for driver in [TOTAL] if TOTAL in highest else sorted(highest):
        requests, p = evidence.value(driver, "requests", "count"), highest[driver]
        tail_requests = (requests or 0.0) * (1 - p / 100)
        needed = evidence.thresholds.min_tail_requests
        if requests is not None and tail_requests < needed - 1e-9:
            observation = f"p{p:g} is that of {requests:,.0f} requests: {tail_requests:.2g} lie beyond it"
            observation += f", {needed:g} are needed"
            yield evidence.hit("too_short", "doubt", observation, None if driver == TOTAL else driver)


def _highest_percentiles(evidence: Evidence) -> dict[str, float]:
    """Return each driver's highest percentile; also the total's, if there is one driver or times were merged."""
    highest: dict[str, float] = {}
    for row in evidence.rows:
        if row["metric"] in REQUEST_TIME_METRICS and re.fullmatch(r"p\d+(\.\d+)?", str(row["statistic"])):
            p = float(str(row["statistic"])[1:])
            if p <= MAX_PERCENTILE:
                highest[row["driver"]] = max(p, highest.get(row["driver"], 0.0))
    return highest


def little_law(evidence: Evidence) -> Iterator[RuleHit]:
    """Compare rate x mean latency with the number of connections, by Little's law; only for closed loads."""
    workload, tool = evidence.record.workload, evidence.record.tool
    if workload.get("model", "closed") != "closed" or tool not in MIN_MEAN_LATENCY_S:
        return
    if not workload.get("connections"):
        yield evidence.unchecked("little_law", "it is not known how many connections were asked for")
        return
    busy = busy_connections(evidence)
    if isinstance(busy, str):
        yield evidence.unchecked("little_law", busy)
    elif abs(busy.share - 1) > evidence.thresholds.little_tolerance:
        yield evidence.hit("little_law", "doubt", busy.text)


class BusyConnections(NamedTuple):
    """Connections that had a request under way on average, as a `share` of those asked for, and a sentence on it."""

    share: float
    text: str


def busy_connections(evidence: Evidence) -> BusyConnections | str:
    """Return the connections at work in a closed load, by rate x mean latency; a text if they cannot be computed."""
    workload, tool = evidence.record.workload, evidence.record.tool
    rate, mean = evidence.total("requests_per_s", "value"), _mean_latency(evidence)
    connections = float(workload["connections"])
    requests, duration = evidence.total("requests", "count") or 0.0, evidence.total("duration") or 0.0
    if rate is None or mean is None:
        return "no mean latency beside the rate"
    if _concurrent_streams(evidence) > 1:
        return "several requests at once on each connection, queued within the tool"
    if mean < MIN_MEAN_LATENCY_S.get(tool, 0.0):
        return f"{tool} rounds to milliseconds, too coarse for a mean this short"
    if requests < MIN_REQUESTS_PER_CONNECTION * connections or duration < MIN_DURATION_S:
        return "too few requests on each connection"
    cycle_s = mean + float(workload.get("think_time_s") or 0.0)
    text = f"{at_work_text(rate, cycle_s, connections)} asked for"
    return BusyConnections(rate * cycle_s / connections, text)


def _mean_latency(evidence: Evidence) -> float | None:
    """Return the mean latency over all requests: the drivers' means weighted by requests; None if one is unknown."""
    if (mean := evidence.total("latency", "mean")) is not None:
        return mean
    hosts = [driver.host for driver in evidence.record.drivers]
    means, counts = ([evidence.value(h, *key) for h in hosts] for key in (("latency", "mean"), ("requests", "count")))
    weighted = [(m, n) for m, n in zip(means, counts, strict=True) if m is not None and n is not None]
    weight = sum(n for _, n in weighted)
    return sum(m * n for m, n in weighted) / weight if weight and len(weighted) == len(hosts) else None


def _concurrent_streams(evidence: Evidence) -> int:
    """Return how many requests h2load has under way on each connection (option -m)."""
    if evidence.record.tool != "h2load" or not evidence.record.drivers:
        return 1
    match = H2LOAD_STREAMS.search(" ".join(evidence.record.drivers[0].argv))
    return max(1, int(match[1])) if match else 1


def order_not_random(records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Doubt an order of trials that was not recorded, or that is confounded with a treatment.

    Orders drawn by loadbook are not checked, since they follow from the plan's seed.
    """
    imported = [r for r in records if any(driver.source for driver in r.drivers)]
    problem = _order_problem(imported) if imported else None
    if problem:
        yield rule_hit("order_not_random", "doubt", problem)


def _order_problem(records: Sequence[TrialRecord]) -> str | None:
    """Return the problem of the order of trials; None if their times show complete rounds in mixed orders."""
    timed = [(r.started, r) for r in records if r.started is not None]
    if len(timed) < len(records):
        return f"for {len(records) - len(timed)} of {len(records)} trials it is not known when they began"
    blocks: dict[int, list[tuple[float, str]]] = {}
    for started, record in timed:
        blocks.setdefault(record.block, []).append((started, record.treatment))
    rounds = sorted(blocks.items(), key=lambda item: min(item[1]))
    for (number, trials), (after, next_trials) in pairwise(rounds):
        if min(next_trials)[0] <= max(trials)[0]:
            return f"block {after} began before block {number} was over, so they are no rounds"
    return _fixed_position([[treatment for _, treatment in sorted(trials)] for _, trials in rounds])


def _fixed_position(orders: Sequence[Sequence[str]]) -> str | None:
    """Return a treatment that has the same position in every round; None if there is none."""
    if len(orders) < 2 or len(orders[0]) < 2:
        return None
    if all(order == orders[0] for order in orders):
        return f"the order was the same in all {len(orders)} blocks"
    for position, treatment in enumerate(orders[0]):
        if all(treatment in order and order.index(treatment) == position for order in orders):
            return f"{treatment} ran at place {position + 1} of every block"
    return None


def same_output(records: Sequence[TrialRecord]) -> Iterator[RuleHit]:
    """Doubt a trial whose output equals that of an earlier trial: a copied file, not a second measurement."""
    first: dict[tuple[str, ...], str] = {}
    for record in sorted(records, key=lambda r: r.slot):
        names = [name for driver in record.drivers for name in (driver.stdout, *driver.files.values())]
        output_files = [file for name in names if (file := record.files.get(name)) and file.size]
        if record.status != "ok" or not output_files:
            continue
        earlier = first.setdefault(tuple(file.sha256 for file in output_files), record.trial)
        if earlier != record.trial:
            yield rule_hit("same_output", "doubt", f"its output is byte for byte that of {earlier}", record)
