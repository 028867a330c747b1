"""Whether a report's own numbers say that its connections were served: rate x mean latency, by Little's law.

A request that is never answered is in no number of these tools, unless it times out. Their mean latency is that of a
whole request, and what a connection does besides, in the load generator, takes no longer than that (wrk 4.1 on
loopback with its CPU full: 50 to 100 % of the connections at work).
"""

from __future__ import annotations

from dataclasses import replace

from loadbook.core.units import format_duration, format_percent
from loadbook.tools.base import ParsedReport

WHOLE_LATENCIES = ("ab", "bombardier", "wrk")
MIN_SHARE_AT_WORK = 0.4
MIN_REQUESTS_PER_CONNECTION = 20  # with fewer, start and end affect the mean
# doubts that explain it
EXPLAINED_BY = frozenset({"connections", "latency_censored", "latency_sampled", "stopped_early", "whole_ms"})
UNSERVED = "unserved_connections"


def at_work_text(rate: float, cycle_s: float, connections: float) -> str:
    """Return a sentence on the connections at work at a rate (1/s), if each request occupies one for `cycle_s`."""
    share = format_percent(rate * cycle_s / connections, 0, signed=False)
    text = f"{rate:,.0f} requests/s of {format_duration(cycle_s)} each keep {rate * cycle_s:,.1f} connections at work"
    return f"{text}, {share} of the {connections:,.0f}"


def with_unserved_doubt(tool: str, report: ParsedReport) -> ParsedReport:
    """Return a report of a tool with a doubt if its closed load kept far fewer connections at work than it had.

    Only for a report whose workload is not known: requests may also wait for each other by the user's own script, and
    TLS handshakes are in no latency of wrk, so that reports of https are left out.
    """
    values = {(row.metric, row.statistic): row.value for row in report.measurements}
    connections = float(report.load.get("connections") or 0)
    rate, mean = values.get(("requests_per_s", "value")), values.get(("latency", "mean"))
    requests = values.get(("requests", "count"), 0.0)
    names = {name for name, _ in report.doubts}
    if tool not in WHOLE_LATENCIES or not connections or rate is None or mean is None or names & EXPLAINED_BY:
        return report
    if report.is_open or report.load.get("scheme") == "https" or requests < MIN_REQUESTS_PER_CONNECTION * connections:
        return report
    share = rate * mean / connections
    if share >= MIN_SHARE_AT_WORK:
        return report
    text = f"{at_work_text(rate, mean, connections)}: the others were never answered, or waited in a script"
    doubt = (UNSERVED, text)
    return replace(report, doubts=(*report.doubts, doubt))
