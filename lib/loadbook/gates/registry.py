"""Every gate by name: the title of its row in the gate matrix, why it matters, what to change.

Rules add what was seen. The second group are doubts that tools raise about their own output.
"""

from __future__ import annotations

from typing import NamedTuple


class GateInfo(NamedTuple):
    """A gate as readers see it; `why` and `remedy` continue a sentence and carry no full stop."""

    name: str
    title: str
    why: str
    remedy: str


_RULES = (
    GateInfo(
        "error_responses",
        "Error responses",
        "an error page is answered faster or slower than the real one",
        "repair what fails, or raise gates.max_error_share if failing is what is studied",
    ),
    GateInfo(
        "socket_errors",
        "Connection errors",
        "the load that arrived is not the load that was asked for",
        "lower the load, raise limits and backlogs, or raise gates.max_error_share if failing is what is studied",
    ),
    GateInfo(
        "zero_work",
        "No work done",
        "a rate of nothing is no measurement",
        "read the trial's stderr and the service's log",
    ),
    GateInfo(
        "driver_limits",
        "Driver's own limits",
        "the generator ran out of file descriptors or ports, so the errors are its own",
        "raise the limits of the driver, or use fewer or longer connections",
    ),
    GateInfo(
        "driver_saturated",
        "Driver at its limit",
        "the number says how fast the generator is, not the service",
        "give the driver more CPUs or hosts, or lower the load",
    ),
    GateInfo(
        "shared_cores",
        "Driver shares the service's CPUs",
        "a faster service takes CPU from its own load",
        "give both disjoint CPU masks, or use two machines",
    ),
    GateInfo(
        "offered_ceiling",
        "All of the offered load was served",
        "the number is the generator's setting, so the service can do at least this much",
        "raise the rate to find the service's limit",
    ),
    GateInfo(
        "offered_shortfall",
        "Offered rate not met",
        "either the service or the generator could not keep up",
        "compare the CPU of both, then lower the rate or add drivers",
    ),
    GateInfo(
        "config_not_live",
        "Configuration not live",
        "another configuration than the treatment's was measured",
        "read the service's log in the trial's folder",
    ),
    GateInfo(
        "wrong_response",
        "Response not as expected",
        "another page was measured than the workload asks for",
        "compare the response with workload.expect_status and workload.expect_bytes",
    ),
    GateInfo(
        "arms_answer_differently",
        "Treatments answer differently",
        "another page is faster or slower whatever the treatment does",
        "make all treatments send the same bytes, or study the difference on purpose",
    ),
    GateInfo(
        "not_at_rest",
        "Host not at rest",
        "what one trial leaves behind slows down the next, which no order of trials cures",
        "raise reset.wait_s, or reset.max_time_wait if so many are known to do no harm",
    ),
    GateInfo(
        "stolen_cpu",
        "CPU stolen by the hypervisor",
        "the host did not have the CPU it seems to have",
        "measure when neighbours are quiet, or on dedicated CPUs",
    ),
    GateInfo(
        "foreign_cpu",
        "Other processes used CPU",
        "they compete with what is measured, now and perhaps not in the next trial",
        "stop them, or give the roles CPUs of their own",
    ),
    GateInfo(
        "monitor_gaps",
        "Monitor has gaps",
        "what the host did meanwhile is not known",
        "use a longer interval, or look for a host under too much load",
    ),
    GateInfo(
        "clock",
        "Clock not to be trusted",
        "rates divide by a duration, and traces are placed by the clock",
        "keep the hosts' clocks steady (chrony) and repeat the trial",
    ),
    GateInfo(
        "facts_differ",
        "Conditions changed during the run",
        "trials before and after are not of the same system",
        "start a new run",
    ),
    GateInfo(
        "aa_differs",
        "Baseline differs from itself",
        "the laboratory sees a difference where there is none, so no verdict of this run counts",
        "look at drift, carry-over and foreign load before measuring again",
    ),
)
_TOOL_DOUBTS = (
    GateInfo("too_short", "Measurement too short", "the tool had no time for its own samples", "measure longer"),
    GateInfo("ports_exhausted", "Driver ran out of ports", "the errors are the driver's own", "use longer connections"),
    GateInfo("not_http", "Answers were not HTTP", "the tool counted noise as answers", "check what listens there"),
    GateInfo(
        "driver_disturbed",
        "Driver did not get its CPU",
        "the generator fell behind its own clock",
        "give the driver a CPU of its own",
    ),
    GateInfo(
        "stopped_early", "Tool stopped early", "less was measured than asked for", "read the tool's stderr in the trial"
    ),
    GateInfo(
        "connections",
        "Connections not as asked",
        "the concurrency is not the one stated",
        "make it a multiple of threads",
    ),
    GateInfo(
        "latency_censored",
        "Slowest answers missing",
        "the tool left its slowest requests out of its latencies",
        "raise the time-out",
    ),
    GateInfo("counter_wrapped", "Counter wrapped", "the tool's counter is too small", "measure for a shorter time"),
    GateInfo("exit_code", "Tool ended with an error", "its report may be incomplete", "read its stderr in the trial"),
    GateInfo("tool_doubt", "The tool's own doubt", "the tool's numbers mean less than they seem to", "read its output"),
)

GATES: dict[str, GateInfo] = {info.name: info for info in (*_RULES, *_TOOL_DOUBTS)}
# gates that look at every trial or run; the others speak only when a tool raises their doubt
RULES = tuple(info.name for info in _RULES)
