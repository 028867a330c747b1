"""Cases of a calibration: a behaviour of the server and a load each; the study that runs them with given tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loadbook.core.errors import ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target

STUDY_NAMES = {"closed": "calibration-closed", "open": "calibration-open"}
DURATION_S, TIMEOUT_S = 3, 10
CASE_S = 4.0  # expected duration of a case, with the start of server and tool
HOLD_S, HOLD_LIMITED_S = 0.020, 0.010  # of a response, and of one of the limited server
# behaviour -> variables of the service go-app, and what it does
BEHAVIOURS: dict[str, tuple[dict[str, int], str]] = {
    "steady": ({"hold_ms": 20}, "every response takes 20 ms"),
    "frozen": (
        {"hold_ms": 20, "freeze_at_ms": 1000, "freeze_ms": 1000},
        "every response takes 20 ms; requests of the second second wait for its end",
    ),
    "limited": ({"hold_ms": 10, "slots": 5}, "5 requests at a time of 10 ms each: 500 requests a second at most"),
    "failing": ({"hold_ms": 20, "error_every": 100}, "every response takes 20 ms; 1 % have status 500"),
    "cold": (
        {"hold_ms": 20, "first_ms": 200},
        "every response takes 20 ms, the first of a connection 200 ms longer",
    ),
}


class Case(NamedTuple):
    """A behaviour of the server (a key of `BEHAVIOURS`) and a load; `rate_per_s` is None for a closed loop."""

    name: str
    behaviour: str
    connections: int
    rate_per_s: float | None = None

    @property
    def load_model(self) -> str:
        """Return "closed" or "open"."""
        return "closed" if self.rate_per_s is None else "open"


CASES = (
    *(Case(behaviour, behaviour, 10) for behaviour in BEHAVIOURS),
    Case("steady-100", "steady", 200, 100.0),
    Case("steady-400", "steady", 200, 400.0),
    Case("frozen-200", "frozen", 300, 200.0),
    Case("frozen-200-few", "frozen", 10, 200.0),
    Case("limited-300", "limited", 300, 300.0),
    Case("limited-750", "limited", 900, 750.0),
    Case("failing-200", "failing", 200, 200.0),
    Case("cold-200", "cold", 200, 200.0),
)
CASES_BY_NAME = {case.name: case for case in CASES}


def case_workload(tool: str, case: Case) -> Workload:
    """Return the load of a case by a tool."""
    fields: dict[str, object] = {
        "tool": tool, "model": case.load_model, "target": "server", "connections": case.connections,
        "duration_s": DURATION_S, "warmup_s": 0, "timeout_s": TIMEOUT_S,
    }  # fmt: skip
    fields |= {"rate_per_s": case.rate_per_s} if case.rate_per_s else {}
    if not base.load_tool(tool).has_timeout:
        del fields["timeout_s"]
    return Workload.model_validate(fields)


def usable_cases(tool: str) -> list[Case]:
    """Return the cases whose load a tool can make."""
    usable = []
    for case in CASES:
        try:
            base.load_tool(tool).command(case_workload(tool, case), Target("192.0.2.1", 80), DURATION_S)
        except ToolError:
            continue
        usable.append(case)
    return usable


def treatment_name(tool: str, case: Case) -> str:
    """Return the name of the treatment that runs a case with a tool."""
    return f"{tool}-{case.name}"


def study_text(tools: Sequence[str], load_model: str, blocks: int) -> str | None:
    """Return the text of the study file that runs every case of a load model ("closed" or "open") with these tools.

    None if no tool can make such a load.
    """
    arms = [(tool, case) for tool in tools for case in usable_cases(tool) if case.load_model == load_model]
    if not arms:
        return None
    behaviours = ""
    for name, (settings, _) in BEHAVIOURS.items():
        values = ", ".join(f"{variable} = {value}" for variable, value in settings.items())
        behaviours += f"[roles.server.variants.{name}]\nvars = {{ {values} }}\n\n"
    rate = "" if load_model == "closed" else f"\nrate_per_s = {arms[0][1].rate_per_s:g}"
    treatments = "\n".join(_treatment(tool, case) for tool, case in arms)
    return f"""# Made by loadbook calibrate: every load generator against a server that records what it answered.
schema = 1
name = "{STUDY_NAMES[load_model]}"
question = "Which numbers of the load generators on this driver may be trusted?"
metric = "requests_per_s"
baseline = "{treatment_name(*arms[0])}"
margin = 0.05
blocks = {blocks}
seed = 1
execution = "plain"
notebooks = ["run_quality"]

[roles.driver]
nofile = 4096

[roles.server]
service = "go-app"
nofile = 4096
[roles.server.vars]
record = "on"
{behaviours}[workload]
tool = "{arms[0][0]}"
model = "{load_model}"
role = "driver"
target = "server"
path = "/"
connections = {arms[0][1].connections}{rate}
duration_s = {DURATION_S}
warmup_s = 0
expect_status = 200

[factors]
behaviour = {{ role = "server", of = "variant", levels = [{", ".join(f'"{name}"' for name in BEHAVIOURS)}] }}

# Errors and waits are what is measured.
[validity]
max_error_share = 1.0
driver_cpu = 1.0

{treatments}"""


def _treatment(tool: str, case: Case) -> str:
    load = [f'tool = "{tool}"', f"connections = {case.connections}"]
    load += [f"rate_per_s = {case.rate_per_s:g}"] if case.rate_per_s else []
    load += [f"timeout_s = {TIMEOUT_S}"] if base.load_tool(tool).has_timeout else []
    return f"""[treatments."{treatment_name(tool, case)}"]
label = "{tool}: {case.name}"
set = {{ behaviour = "{case.behaviour}" }}
workload = {{ {", ".join(load)} }}
"""
