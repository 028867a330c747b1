"""Behaviours of the Go application that calibrations use, and the record of what it answered."""

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from loadbook.services import Instance
from local_host import LocalHost
from shared_builds import Running, needs_go
from waiting import PATIENCE_S

pytestmark = needs_go


@contextmanager
def connection(app: Instance) -> Iterator[http.client.HTTPConnection]:
    line = http.client.HTTPConnection(app.address, app.port, timeout=PATIENCE_S)
    yield line
    line.close()


def ask(line: http.client.HTTPConnection) -> tuple[int, float]:
    """Return the status of a request and the seconds that it took."""
    begun = time.monotonic()
    line.request("GET", "/")
    response = line.getresponse()
    response.read()
    return response.status, time.monotonic() - begun


def records(app: Instance) -> list[dict[str, Any]]:
    lines = app.log().decode().splitlines()
    return [json.loads(line.removeprefix("record ")) for line in lines if line.startswith("record ")]


def test_record_holds_the_requests_since_the_last_probe(here: LocalHost, running: Running) -> None:
    app = running("go-app", hold_ms=20, record="on")
    app.counters(here)
    before = len(records(app))
    with connection(app) as line, connection(app) as other:
        took = [ask(line)[1] for _ in range(5)] + [ask(other)[1]]
    app.counters(here)
    app.counters(here)
    first, second = records(app)[before:]
    assert (first["requests"], first["errors"], first["connections"]) == (6, 0, 2)
    # what the server held is part of what the client waited, request by request
    assert 0.020 <= first["held_s"]["p50"] <= sorted(took)[2]
    assert 0.020 <= first["held_s"]["p50"] <= first["held_s"]["p99"] <= first["held_s"]["max"] <= max(took)
    assert first["span_s"] == pytest.approx(sum(took), rel=0.2) and first["freeze_s"] is None
    assert second["requests"] == 0 and second["held_s"] is None


def test_requests_of_a_freeze_wait_for_its_end(here: LocalHost, running: Running) -> None:
    app = running("go-app", freeze_at_ms=200, freeze_ms=400, record="on")
    app.counters(here)
    begun = time.monotonic()
    with connection(app) as line:
        before = ask(line)[1]
        time.sleep(max(0.0, begun + 0.3 - time.monotonic()))
        frozen = ask(line)[1]
        after = ask(line)[1]
    app.counters(here)
    record = records(app)[-1]
    assert before < 0.1 and after < 0.1 and frozen == pytest.approx(0.3, abs=0.1)
    assert record["freeze_s"] == pytest.approx([0.2, 0.6], abs=0.001)
    assert record["held_s"]["max"] == pytest.approx(frozen, abs=0.05)


def test_every_nth_response_is_an_error(here: LocalHost, running: Running) -> None:
    app = running("go-app", error_every=3, record="on")
    app.counters(here)
    with connection(app) as line:
        statuses = [ask(line)[0] for _ in range(7)]
    app.counters(here)
    assert statuses == [200, 200, 500, 200, 200, 500, 200]
    assert records(app)[-1]["errors"] == 2


def test_first_request_of_every_connection_takes_longer(here: LocalHost, running: Running) -> None:
    app = running("go-app", first_ms=100)
    took = []
    for _ in range(2):
        with connection(app) as line:
            took.append([ask(line)[1] for _ in range(2)])
    assert all(first >= 0.1 > second for first, second in took)


def test_record_counts_requests_that_wait_for_a_slot(here: LocalHost, running: Running) -> None:
    app = running("go-app", hold_ms=20, slots=1, record="on")
    app.counters(here)

    def one(_: int) -> float:
        with connection(app) as line:
            return ask(line)[1]

    begun = time.monotonic()
    with ThreadPoolExecutor(5) as pool:
        took = sorted(pool.map(one, range(5)))
    elapsed = time.monotonic() - begun  # a request may begin late on a busy machine, so that its own time says less
    app.counters(here)
    record = records(app)[-1]
    assert record["requests"] == record["connections"] == 5
    assert 5 * 0.020 - 0.001 <= record["span_s"] <= elapsed and 0.020 <= record["held_s"]["max"] <= took[-1]
