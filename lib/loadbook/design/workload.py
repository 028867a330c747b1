"""What is requested and how hard: one model for every load generator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0, le=86400)]
HeaderText = Annotated[str, Field(pattern=r"^[\x20-\x7e]*$", max_length=2000)]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=2000)]


class Workload(BaseModel):
    """The load of one study.

    Closed: `connections` each send the next request when the last is answered. Open: `rate_per_s` requests start
    every second whatever the server does, `calls_per_connection` on each connection. Times are seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tool: str
    model: Literal["closed", "open"] = "closed"
    role: str = "driver"
    target: str = "web"
    path: UrlPath = "/"
    duration_s: Seconds = 10.0
    warmup_s: Annotated[float, Field(ge=0, le=3600)] = 2.0
    connections: Annotated[int, Field(gt=0, le=100_000)] = 50
    threads: Annotated[int, Field(gt=0, le=1024)] = 1
    rate_per_s: Annotated[float, Field(gt=0)] | None = None
    calls_per_connection: Annotated[int, Field(gt=0)] = 1
    keepalive: bool = True
    timeout_s: Seconds = 2.0
    headers: dict[HeaderText, HeaderText] = Field(default_factory=dict)
    expect_status: Annotated[int, Field(ge=100, le=599)] = 200
    expect_bytes: Annotated[int, Field(ge=0)] | None = None
    extra: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _rate_goes_with_open(self) -> Workload:
        if self.model == "open" and self.rate_per_s is None:
            raise ValueError("an open load needs rate_per_s (requests started per second)")
        if self.model == "closed" and self.rate_per_s is not None:
            raise ValueError("rate_per_s goes with model = 'open'")
        return self
