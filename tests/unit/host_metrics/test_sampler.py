"""The sampler with perl and under three shells, and its parser on real captures, cut and mutated."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.host_metrics.sampler import parse_sampler
from sampler_results import check

CAPTURES = {p.stem: p.read_bytes() for p in Path("tests/fixtures/hosts").glob("sampler-*.txt")}
LOAD = CAPTURES["sampler-load"]


def values(traces, metric: str, item: str = "all") -> list[float]:
    return [row["value"] for row in traces.rows if (row["metric"], row["item"]) == (metric, item)]


def test_recorded_sampler_output_of_a_busy_host_is_read():
    traces = parse_sampler(LOAD)
    check(traces)
    assert [p.name for p in traces.problems] == ["process_gone"] * 3
    assert len(traces.times) == 12
    assert traces.times[0] == pytest.approx(1795220078.945)
    # cpu0: 29371 -> 29395 user, 1461 nice, 27411 -> 27412 system, 165623 idle: all of 25 ticks busy
    assert values(traces, "cpu_busy", "cpu0")[0] == 1.0
    assert values(traces, "cpu_user", "cpu0")[0] == pytest.approx(24 / 25)
    assert values(traces, "memory_total")[0] == 24684084 * 1024
    assert values(traces, "memory_used")[0] == (24684084 - 23980128) * 1024
    assert values(traces, "sockets_tcp_tw")[0] == 14003
    assert values(traces, "load1")[0] == 1.94
    busy = [row["value"] for row in traces.rows if row["metric"] == "process_cpu" and row["value"] > 0]
    assert busy and max(busy) <= 1.1
    assert not [row for row in traces.rows if row["item"] in ("ifb0", "ifb1")]


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_recorded_sampler_output_of_every_shell_is_read(name):
    traces = parse_sampler(CAPTURES[name])
    check(traces)
    assert {p.name for p in traces.problems} <= {"process_gone"}
    assert max(later - earlier for earlier, later in pairwise(traces.times)) < 3 * traces.interval_s


def test_sampler_truncated_last_sample_is_reported_and_dropped():
    whole = len(parse_sampler(LOAD).times)
    torn = parse_sampler(LOAD[:-40])
    check(torn)
    assert len(torn.times) == whole - 1
    assert "torn_sample" in [p.name for p in torn.problems]


def test_sampler_gap_is_reported_and_gives_no_rate():
    blocks = LOAD.split(b"@ ")
    gap = b"@ ".join([*blocks[:3], *blocks[8:]])
    traces = parse_sampler(gap)
    check(traces)
    assert len(values(traces, "cpu_busy")) == len(traces.times) - 2
    assert "gap" in [p.name for p in traces.problems]


def test_sampler_counter_that_decreases_is_reported_and_gives_no_rate():
    wrapped = LOAD.replace(b"    lo: 83466", b"    lo: 3466", 5).replace(b"    lo: 3466", b"    lo: 83466", 4)
    traces = parse_sampler(wrapped)
    check(traces)
    assert "counter_went_back" in [p.name for p in traces.problems]
    assert len(values(traces, "net_rx", "lo")) == len(traces.times) - 2


@pytest.mark.parametrize(
    "data", [b"", b"sh: 1: getconf: not found\n", b"loadbook-sampler 2 1 2 3 4 5\n", b"\xff" * 100]
)
def test_sampler_parser_reports_other_files_as_a_problem(data):
    traces = parse_sampler(data)
    assert (traces.rows, [p.name for p in traces.problems]) == ([], ["no_sampler_output"])


@given(st.data())
def test_randomly_changed_sampler_output_never_raises_or_gives_impossible_values(data):
    text = bytearray(CAPTURES[data.draw(st.sampled_from(sorted(CAPTURES)))])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        match data.draw(st.sampled_from(["cut", "drop", "insert", "swap"])):
            case "cut":
                del text[at:]
            case "drop":
                del text[at : at + data.draw(st.integers(1, 3000))]
            case "insert":
                text[at:at] = data.draw(
                    st.binary(max_size=8) | st.sampled_from([b"\n", b".\n", b"@", b"9" * 30, b"-", b" "])
                )
            case "swap":
                text[at : at + 1] = data.draw(st.sampled_from([b"0", b"9", b" ", b"\0", b":", b"-", b"e"]))
    check(parse_sampler(bytes(text)))


@given(st.binary(max_size=400))
def test_sampler_parser_accepts_arbitrary_bytes_after_the_header(data):
    check(parse_sampler(b"loadbook-sampler 1 1000.5 10.0 100 4096 0.25\n" + data))


def test_sampler_uses_cpu_time_below_a_clock_tick():
    stat = "7 (apache2) S 1 7 7 0 -1 4194560 90 0 0 0 0 0 0 0 20 0 1 0 900 5000000 300 " + "0 " * 27 + "0"
    sample = "@ {n} httpd:7\n{up} 50.0\ncpu  {n} 0 0 {n} 0 0 0 0\n{stat}\n{ns} 0 1\n."
    lines = [sample.format(n=n, up=100 + n / 4, stat=stat, ns=5_000_000 * n) for n in range(4)]
    text = "\n".join(["loadbook-sampler 1 1000.0 100.0 100 4096 0.25", *lines, ""])
    traces = parse_sampler(text.encode())
    check(traces)
    assert not traces.problems
    assert values(traces, "process_cpu", "httpd:7") == pytest.approx([0.02] * 3)
    older = parse_sampler("\n".join(line for line in text.splitlines() if not line.endswith(" 0 1")).encode())
    assert values(older, "process_cpu", "httpd:7") == [0.0] * 3


def sampled(*blocks: str, page_bytes: int = 4096) -> bytes:
    """Return output of the sampler with these samples, one every second, with 100 ticks a second."""
    samples = [f"@ {n} httpd:7\n{10 + n}.0 50.0\n{block}\n." for n, block in enumerate(blocks)]
    return "\n".join([f"loadbook-sampler 1 1000.0 10.0 100 {page_bytes} 1", *samples, ""]).encode()


def process(ticks: tuple[int, int], start: int, pages: int) -> str:
    return f"7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 {ticks[0]} {ticks[1]} 0 0 20 0 1 0 {start} 5000000 {pages} " + "0 " * 28


def test_every_number_of_a_sample_is_read() -> None:
    def block(cpu: str, rx: int, tx: int, ticks: tuple[int, int]) -> str:
        flow = f"  eth0: {rx} 1 2 3 4 5 6 7 {tx} 1 2 3 4 5 6 7\n  eth1: 0 0 0 0 0 0 0 0 {tx} 0 0 0 0 0 0 0"
        gauges = "MemTotal: 1000 kB\nMemAvailable: 300 kB\n0.25 0.5 0.75 1/100 9\nTCP: inuse 4 orphan 1 tw 6 alloc 7"
        return f"cpu {cpu} 90 90\n{flow}\n{gauges}\n{process(ticks, 900, 30)}"

    first, second = "10 0 20 900 5 1 2 3", "30 5 30 950 9 4 6 7"
    traces = parse_sampler(
        sampled(block(first, 1000, 500, (10, 5)), block(second, 5000, 700, (20, 15)), page_bytes=16384)
    )
    check(traces)
    assert not traces.problems and traces.times == [1000.0, 1001.0]
    assert {(row["metric"], row["item"]): row["value"] for row in traces.rows if row["t"] == 1001.0} == {
        ("cpu_user", "all"): pytest.approx(0.25), ("cpu_system", "all"): pytest.approx(0.17),
        ("cpu_iowait", "all"): pytest.approx(0.04), ("cpu_steal", "all"): pytest.approx(0.04),
        ("cpu_busy", "all"): pytest.approx(0.46), ("net_rx", "eth0"): 4000.0, ("net_tx", "eth0"): 200.0,
        ("net_rx", "eth1"): 0.0, ("net_tx", "eth1"): 200.0, ("memory_used", "all"): 700 * 1024,
        ("memory_total", "all"): 1000 * 1024, ("load1", "all"): 0.25, ("sockets_tcp_inuse", "all"): 4.0,
        ("sockets_tcp_tw", "all"): 6.0, ("process_rss", "httpd:7"): 30 * 16384,
        ("process_cpu", "httpd:7"): pytest.approx(0.2),
    }  # fmt: skip


@pytest.mark.parametrize(("ticks", "start", "problem"), [
    ((10, 4), 900, "counter_went_back"), ((90, 90), 901, "process_gone"), ((10, 5), 900, None),
])  # fmt: skip
def test_process_whose_id_was_used_again_has_no_cpu_time(
    ticks: tuple[int, int], start: int, problem: str | None
) -> None:
    cpu = "cpu {} 0 0 {} 0 0 0 0\n"
    traces = parse_sampler(
        sampled(cpu.format(1, 1) + process((10, 5), 900, 30), cpu.format(2, 2) + process(ticks, start, 30))
    )
    assert [p.name for p in traces.problems] == ([problem] if problem else [])
    assert values(traces, "process_cpu", "httpd:7") == ([] if problem else [0.0])


@pytest.mark.parametrize("state", range(8))
def test_cpu_times_that_went_back_give_no_share_except_idle_and_iowait(state: int) -> None:
    before, after = [100] * 8, [110 if n != state else 99 for n in range(8)]
    traces = parse_sampler(sampled(*(f"cpu {' '.join(map(str, counts))}" for counts in (before, after))))
    waiting = state in (3, 4)
    assert [p.name for p in traces.problems] == ([] if waiting else ["counter_went_back"])
    assert values(traces, "cpu_busy") == ([pytest.approx(6 / 7)] if waiting else [])


@pytest.mark.parametrize(("uptime", "gaps"), [("13.0", 0), ("13.1", 1)])
def test_sampler_gap_is_longer_than_three_intervals(uptime: str, gaps: int) -> None:
    text = sampled("cpu 1 0 0 1 0 0 0 0", "cpu 2 0 0 2 0 0 0 0").replace(b"11.0", uptime.encode())
    traces = parse_sampler(text)
    assert [p.name for p in traces.problems] == ["gap"] * gaps
    assert values(traces, "cpu_busy") == [0.5] * (1 - gaps)


def test_sample_that_is_out_of_order_or_has_no_cpu_is_not_read() -> None:
    text = sampled(*(f"cpu {n} 0 0 {n} 0 0 0 0" for n in range(1, 5)))
    for change in ((b"12.0 50.0", b"11.0 50.0"), (b"cpu 3 0 0 3 0 0 0 0", b"MemTotal: 1000 kB"), (b"cpu 3", b"cpu -3")):
        traces = parse_sampler(text.replace(*change))
        assert [p.name for p in traces.problems] == ["unreadable_sample"]
        assert traces.times == [1000.0, 1001.0, 1003.0] and values(traces, "cpu_busy") == [0.5] * 2


def test_interface_and_process_that_come_later_have_a_rate_from_their_second_sample_on() -> None:
    late = "\neth0: 9000 1 2 3 4 5 6 7 9000 1 2 3 4 5 6 7\n" + process((90, 90), 900, 30)
    traces = parse_sampler(sampled("cpu 1 0 0 1 0 0 0 0", *(f"cpu {n} 0 0 {n} 0 0 0 0{late}" for n in (2, 3))))
    assert not traces.problems
    assert values(traces, "net_rx", "eth0") == values(traces, "process_cpu", "httpd:7") == [0.0]
