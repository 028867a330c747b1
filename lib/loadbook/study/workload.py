"""The load of a study, one model for every load generator, and its shares on several drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from loadbook.core.errors import UsageError

Seconds = Annotated[float, Field(gt=0, le=86400)]
HeaderText = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$", max_length=2000)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=2000)]


class StrictModel(BaseModel):
    """Base of all tables of a study file: no unknown keys, immutable, finite numbers only."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Workload(StrictModel):
    """The workload of a study; settings that a tool does not support are refused, never ignored (docs/tools.md).

    Attributes
    ----------
    tool : the load generator (docs/tools.md).
    model : closed: each connection sends the next request when the last is answered; open: requests start at a rate,
        whatever the server does.
    role : who drives: all hosts of this role.
    target : the role that gets the load.
    scheme : https takes any certificate.
    path : what is asked for; it cannot lead to another host.
    duration_s : seconds of measurement.
    requests : end after so many, all connections together; duration_s is then what they are expected to take, and a
        load that takes over three times as long has hung.
    warmup_s : seconds of the same load before the measurement.
    connections : open at a time, all drivers together.
    threads : of the tool, on each driver.
    think_time_s : seconds between an answer and the next request of its connection; closed loads only.
    rate_per_s : requests that start each second, all drivers together; open loads only, and needed there.
    calls_per_connection : requests on each connection of an open load.
    keepalive : false: a connection for every request.
    timeout_s : seconds after which a request counts as lost.
    headers : of each request; no login, as it would stand in data and process lists.
    expect_status : what the page must answer before and after the load.
    expect_bytes : how long the page must be.
    extra : options of the tool's own, for what no key here says.
    plan : a file beside the study with a plan of the tool's own (JMeter's .jmx).
    plan_text : what it holds; filled in when the study is read.
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
    threads: Annotated[int, Field(gt=0, le=1024)] = 1
    think_time_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    rate_per_s: Annotated[float, Field(gt=0)] | None = None
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
        if self.think_time_s and self.model == "open":
            raise ValueError("think_time_s goes with model = 'closed': an open load waits for nothing")
        if self.requests is not None and self.model == "closed" and self.requests < self.connections:
            raise ValueError(f"{self.requests} requests leave some of {self.connections} connections without any")
        return self

    @property
    def hang_limit_s(self) -> float:
        """Seconds after which the load counts as hung, without the tool's own extra time."""
        return self.duration_s * (3 if self.requests is not None else 1) + self.timeout_s

    def with_duration(self, duration_s: float, warmup_s: float) -> Workload:
        """Return the same load for another time; a number of requests shrinks or grows with it.

        A load without warm-up stays without: where pages wait for one another, what a warm-up leaves is in the way.
        """
        unit = 1 if self.requests is None or self.requests % self.connections else self.connections  # stays even
        scale = duration_s / self.duration_s / unit
        requests = self.requests and max(round(self.requests * scale) * unit, self.connections)
        times = {"duration_s": duration_s, "warmup_s": min(warmup_s, self.warmup_s)}
        return self.model_copy(update=times | {"requests": requests})


def split_load(workload: Workload, drivers: Sequence[str]) -> dict[str, Workload]:
    """Return each driver's part of a load; one driver has all of it.

    `connections`, `requests` and `rate_per_s` are shared so that they add up: in whole numbers where the total is one
    (a rate in whole connections per second), the first drivers getting one more where it does not come out even.
    Everything else, `threads` and `extra` among it, is the same on every driver.

    Raises
    ------
    UsageError : there are fewer connections or requests than drivers.
    """
    count = len(drivers)
    shares: dict[str, Sequence[float]] = {}
    for key, total in (("connections", workload.connections), ("requests", workload.requests)):
        if total is not None and total < count:
            raise UsageError(
                f"workload.{key} = {total} cannot be shared among {count} drivers",
                f"raise workload.{key}, or give fewer hosts the role",
            )
        shares |= {} if total is None else {key: _split_evenly(total, count)}
    if (rate := workload.rate_per_s) is not None:
        shares["rate_per_s"] = [rate / count] * count
        for unit in (1, workload.calls_per_connection):  # whole connections per second before whole requests
            if (rate / unit).is_integer() and rate / unit >= count:
                shares["rate_per_s"] = [float(part * unit) for part in _split_evenly(int(rate / unit), count)]
    return {
        driver: workload.model_copy(update={key: parts[k] for key, parts in shares.items()})
        for k, driver in enumerate(drivers)
    }


def _split_evenly(total: int, count: int) -> list[int]:
    least, more = divmod(total, count)
    return [least + (k < more) for k in range(count)]
