"""The load of a study, one model for all load generators, and its division among several drivers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from loadbook.core.errors import UsageError

Seconds = Annotated[float, Field(gt=0, le=86400)]


@dataclass(frozen=True)
class Matching:
    """Pydantic annotation of a text that must match `pattern` as a whole.

    Otherwise validation fails with `words`, which state what is expected: "must be a host name".
    """

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the text, with the check."""
        return no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema of the text, with the regular expression."""
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"must be {self.words}")
        return text


FILE_NAME = "the name of a file beside the study, of letters, digits and . _ -"
URL_PATH = "a path that begins with / and has no space (only ASCII)"
HeaderText = Annotated[str, Field(max_length=2000), Matching(r"[\x20-\x7e]*", "a text of printable ASCII characters")]
FileName = Annotated[str, Field(max_length=200), Matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", FILE_NAME)]
UrlPath = Annotated[str, Field(max_length=2000), Matching(r"/[!-~]*", URL_PATH)]


class StrictModel(BaseModel):
    """Base of all tables of a study file: no unknown keys, immutable, only finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Workload(StrictModel):
    """Workload of a study; a key that a tool does not support is an error and never ignored (docs/tools.md).

    Attributes
    ----------
    tool : load generator (docs/tools.md).
    model : "closed": each connection sends its next request after a response; "open": requests start at a given rate,
        regardless of the server.
    role : role whose hosts, all of them, generate the load.
    target : role that gets the load.
    scheme : http or https; with https, any certificate is accepted.
    path : path of the page; it cannot name another host.
    duration_s : seconds of measurement.
    requests : number of requests, over all connections, after which the load ends; duration_s is then the expected
        time, and a load that takes more than three times as long counts as hung.
    warmup_s : seconds of the same load before the measurement.
    connections : number of open connections, over all drivers.
    max_connections : of an open load of vegeta or k6, which open more connections while responses are outstanding: the
        largest number, over all drivers; requests beyond it start late. Without it, as many as it takes.
    request_times : the tool writes the time of every request, from its intended start, too. `[capacity]` sets it.
    threads : number of threads of the tool, on each driver.
    think_time_s : seconds between a response and the next request on its connection; only for closed loads.
    rate_per_s : requests that start per second, over all drivers; required for open loads, only allowed there.
    arrivals : of an open load: "even" (evenly spaced), "poisson" (independent of each other), or "users":
        `connections` users, who wait a random time after each response, so long that they make the rate together.
    calls_per_connection : requests on each connection of an open load.
    keepalive : false opens a new connection for every request.
    timeout_s : seconds after which a request counts as failed.
    headers : headers of each request; no credentials, since they would appear in data and process lists.
    expect_status : status with which the page must answer before and after the load.
    expect_bytes : size in bytes that the page must have.
    extra : further options of the tool, for settings without a key here.
    plan : file beside the study with the plan or script of the tool (JMeter, k6, Locust), or targets (vegeta).
    plan_text : content of this file; filled in when the study is read.
    """

    tool: str
    model: Literal["closed", "open"] = "closed"
    role: str = "driver"
    target: str = "web"
    scheme: Literal["http", "https"] = "http"
    path: UrlPath = "/"
    duration_s: Seconds = 10.0
    requests: Annotated[int, Field(gt=0, le=1_000_000_000)] | None = None
    warmup_s: Annotated[float, Field(ge=0, le=3600)] = 2.0
    connections: Annotated[int, Field(gt=0, le=100_000)] = 50
    max_connections: Annotated[int, Field(gt=0, le=1_000_000)] | None = None
    request_times: bool = False
    threads: Annotated[int, Field(gt=0, le=1024)] = 1
    think_time_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    rate_per_s: Annotated[float, Field(gt=0)] | None = None
    arrivals: Literal["even", "poisson", "users"] = "even"
    calls_per_connection: Annotated[int, Field(gt=0)] = 1
    keepalive: bool = True
    timeout_s: Seconds = 2.0
    headers: dict[HeaderText, HeaderText] = Field(default_factory=dict)
    expect_status: Annotated[int, Field(ge=100, le=599)] = 200
    expect_bytes: Annotated[int, Field(ge=0)] | None = None
    extra: tuple[str, ...] = ()
    plan: FileName | None = None
    plan_text: Annotated[str, Field(max_length=1_000_000)] | None = None

    @model_validator(mode="after")
    def _check_combinations(self) -> Workload:
        if self.model == "open" and self.rate_per_s is None:
            raise ValueError("an open load needs rate_per_s (requests started per second)")
        if self.model == "closed" and self.rate_per_s is not None:
            raise ValueError("rate_per_s goes with model = 'open'")
        if self.model == "closed" and self.arrivals != "even":
            raise ValueError("arrivals goes with model = 'open': a closed load has no rate")
        if self.max_connections is not None and self.model == "closed":
            raise ValueError("max_connections goes with model = 'open': a closed load has `connections`")
        if self.request_times and self.model == "closed":
            raise ValueError("request_times goes with model = 'open': a closed load has no intended starts")
        if self.max_connections is not None and self.max_connections < self.connections:
            raise ValueError(f"max_connections = {self.max_connections} is less than connections = {self.connections}")
        if self.think_time_s and self.model == "open":
            raise ValueError("think_time_s goes with model = 'closed': an open load waits for nothing")
        if self.requests is not None and self.model == "closed" and self.requests < self.connections:
            raise ValueError(f"{self.requests} requests leave some of {self.connections} connections without any")
        return self

    @property
    def hang_limit_s(self) -> float:
        """Return the seconds after which the measured part of the load counts as hung.

        It begins after the warm-up, and has no extra time that a tool needs (`Tool.extra_timeout_s`).
        """
        return self.duration_s * (3 if self.requests is not None else 1) + self.timeout_s

    def with_duration(self, duration_s: float, warmup_s: float, least_requests: int = 1) -> Workload:
        """Return the same load for another duration; a number of requests, if any, is scaled with it.

        There are at least `least_requests`, and one for each connection. The warm-up is not longer than before.
        A load without warm-up stays without one, as requests left by it would disturb pages that wait for each other.
        """
        unit = 1 if self.requests is None or self.requests % self.connections else self.connections  # keep multiples
        scale = duration_s / self.duration_s / unit
        least = -(-max(self.connections, least_requests) // unit) * unit
        requests = self.requests and max(round(self.requests * scale) * unit, least)
        times = {"duration_s": duration_s, "warmup_s": min(warmup_s, self.warmup_s)}
        return self.model_copy(update=times | {"requests": requests})


def spinning_reason(tool: str, scheme: str, *, keepalive: bool) -> str | None:
    """Return the reason why a load generator fills its CPU whatever its load; None if its CPU use tells its limit.

    httperf polls without pause (httperf(1)). wrk and wrk2 wait for a TLS handshake by asking whether the socket is
    writable, which it is all the time (wrk.c, `socket_connected`): with a connection for every request they ask without
    end. Measured: wrk filled one CPU at 430 and at 1,590 handshakes a second alike.
    """
    if tool == "httperf":
        return f"{tool} fills its CPU by design"
    if tool in ("wrk", "wrk2") and scheme == "https" and not keepalive:
        return f"{tool} fills its CPU while a TLS handshake is under way"
    return None


def split_load(workload: Workload, drivers: Sequence[str]) -> dict[str, Workload]:
    """Return each driver's part of the load; a single driver gets all of it.

    `connections`, `max_connections`, `requests` and `rate_per_s` are divided so that they add up, in whole numbers if
    the total is one (a rate: whole connections per second); the first drivers get one more if the division leaves a
    remainder. All other keys, including `threads` and `extra`, are the same on every driver.

    Raises
    ------
    UsageError : fewer connections or requests than drivers.
    """
    count = len(drivers)
    shares: dict[str, Sequence[float]] = {}
    totals = {
        "connections": workload.connections,
        "max_connections": workload.max_connections,
        "requests": workload.requests,
    }
    for key, total in totals.items():
        if total is not None and total < count:
            raise UsageError(
                f"workload.{key} = {total} cannot be shared among {count} drivers",
                f"raise workload.{key}, or give fewer hosts the role",
            )
        shares |= {} if total is None else {key: _split_evenly(total, count)}
    if (rate := workload.rate_per_s) is not None:
        shares["rate_per_s"] = [rate / count] * count
        for unit in (1, workload.calls_per_connection):  # whole connections per second if possible, else whole requests
            if (rate / unit).is_integer() and rate / unit >= count:
                shares["rate_per_s"] = [float(part * unit) for part in _split_evenly(int(rate / unit), count)]
    return {
        driver: workload.model_copy(update={key: parts[k] for key, parts in shares.items()})
        for k, driver in enumerate(drivers)
    }


def _split_evenly(total: int, count: int) -> list[int]:
    least, more = divmod(total, count)
    return [least + (k < more) for k in range(count)]


def matching_option(word: str, options: Sequence[str]) -> str | None:
    """Return the first of `options` that a word of a command line sets, or None.

    Options with an attached value (``-d5``, ``--rate=5``) and abbreviated long options (``--num-conn``), which getopt
    accepts, are recognised too.
    """
    name = word.partition("=")[0]
    if word.startswith("--"):
        matching = (o for o in options if o.startswith("--") and len(name) > 2 and o.startswith(name))
    else:
        matching = (o for o in options if not o.startswith("--") and word.startswith(o))
    return next(matching, None)
