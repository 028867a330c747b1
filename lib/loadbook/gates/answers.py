"""Rules about how many requests were answered, and how many were not."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import percent
from loadbook.gates.base import Evidence, Hit

SOCKET_ERRORS = ("errors_connect", "errors_timeout", "errors_read", "errors_write", "errors_length", "errors_other")


def zero_work(evidence: Evidence) -> Iterator[Hit]:
    """Refuse a trial without any response, or without one that counts."""
    requests, ok = evidence.total("requests", "count"), evidence.total("ok", "count")
    if requests is None and ok is None:
        yield evidence.unchecked("zero_work", "the tool reports neither requests nor successes")
    elif not requests and requests is not None:
        yield evidence.hit("zero_work", "invalid", "the tool completed no request")
    elif ok == 0:
        yield evidence.hit("zero_work", "invalid", f"none of {requests or 0:,.0f} responses was a success")


def error_responses(evidence: Evidence) -> Iterator[Hit]:
    """Judge responses with status 400 and above as a share of all responses."""
    errors, requests = evidence.total("errors_status", "count"), evidence.total("requests", "count")
    if errors is None or requests is None:
        yield from _not_2xx(evidence, requests)
    elif errors > 0:
        yield from _by_share(evidence, "error_responses", errors, max(requests, errors), "responses were errors")


def _not_2xx(evidence: Evidence, requests: float | None) -> Iterator[Hit]:
    """Judge a tool that tells good codes from others only (ab): where the page itself is 2xx, no other may occur."""
    good = evidence.total("status_2xx", "count")
    if good is None or not requests:
        yield evidence.unchecked("error_responses", "the tool reports no error responses")
    elif evidence.record.workload.get("expect_status", 200) // 100 != 2:
        yield evidence.unchecked("error_responses", "the tool does not tell errors from the redirects expected")
    elif requests > good:
        yield from _by_share(evidence, "error_responses", requests - good, requests, "responses were not 2xx")


def socket_errors(evidence: Evidence) -> Iterator[Hit]:
    """Judge failed connections and transfers as a share of all attempts; the driver's own limits are not among them."""
    names = [n for n in SOCKET_ERRORS if n != "errors_timeout" or "timeouts_weighted" not in evidence.doubts]
    given = [found for name in names if (found := evidence.total(name, "count")) is not None]
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
