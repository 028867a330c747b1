"""Rules about what the service answered, and whether it was the service of the study."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.gates.base import Evidence, Hit


def wrong_response(evidence: Evidence) -> Iterator[Hit]:
    """Hold the page, fetched once before and once after the load, against the workload's expectation and itself."""
    record = evidence.record
    asked = [(when, r) for when, r in (("before", record.response_before), ("after", record.response_after)) if r]
    if not asked:
        yield evidence.unchecked("wrong_response", "the page was not fetched")
        return
    status, size = record.workload.get("expect_status", 200), record.workload.get("expect_bytes")
    for when, response in asked:
        if response.status != status:
            yield evidence.hit("wrong_response", "invalid", f"{when} the load: status {response.status}, not {status}")
        elif size is not None and response.bytes != size:
            yield evidence.hit("wrong_response", "invalid", f"{when} the load: {response.bytes} bytes, not {size}")
    (_, first), (_, last) = asked[0], asked[-1]
    if (first.status, first.bytes) == (last.status, last.bytes) and first.sha256 != last.sha256:
        yield evidence.hit("wrong_response", "note", "the page's content changed during the trial, not its size")
    elif size is None and first.bytes != last.bytes:
        seen = f"the page had {first.bytes} bytes before the load and {last.bytes} after"
        yield evidence.hit("wrong_response", "doubt", seen)


def bytes_per_response(evidence: Evidence) -> Iterator[Hit]:
    """Hold the bytes that came under load against the known page: its body at least, and room for headers.

    What connections were still receiving when the load ended may be counted, too: one page for each.
    """
    got, answers = evidence.total("bytes_read", "count"), evidence.total("requests", "count")
    pages = _page_sizes(evidence)
    if got is None or answers is None:
        yield evidence.unchecked("bytes_per_response", "the tool does not count bytes")
    elif not pages:
        yield evidence.unchecked("bytes_per_response", "the size of the page is not known")
    elif answers > 0:
        slack, headers = evidence.thresholds.bytes_tolerance, evidence.thresholds.header_bytes
        torn = float(evidence.record.workload.get("connections") or 0)
        least = answers * min(pages) * (1 - slack)
        most = (answers + torn) * (max(pages) + headers) * (1 + slack)
        if not least <= got <= most:
            seen = f"{got / answers:,.0f} bytes came per response; the page has {pages[0]:,}"
            seen += f", and its headers at most {headers:,}" if got > most else ""
            yield evidence.hit("bytes_per_response", "doubt", seen)


def _page_sizes(evidence: Evidence) -> list[int]:
    expected = evidence.record.workload.get("expect_bytes")
    asked = (evidence.record.response_before, evidence.record.response_after)
    return [int(expected)] if expected is not None else [answer.bytes for answer in asked if answer]


def config_not_live(evidence: Evidence) -> Iterator[Hit]:
    """Ask whether the live process answered with this configuration's id."""
    if not evidence.record.services:
        yield evidence.unchecked("config_not_live", "no service was recorded")
    for service in evidence.record.services:
        if service.live is False:
            proof = f" ({service.live_evidence})" if service.live_evidence else ""
            seen = f"{service.service} did not run the treatment's configuration{proof}"
            yield evidence.hit("config_not_live", "invalid", seen, service.host)
        elif service.live is None:
            lacking = f"{service.service} offers no proof of its live configuration"
            yield evidence.unchecked("config_not_live", lacking, service.host)


def server_identity(evidence: Evidence) -> Iterator[Hit]:
    """Compare what the server called itself before and after the load."""
    before, after = evidence.record.response_before, evidence.record.response_after
    if not before or not after:
        yield evidence.unchecked("server_identity", "the page was not fetched before and after")
    elif before.server != after.server:
        first, last = (answer.server or "nothing" for answer in (before, after))
        seen = f"the server called itself {first[:60]} before the load and {last[:60]} after"
        yield evidence.hit("server_identity", "doubt", seen)
