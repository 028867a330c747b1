"""What is requested and how hard: one model for every load generator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0, le=86400)]
HeaderText = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$", max_length=2000)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=2000)]


class Workload(BaseModel):
    """The load of one study.

    Closed: `connections` each send the next request when the last is answered and `think_time_s` is over. Open:
    `rate_per_s` requests start every second whatever the server does, `calls_per_connection` on each connection.
    Times are seconds. With `requests` the load ends after so many of them, all connections together, and `duration_s`
    is what they are expected to take: plans count with it, and a load that takes over three times as long has hung.
    `plan` names a file beside the study with a plan of the tool's own (JMeter's .jmx); `plan_text` is what it holds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

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
    def _rate_goes_with_open(self) -> Workload:
        if self.model == "open" and self.rate_per_s is None:
            raise ValueError("an open load needs rate_per_s (requests started per second)")
        if self.model == "closed" and self.rate_per_s is not None:
            raise ValueError("rate_per_s goes with model = 'open'")
        return self

    @model_validator(mode="after")
    def _each_connection_has_work(self) -> Workload:
        if self.think_time_s and self.model == "open":
            raise ValueError("think_time_s goes with model = 'closed': an open load waits for nothing")
        if self.requests is not None and self.model == "closed" and self.requests < self.connections:
            raise ValueError(f"{self.requests} requests leave some of {self.connections} connections without any")
        return self

    @property
    def longest_s(self) -> float:
        """Seconds after which the load counts as hung, without what a tool may add of its own."""
        return self.duration_s * (3 if self.requests is not None else 1) + self.timeout_s

    def shortened(self, duration_s: float, warmup_s: float) -> Workload:
        """Return the same load for another time; a number of requests shrinks or grows with it.

        A load without warm-up stays without: where pages wait for one another, what a warm-up leaves is in the way.
        """
        each = 1 if self.requests is None or self.requests % self.connections else self.connections  # stays even
        share = duration_s / self.duration_s / each
        requests = self.requests and max(round(self.requests * share) * each, self.connections)
        times = {"duration_s": duration_s, "warmup_s": min(warmup_s, self.warmup_s)}
        return self.model_copy(update=times | {"requests": requests})
