"""Rules about what the service answered, and whether it was the service of the study."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.gates.base import Evidence, RuleHit


def wrong_response(evidence: Evidence) -> Iterator[RuleHit]:
    """Hold the page, fetched once before and once after the load, against the workload's expectation and itself."""
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
    """Hold the bytes that came under load against the known page: its body at least, and room for headers.

    What connections were still receiving when the load ended may be counted, too: one page for each.
    """
    received, requests = evidence.total("bytes_read", "count"), evidence.total("requests", "count")
    pages = _page_sizes(evidence)
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


def _page_sizes(evidence: Evidence) -> list[int]:
    expected = evidence.record.workload.get("expect_bytes")
    responses = (evidence.record.response_before, evidence.record.response_after)
    return [int(expected)] if expected is not None else [answer.bytes for answer in responses if answer]


def config_not_live(evidence: Evidence) -> Iterator[RuleHit]:
    """Ask whether the live process answered with this configuration's id."""
    if not evidence.record.services:
        yield evidence.unchecked("config_not_live", "no service was recorded")
    for service in evidence.record.services:
        if service.live is False:
            proof = f" ({service.live_evidence})" if service.live_evidence else ""
            observation = f"{service.service} did not run the treatment's configuration{proof}"
            yield evidence.hit("config_not_live", "invalid", observation, service.host)
        elif service.live is None:
            reason = f"{service.service} offers no proof of its live configuration"
            yield evidence.unchecked("config_not_live", reason, service.host)


def server_identity(evidence: Evidence) -> Iterator[RuleHit]:
    """Compare what the server called itself before and after the load."""
    before, after = evidence.record.response_before, evidence.record.response_after
    if not before or not after:
        yield evidence.unchecked("server_identity", "the page was not fetched before and after")
    elif before.server != after.server:
        first, last = (answer.server or "nothing" for answer in (before, after))
        observation = f"the server called itself {first[:60]} before the load and {last[:60]} after"
        yield evidence.hit("server_identity", "doubt", observation)
