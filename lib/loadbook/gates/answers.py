"""Rules about what the service answered."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import percent
from loadbook.gates.base import Evidence, Hit

SOCKET_ERRORS = ("errors_connect", "errors_timeout", "errors_read", "errors_write", "errors_length", "errors_other")


def error_responses(evidence: Evidence) -> Iterator[Hit]:
    """Judge responses with status 400 and above as a share of all responses."""
    errors, requests = evidence.total("errors_status", "count"), evidence.total("requests", "count")
    if errors is None or requests is None:
        yield evidence.unchecked("error_responses", "the tool reports no error responses")
    elif errors > 0:
        yield from _by_share(evidence, "error_responses", errors, max(requests, errors), "responses were errors")


def socket_errors(evidence: Evidence) -> Iterator[Hit]:
    """Judge failed connections and transfers as a share of all attempts; the driver's own limits are not among them."""
    given = [found for name in SOCKET_ERRORS if (found := evidence.total(name, "count")) is not None]
    requests = evidence.total("requests", "count")
    if not given or requests is None:
        yield evidence.unchecked("socket_errors", "the tool reports no connection errors")
    elif sum(given) > 0:
        yield from _by_share(evidence, "socket_errors", sum(given), requests + sum(given), "attempts failed")


def _by_share(evidence: Evidence, name: str, errors: float, of: float, what: str) -> Iterator[Hit]:
    share = errors / of
    seen = f"{errors:,.0f} of {of:,.0f} {what} ({percent(share, 2, signed=False)})"
    if share > evidence.thresholds.max_error_share:
        yield evidence.hit(name, "invalid", seen)
    elif share > evidence.thresholds.doubt_error_share:
        yield evidence.hit(name, "doubt", seen)
    else:
        yield evidence.hit(name, "note", seen)


def driver_limits(evidence: Evidence) -> Iterator[Hit]:
    """Failures at the generator's own limits make its results meaningless (httperf's manual)."""
    errors = evidence.total("errors_driver", "count")
    if errors:
        yield evidence.hit("driver_limits", "invalid", f"{errors:,.0f} attempts failed on the driver itself")


def zero_work(evidence: Evidence) -> Iterator[Hit]:
    """Refuse a trial without any response, or without one that counts."""
    requests, ok = evidence.total("requests", "count"), evidence.total("ok", "count")
    if requests is None and ok is None:
        yield evidence.unchecked("zero_work", "the tool reports neither requests nor successes")
    elif not requests and requests is not None:
        yield evidence.hit("zero_work", "invalid", "the tool completed no request")
    elif ok == 0:
        yield evidence.hit("zero_work", "invalid", f"none of {requests or 0:,.0f} responses was a success")


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


def config_not_live(evidence: Evidence) -> Iterator[Hit]:
    """Ask whether the live process answered with this configuration's id."""
    for service in evidence.record.services:
        if service.live is False:
            proof = f" ({service.live_evidence})" if service.live_evidence else ""
            seen = f"{service.service} did not run the treatment's configuration{proof}"
            yield evidence.hit("config_not_live", "invalid", seen, service.host)
        elif service.live is None:
            lacking = f"{service.service} offers no proof of its live configuration"
            yield evidence.unchecked("config_not_live", lacking, service.host)
