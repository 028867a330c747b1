"""What every tool checks before it builds a command: the workload must be one that the tool can really make."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from loadbook.core.errors import ToolError
from loadbook.design.workload import Workload
from loadbook.tools import registry
from loadbook.tools.base import Target, Tool

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # a header field name, RFC 9110 section 5.1

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def check_model(tool: Tool, workload: Workload) -> None:
    """Raise ToolError if the tool cannot make loads of this model, naming the tools that can."""
    if workload.model not in tool.load_models:
        capable = ", ".join(registry.tool_names(workload.model)) or "none yet"
        raise ToolError(f"{tool.name} cannot make {workload.model}-loop loads", f"tools that can: {capable}")


def check_workload(
    tool: Tool, workload: Workload, reserved_options: Sequence[str] = (), supported_fields: Sequence[str] = (), secret_options: Sequence[str] = ()
) -> None:
    """Raise ToolError unless the tool can make such a load: its model, its fields, and what `extra` may hold."""
    check_model(tool, workload)
    check_fields(tool, workload, supported_fields)
    check_secrets(workload, secret_options)  # first: the next one quotes what it refuses
    check_extra(tool, workload, reserved_options)


# headers that carry a login
_SECRET_HEADER = re.compile(r"(?:proxy-)?authorization|(?:set-)?cookie|x-(?:api-key|auth-token|csrf-token)", re.IGNORECASE)


def check_secrets(workload: Workload, options: Sequence[str] = ()) -> None:
    """Raise ToolError if the load would send a login: what a study says stands in its records and in process lists.

    `options` are those by which the tool itself takes one, as typed.
    """
    logins = [name for name in workload.headers if _SECRET_HEADER.fullmatch(name)]
    logins += [word.split(":")[0] for word in workload.extra if re.search(rf"({_SECRET_HEADER.pattern})\s*:", word, re.I)]
    logins += [option for option in options for word in workload.extra if word.startswith(option)]
    if logins:
        raise ToolError(
            f"the load has {logins[0]}: a login in a study would stand in data, reports and process lists",
            "measure what needs none, or keep it in a file on the driver (wrk -s SCRIPT, jmeter -q PROPERTIES)",
        )


# fields of the workload -> not asked for
_FIELD_DEFAULTS = {"requests": None, "think_time_s": 0.0, "calls_per_connection": 1, "plan": None}
_UNSUPPORTED_TEXTS = {
    "requests": "cannot end after a number of requests",
    "think_time_s": "cannot make its connections wait between requests (think_time_s)",
    "calls_per_connection": "cannot limit calls_per_connection",
    "plan": "has no plans",
}


def check_fields(tool: Tool, workload: Workload, supported_fields: Sequence[str] = ()) -> None:
    """Raise ToolError for the first field that the workload sets and the tool has no option for.

    `supported_fields` names those of ``requests``, ``think_time_s``, ``calls_per_connection`` and ``plan`` that the tool can do.
    """
    for name, unset in _FIELD_DEFAULTS.items():
        if name not in supported_fields and getattr(workload, name) != unset:
            raise ToolError(f"{tool.name} {_UNSUPPORTED_TEXTS[name]}", f"leave workload.{name} out")


def check_no_timeout(tool: Tool, workload: Workload) -> None:
    """Raise ToolError if the workload sets a time-out, for a tool that has none."""
    if workload.timeout_s != Workload.model_fields["timeout_s"].default:
        raise ToolError(f"{tool.name} has no time-out for requests", "leave workload.timeout_s out")


def check_extra(tool: Tool, workload: Workload, reserved_options: Sequence[str]) -> None:
    """Raise ToolError if `extra` repeats an option that the workload's own fields decide.

    `reserved_options` holds option names as typed; an attached value (``-d5``, ``--rate=5``) and, for long options, the
    unambiguous prefixes that getopt accepts (``--num-conn``) are recognised too.
    """
    for word in workload.extra:
        if _ADDRESS.match(word):
            raise ToolError(
                f"workload.extra has the address {word!r}: where the load goes comes from the study alone",
                "set workload.target, workload.path and workload.scheme",
            )
        name = word.partition("=")[0]
        if word.startswith("--"):
            clash = [o for o in reserved_options if o.startswith("--") and len(name) > 2 and o.startswith(name)]
        else:
            clash = [o for o in reserved_options if not o.startswith("--") and word.startswith(o)]
        if clash:
            raise ToolError(
                f"workload.extra has {word!r}, but {clash[0]} of {tool.name} comes from the workload's own fields",
                "set the field of the workload instead",
            )


def whole_seconds(tool: Tool, field: str, value_s: float) -> int:
    """Return `value_s` as an integer of at least 1; ToolError for anything that is not whole seconds."""
    if value_s != int(value_s) or value_s < 1:
        raise ToolError(
            f"{tool.name} takes whole seconds only: {field} = {value_s:g} s cannot be done",
            f"use {math.ceil(value_s)} s",
        )
    return int(value_s)


def request_headers(workload: Workload) -> dict[str, str]:
    """Return the request headers, with ``Connection: close`` when connections are not kept alive."""
    for name in workload.headers:
        if not _TOKEN.match(name):
            raise ToolError(f"workload.headers: {name!r} is not a header name", "use letters, digits and '-'")
    fields = dict(workload.headers)
    if not workload.keepalive:
        fields = {k: v for k, v in fields.items() if k.lower() != "connection"} | {"Connection": "close"}
    return fields


def target_url(target: Target, path: str) -> str:
    """Return the URL of `path` on the target; IPv6 addresses in brackets."""
    host = f"[{target.address}]" if ":" in target.address else target.address
    return f"{target.scheme}://{host}:{target.port}{path}"
