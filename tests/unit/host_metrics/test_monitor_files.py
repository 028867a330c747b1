"""Files of other monitors, real captures, cut and mutated: rows as the sampler gives, problems, never exceptions."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook import host_metrics
from loadbook.host_metrics import polled
from loadbook.host_metrics.base import MAX_REPEATED_PROBLEMS, UNITS, Problem, Traces, finite_number, limit_repeats

FOLDER = Path("tests/fixtures/traces")
FILES = {p.name: p.read_bytes() for p in FOLDER.iterdir() if p.is_file()}
RRD = {p.name: p.read_bytes() for p in (FOLDER / "rrd").iterdir()}
MEMORY = {name: data for name, data in RRD.items() if "memory" in name}
CPU = {name: data for name, data in RRD.items() if "cpu" in name and name.endswith(".txt")}
SHARES = ("cpu_busy", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal")
READABLE = [name for name in FILES if host_metrics.detect_format(FILES[name]) in host_metrics.FORMATS]


def check(traces: Traces) -> None:
    """What holds for every result, however broken its input."""
    assert traces.times == sorted(set(traces.times))
    for row in traces.rows:
        assert set(row) == {"t", "metric", "item", "value", "unit"}
        assert math.isfinite(row["value"]) and row["value"] >= 0  # type: ignore[arg-type]
        assert row["t"] in traces.times
        assert row["unit"] == UNITS[row["metric"]]
        assert row["metric"] not in SHARES or row["value"] <= 1 + 1e-9
    keys = Counter((r["t"], r["metric"], r["item"]) for r in traces.rows)
    assert not keys or max(keys.values()) == 1


def values(traces: Traces, metric: str, item: str = "all") -> list[float]:
    return [row["value"] for row in traces.rows if (row["metric"], row["item"]) == (metric, item)]


def read(name: str) -> Traces:
    kind = host_metrics.detect_format(FILES[name])
    assert kind is not None
    return host_metrics.read_traces(kind, {name: FILES[name]})


def read_sadf(*samples: dict[str, Any]) -> Traces:
    """Samples of one second each as ``sadf -j`` prints them."""
    stamps = [{"date": "2026-11-22", "time": f"06:11:0{n}", "utc": 1, "interval": 1} for n in range(len(samples))]
    entries = [{"timestamp": stamp} | sample for stamp, sample in zip(stamps, samples, strict=True)]
    return host_metrics.read_traces("sadf-json", {"x": json.dumps({"statistics": entries}).encode()})


def read_polls(kind: str, interval_s: float, *answers: tuple[float, float, str]) -> Traces:
    polls = "".join(polled.format_poll(*answer) for answer in answers)
    return host_metrics.read_traces(kind, {"x": (polled.header_line(kind, interval_s) + polls).encode()})


def test_monitor_file_format_is_detected_from_its_content():
    known = {name: host_metrics.detect_format(data) for name, data in FILES.items()}
    assert known["12.6.1--sa.dat"] == "sysstat"
    assert known["sar-12.6.1--text.txt"] is None
    assert {kind for name, kind in known.items() if name.startswith("sadf")} == {"sadf-json", "sadf-csv"}
    assert {kind for name, kind in known.items() if name.startswith("node")} == {"node-exporter"}
    assert {host_metrics.detect_format(data) for data in RRD.values()} == {"rrd"}
    assert host_metrics.files_by_format({"a": b"nothing", **CPU}) == {None: ["a"], "rrd": sorted(CPU)}


def test_sadf_json_gives_all_its_metrics():
    traces = read("sadf-12.6.1--all.json")
    check(traces)
    assert not traces.problems and traces.interval_s == 1
    assert traces.times == [1795327904.0 + n for n in range(6)]
    assert values(traces, "cpu_busy", "cpu0")[0] == 1.0
    assert values(traces, "cpu_user", "cpu1")[0] == pytest.approx(0.83)
    assert values(traces, "memory_total")[0] == 24684092 * 1024  # MemTotal of that machine
    assert values(traces, "memory_used")[0] == (24684092 - 22775008) * 1024
    assert values(traces, "net_tx", "lb718c530b")[0] == pytest.approx(26.70 * 1024)
    assert values(traces, "sockets_tcp_inuse")[0] == 44 and values(traces, "sockets_tcp_tw")[0] == 47
    assert values(traces, "load1")[0] == 6.22
    assert not [r for r in traces.rows if r["item"] == "ifb0"]  # carried nothing


@pytest.mark.parametrize("name", ["sadf-12.6.1--all.csv", "sadf-12.6.1--epoch.csv"])
def test_sadf_csv_equals_sadf_json(name):
    json, csv = read("sadf-12.6.1--all.json"), read(name)
    check(csv)
    order = lambda rows: sorted((r["t"], r["metric"], r["item"], r["value"]) for r in rows)  # noqa: E731
    assert order(csv.rows) == order(json.rows)


def test_sadf_csv_without_memory_total_is_reported():
    traces = read("sadf-12.6.1--plain.json")
    check(traces)
    assert values(traces, "cpu_system")[0] == pytest.approx(0.1393)
    assert {p.name for p in traces.problems} == {"memory_not_told"}
    busy = read("sadf-12.6.1--cpu-busy.json")  # irq and softirq count as system
    assert values(busy, "cpu_system")[0] == pytest.approx(0.74) and values(busy, "cpu_busy")[0] == pytest.approx(0.88)


def test_every_part_of_cpu_time_in_sadf_belongs_to_user_or_system():
    user = {"usr": 10, "nice": 2, "guest": 3, "gnice": 5}
    system, rest = {"sys": 7, "irq": 11, "soft": 13}, {"iowait": 9, "steal": 0, "idle": 40}
    traces = read_sadf(*[{"cpu-load": [{"cpu": "all"} | user | system | rest]}] * 2)
    check(traces)
    shares = {metric: values(traces, metric)[0] for metric in SHARES}
    assert shares == pytest.approx(
        {"cpu_busy": 0.51, "cpu_user": 0.20, "cpu_system": 0.31, "cpu_iowait": 0.09, "cpu_steal": 0.0}
    )


def test_interface_of_sadf_that_only_receives_is_read():
    flow = {"iface": "eth1", "rxkB": 2.0, "txkB": 0.0}
    traces = read_sadf(*[{"network": {"net-dev": [flow]}}] * 2)
    check(traces)
    assert values(traces, "net_rx", "eth1") == [2048.0] * 2 and values(traces, "net_tx", "eth1") == [0.0] * 2


@pytest.mark.parametrize(
    "used",
    [{"memused": 1000, "memused-percent": 33.33}, {"memused": 700, "memused-percent": 23.33}],
    ids=["with buffers and caches, before 11.7.3", "without"],
)
def test_memory_of_sadf_is_read_as_its_version_counts_used_memory(used: dict[str, float]):
    memory = {"memfree": 2000, "avail": 2100, "buffers": 50, "cached": 200, "slab": 50} | used
    traces = read_sadf(*[{"memory": memory}] * 2)
    check(traces)
    assert not traces.problems
    assert values(traces, "memory_total") == [3000 * 1024] * 2 and values(traces, "memory_used") == [900 * 1024] * 2


@pytest.mark.parametrize("name", ["sadf-12.6.1--local.csv"])
def test_sadf_local_times_are_refused(name):
    traces = read(name)
    assert not traces.rows and {"local_times"} <= {p.name for p in traces.problems}


def test_sadf_local_times_are_read_if_the_zone_is_utc():
    assert read("sadf-12.6.1--local.json").rows


def test_node_exporter_file_with_timestamps_is_read():
    traces = read("node-exporter-1.5.0--stamped.txt")
    check(traces)
    assert len(traces.times) == 8 and not traces.problems
    assert {"cpu0", "cpu1", "all"} == {r["item"] for r in traces.rows if r["metric"] == "cpu_busy"}
    assert values(traces, "memory_total")[0] == 25276510208
    assert values(traces, "net_rx", "eth0")
    both = zip(*(values(traces, "cpu_busy", item) for item in ("cpu0", "cpu1", "all")), strict=True)
    assert all(min(a, b) <= every <= max(a, b) for a, b, every in both)


def test_node_exporter_scrape_without_timestamps_is_reported():
    traces = read("node-exporter-1.5.0--one-scrape.txt")
    assert not traces.rows
    assert {"no_timestamps", "too_few_samples"} == {p.name for p in traces.problems}


def test_variants_of_the_prometheus_text_format_are_read():
    lines = []
    for t, user in ((1000, 5.0), (1001, 5.25), (1002, 5.0)):
        lines += [
            f'{{__name__="node_cpu",cpu="cpu0",mode="user",x="a\\"}}b"}} {user} {t}.5',
            f'node_cpu{{mode="idle",cpu="cpu0"}} {t} {t}.5',
        ]
    traces = host_metrics.read_traces(
        "node-exporter", {"x": "\n".join([*lines, "# EOF", "junk junk junk junk"]).encode()}
    )
    check(traces)
    assert values(traces, "cpu_busy", "cpu0") == [0.2]
    assert {p.name for p in traces.problems} == {"counter_went_back", "unreadable_line"}


def test_cpu_without_idle_time_is_no_part_of_a_node_exporter_sample():
    lines = []
    for t, user in ((1000.5, 5.0), (1001.5, 5.25)):
        lines += [f'node_cpu{{cpu="0",mode="user"}} {user} {t}', f'node_cpu{{cpu="0",mode="idle"}} {t - user} {t}']
        lines += [f'node_cpu{{cpu="1",mode="user"}} {t} {t}']
    traces = host_metrics.read_traces("node-exporter", {"x": "\n".join(lines).encode()})
    check(traces)
    assert values(traces, "cpu_busy", "cpu0") == values(traces, "cpu_busy") == [pytest.approx(0.25)]
    assert values(traces, "cpu_busy", "cpu1") == []
    assert {p.name for p in traces.problems} == {"torn_sample"}


def test_polled_answer_has_the_time_halfway_between_request_and_answer():
    loads = [(1000.0, 1000.4, "node_load1 1"), (1001.0, 1001.2, "node_load1 2")]
    traces = read_polls("node-exporter", 1, *loads)
    check(traces)
    assert traces.times == pytest.approx([1000.2, 1001.1]) and values(traces, "load1") == [1.0, 2.0]


def test_polled_answer_that_comes_twice_is_read_once():
    answer = (1000.0, 1000.4, "node_load1 1")
    traces = read_polls("node-exporter", 1, answer, answer, (1001.0, 1001.4, "node_load1 2"))
    check(traces)
    assert values(traces, "load1") == [1.0, 2.0]
    assert [p.name for p in traces.problems] == ["unreadable_sample"]


MUNIN_CPU = "> fetch cpu\nuser.value {user:.0f}\nidle.value {idle:.0f}\n."
NODE_CPU = 'node_cpu{{cpu="0",mode="user"}} {user}\nnode_cpu{{cpu="0",mode="idle"}} {idle}'


@pytest.mark.parametrize(("kind", "answer"), [("munin", MUNIN_CPU), ("node-exporter", NODE_CPU)])
def test_monitor_that_answers_less_often_than_it_is_asked_has_no_gaps(kind: str, answer: str):
    polls = [(t, t, answer.format(user=t / 4, idle=t * 3 / 4)) for t in (1000.0, 1020.0, 1040.0)]
    traces = read_polls(kind, 1, *polls)
    check(traces)
    assert traces.interval_s == 20 and not traces.problems
    assert values(traces, "cpu_busy") == pytest.approx([0.25, 0.25])


def test_monitor_file_gap_is_not_interpolated():
    kept = [line for line in FILES["sadf-12.6.1--all.csv"].decode().splitlines() if "06:11:46" not in line]
    longer = "\n".join(line.replace("vm;1;2026-11-22 06:11:47", "vm;60;2026-11-22 06:11:47") for line in kept)
    traces = host_metrics.read_traces("sadf-csv", {"x": longer.encode()})
    check(traces)
    assert "gap" in {p.name for p in traces.problems}
    assert 1795327907.0 not in {r["t"] for r in traces.rows if r["metric"].startswith(("cpu", "net"))}  # type: ignore[union-attr]


def test_rrd_fields_of_several_files_are_combined():
    memory = host_metrics.read_traces("rrd", MEMORY)
    check(memory)
    assert memory.interval_s == 1 and not memory.problems
    assert values(memory, "memory_total")[0] == pytest.approx(25276510208)
    fetched, exported = (
        host_metrics.read_traces("rrd", CPU),
        host_metrics.read_traces("rrd", {"x": RRD["xport-cpu-eth0.xml"]}),
    )
    check(fetched), check(exported)
    assert values(fetched, "cpu_busy") == values(exported, "cpu_busy")
    assert values(fetched, "cpu_user")[1] == pytest.approx(130 / (130 + 29 + 2))
    assert max(values(exported, "net_rx", "eth0")) == pytest.approx(3190)
    assert values(host_metrics.read_traces("rrd", {"x": RRD["xport-no-times.xml"]}), "cpu_user")


def test_rrd_dump_equals_rrd_fetch():
    name = "vm-cpu-user-d"
    dumped, fetched = (dict(polled._read_file(f, RRD[f].decode(), [])) for f in (f"{name}.xml", f"{name}.txt"))
    assert {t: v for t, v in dumped["cpu", "user"].items() if t in fetched["cpu", "user"]} == fetched["cpu", "user"]


def test_munin_exports_that_lack_fields_are_reported():
    lonely = host_metrics.read_traces("rrd", {"vm-cpu-user-d.txt": RRD["vm-cpu-user-d.txt"]})
    assert [p.name for p in lonely.problems] == ["fields_missing"] and "cpu.user" in lonely.problems[0].message
    renamed = host_metrics.read_traces("rrd", {"mine.txt": RRD["vm-cpu-user-d.txt"]})
    assert [p.name for p in renamed.problems] == ["unknown_field", "too_few_samples"]


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_truncated_monitor_file_gives_its_complete_samples(name, share):
    data = FILES[name]
    torn = host_metrics.read_traces(host_metrics.detect_format(data) or "", {name: data[: int(len(data) * share)]})
    check(torn)
    whole = {(r["t"], r["metric"], r["item"]): r["value"] for r in read(name).rows}
    last = max(torn.times, default=0.0)
    assert all(whole.get((r["t"], r["metric"], r["item"])) == r["value"] for r in torn.rows if r["t"] < last)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([*READABLE, *RRD]), st.binary(max_size=12), st.floats(0, 1), st.floats(0, 0.05))
@example("sadf-12.6.1--all.json", b'{"a":' * 4, 0.5, 0.0)
def test_randomly_changed_monitor_files_never_raise_an_exception(name, junk, at, cut):
    data = FILES.get(name) or RRD[name]
    start = int(at * len(data))
    broken = data[:start] + junk + data[start + int(cut * len(data)) :]
    for kind in {host_metrics.detect_format(data), host_metrics.detect_format(broken)} & set(host_metrics.FORMATS):
        check(host_metrics.read_traces(str(kind), {name: broken}))


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(sorted(host_metrics.FORMATS)))
def test_random_bytes_are_reported_as_a_problem_by_every_reader(data, kind):
    traces = host_metrics.read_traces(kind, {"x": data})
    check(traces)
    assert traces.problems


@pytest.mark.parametrize(
    "data",
    [
        b'{"sysstat": {"hosts": [{"statistics": [' + b"[" * 100_000,
        b'{"sysstat": {"statistics": [{"timestamp": {"date": "9999-99-99", "time": "1", "utc": 1, "interval": 1e999}}]',
        b'{"sysstat": {"statistics": [{"timestamp": 7}, 8, null, {"timestamp": {"utc": 1}}]}}',
        b"# hostname;interval;timestamp;CPU;%idle\n" + b"vm;1;" + b"9" * 400 + b";all;1\n",
        b'node_cpu{cpu="0",mode="idle"} 1e400 99999999999999999999\n' * 3,
        b"<xport><legend>" + b"<entry>cpu.user</entry>" * 900 + b"</legend><row><t>1</t><v>1</v></row>",
        b'<!DOCTYPE lolz [<!ENTITY a "b">]><rrd><rra><cf>AVERAGE</cf><!-- x / 5 --> <row><v>&a;</v></row></rra></rrd>',
    ],
)
def test_hostile_monitor_files_are_refused(data):
    kind = host_metrics.detect_format(data)
    assert kind in host_metrics.FORMATS
    traces = host_metrics.read_traces(kind, {"vm-cpu-user-d.xml": data})
    check(traces)
    assert traces.problems and not traces.rows


def test_repeated_problems_are_reported_once():
    printed = limit_repeats([Problem("gap", f"{n}") for n in range(100)] + [Problem("other", "x")])
    assert Counter(p.name for p in printed) == {"gap": MAX_REPEATED_PROBLEMS, "other": 1}
    assert printed[MAX_REPEATED_PROBLEMS - 1].message == "19; and 80 more"
    assert len(limit_repeats([Problem("gap", "x")] * MAX_REPEATED_PROBLEMS)) == MAX_REPEATED_PROBLEMS


MUNIN_ANSWER = """# munin node at web
> fetch cpu
user.value {cpu[0]}
nice.value {cpu[1]}
system.value {cpu[2]}
idle.value {cpu[3]}
iowait.value {cpu[4]}
irq.value {cpu[5]}
softirq.value {cpu[6]}
steal.value {cpu[7]}
.
> fetch memory
apps.value 1000
free.value 200
buffers.value 30
cached.value 70
shmem.value 5
slab.value 11
page_tables.value 7
per_cpu.value 2
swap_cache.value 3
swap.value 9000
.
> fetch if_eth0
down.value {flow[0]}
up.value {flow[1]}
.
> fetch if_err_eth0
down.value {flow[0]}
up.value {flow[1]}
.
> fetch if_eth1
down.value U
up.value 7
.
# Unknown service"""


def test_every_number_of_a_munin_node_is_read() -> None:
    before, after = (10, 0, 20, 900, 5, 1, 2, 3), (30, 5, 30, 950, 9, 4, 6, 7)
    traces = read_polls(
        "munin",
        10,
        (1000.0, 1000.0, MUNIN_ANSWER.format(cpu=before, flow=(5000, 700))),
        (1010.0, 1010.0, MUNIN_ANSWER.format(cpu=after, flow=(9000, 1700))),
    )
    check(traces)
    assert {metric: values(traces, metric) for metric in SHARES} == {
        "cpu_busy": [pytest.approx(0.46)],
        "cpu_user": [pytest.approx(0.25)],
        "cpu_system": [pytest.approx(0.17)],
        "cpu_iowait": [pytest.approx(0.04)],
        "cpu_steal": [pytest.approx(0.04)],
    }
    assert values(traces, "memory_total") == [1328] * 2 and values(traces, "memory_used") == [1028] * 2
    assert values(traces, "net_rx", "eth0") == [400.0] and values(traces, "net_tx", "eth0") == [100.0]
    assert {row["item"] for row in traces.rows} == {"all", "eth0"}
    assert [(p.name, p.message) for p in traces.problems] == [("munin_says", "if_eth1: Unknown service")] * 2


def test_answer_to_an_unfinished_or_foreign_poll_is_no_sample() -> None:
    whole = polled.format_poll(1000.0, 1000.0, "node_load1 1")
    data = polled.header_line("node-exporter", 1) + whole + "@ 1001.0 1001.0\nnode_load1 9\n"
    torn = host_metrics.read_traces("node-exporter", {"x": data.encode()})
    assert values(torn, "load1") == [1.0]
    assert [p.name for p in torn.problems] == ["torn_sample", "too_few_samples"]
    foreign = host_metrics.read_traces("munin", {"x": data.encode()})
    assert [p.name for p in foreign.problems] == ["no_munin_answers"] and not foreign.rows


def test_line_of_an_answer_that_is_no_value_is_reported_and_memory_alone_is_a_sample() -> None:
    memory = "node_memory_MemTotal_bytes 10\nnode_memory_MemAvailable_bytes 4"
    traces = read_polls("node-exporter", 1, (1000.0, 1000.0, memory), (1001.0, 1001.0, memory))
    assert values(traces, "memory_used") == [6.0, 6.0] and not traces.problems
    problems: list[Problem] = []
    lines = ["> fetch cpu", "user.value 5", "user.value five", "", ".", "multigraph x", "a.value 1", "b.value U"]
    assert polled.read_values(lines, problems) == {"cpu": {"user": 5.0}, "x": {"a": 1.0}}
    assert problems == [Problem("unreadable_line", "cpu: 'user.value five'")]


def test_plugins_of_a_munin_node_that_are_read_are_those_of_cpu_memory_and_interfaces() -> None:
    offered = ["cpu", "df", "if_eth0", "if_err_eth0", "memory", "nginx_request"]
    assert polled.usable_plugins(offered) == ["cpu", "if_eth0", "memory"]


def node_text(stamp: str, rx: float, tx: float) -> list[str]:
    return [
        f'node_network_receive_bytes_total{{device="eth0"}} {rx} {stamp}',
        f'node_network_transmit_bytes_total{{device="eth0"}} {tx} {stamp}',
        f'node_network_receive_bytes_total{{device="eth1"}} {rx} {stamp}',
        f'node_network_transmit_bytes_total{{device="eth2"}} {tx} {stamp}',
        f"node_memory_MemTotal_bytes 1000 {stamp}",
        f"node_memory_MemAvailable_bytes 300 {stamp}",
        f"node_sockstat_TCP_inuse 5 {stamp}",
        f"node_sockstat_TCP_tw 6 {stamp}",
        f"node_load1 0.5 {stamp}",
        f"go_goroutines 7 {stamp}",
        f'node_cpu_seconds_total{{mode="idle"}} 7 {stamp}',
    ]


@pytest.mark.parametrize("stamps", [("1700000000000", "1700000004000"), ("1700000000.0", "1700000004.0")])
def test_node_exporter_times_are_read_in_milliseconds_and_in_seconds(stamps: tuple[str, str]) -> None:
    lines = [*node_text(stamps[0], 1000, 500), *node_text(stamps[1], 5000, 700)]
    traces = host_metrics.read_traces("node-exporter", {"x": "\n".join(lines).encode()})
    check(traces)
    assert not traces.problems and traces.interval_s == 4 and traces.times == [1.7e9, 1.7e9 + 4]
    assert {(row["metric"], row["item"]): row["value"] for row in traces.rows if row["t"] == 1.7e9 + 4} == {
        ("net_rx", "eth0"): 1000.0, ("net_tx", "eth0"): 50.0, ("memory_used", "all"): 700.0,
        ("memory_total", "all"): 1000.0, ("sockets_tcp_inuse", "all"): 5.0, ("sockets_tcp_tw", "all"): 6.0,
        ("load1", "all"): 0.5,
    }  # fmt: skip


def rrd_text(*values_at: tuple[int, float]) -> bytes:
    return ("  42\n\n" + "".join(f"{t}: {value:e}\n" for t, value in values_at)).encode()


def test_rrd_values_become_shares_bytes_and_rates() -> None:
    fields = {
        "cpu-user": 30, "cpu-nice": 10, "cpu-system": 5, "cpu-irq": 3, "cpu-softirq": 2, "cpu-idle": 30,
        "cpu-iowait": 12, "cpu-steal": 8, "memory-apps": 100, "memory-free": 20, "memory-buffers": 3,
        "memory-cached": 7, "memory-slab": 5, "memory-page_tables": 1, "if_eth0-down": 400, "if_eth0-up": 50,
        "if_err_eth0-down": 1, "if_err_eth0-up": 1, "if_eth1-up": 9,
    }  # fmt: skip
    files = {f"vm-{name}-d.txt": rrd_text((1000000, value), (1000010, value)) for name, value in fields.items()}
    traces = host_metrics.read_traces("rrd", files)
    check(traces)
    assert traces.interval_s == 10 and not traces.problems
    assert {(row["metric"], row["item"]): row["value"] for row in traces.rows if row["t"] == 1000010} == {
        ("cpu_user", "all"): pytest.approx(0.40), ("cpu_system", "all"): pytest.approx(0.10),
        ("cpu_iowait", "all"): pytest.approx(0.12), ("cpu_steal", "all"): pytest.approx(0.08),
        ("cpu_busy", "all"): pytest.approx(0.58), ("memory_used", "all"): 106.0, ("memory_total", "all"): 136.0,
        ("net_rx", "eth0"): 400.0, ("net_tx", "eth0"): 50.0,
    }  # fmt: skip


@pytest.mark.parametrize(("last", "gaps"), [(1000030, []), (1000051, ["gap"])])
def test_missing_time_in_a_munin_database_is_a_gap_from_three_times_the_usual_step(last: int, gaps: list[str]) -> None:
    times = [1000000, 1000010, 1000020, last]
    files = {f"vm-if_eth0-{name}-d.txt": rrd_text(*((t, 5.0) for t in times)) for name in ("down", "up")}
    traces = host_metrics.read_traces("rrd", files)
    assert [p.name for p in traces.problems] == gaps and all(p.t == last for p in traces.problems)
    assert values(traces, "net_rx", "eth0") == [5.0] * 4


def test_xport_without_times_has_those_of_its_start_and_step() -> None:
    traces = host_metrics.read_traces("rrd", {"x": RRD["xport-no-times.xml"].replace(b"<step>1<", b"<step>5<")})
    assert traces.times[0] == 1795328232 + 5 and traces.interval_s == 5
    assert values(traces, "cpu_user")[1] == pytest.approx(130 / (130 + 29))


def test_coarser_averages_of_a_dump_are_read_only_for_earlier_times() -> None:
    rows = "<!-- 2026 / {} --> <row><v> {} </v></row>"
    fine = "<rra><cf>AVERAGE</cf>" + rows.format(200, 1.0) + rows.format(210, 2.0)
    coarse = "<rra><cf>AVERAGE</cf>" + rows.format(100, 7.0) + rows.format(200, 8.0)
    highest = "<rra><cf>MAX</cf>" + rows.format(50, 9.0)
    assert polled._read_dump(fine + coarse + highest) == {100: 7.0, 200: 1.0, 210: 2.0}


def test_first_of_two_values_for_one_time_is_read_and_the_shorter_interval_counts() -> None:
    day = polled.header_line("node-exporter", 2) + polled.format_poll(1000, 1000, "node_load1 1")
    again = polled.header_line("node-exporter", 1) + "".join(
        polled.format_poll(t, t, f"node_load1 {t}") for t in (1000, 1001)
    )
    traces = host_metrics.read_traces("node-exporter", {"a": day.encode(), "b": again.encode()})
    check(traces)
    assert values(traces, "load1") == [1.0, 1001.0] and traces.interval_s == 1


@pytest.mark.parametrize(("value", "number"), [
    ("1.5", 1.5), (0, 0.0), (True, None), (-1, None), (1e18, None), ("inf", None), (None, None), ("x", None),
])  # fmt: skip
def test_number_of_a_monitor_is_finite_and_not_negative(value: object, number: float | None) -> None:
    assert finite_number(value) == number


@pytest.mark.parametrize(("last_s", "gaps"), [(30, []), (31, ["gap"])])
def test_sample_of_sadf_over_more_than_three_usual_intervals_is_a_gap(last_s: int, gaps: list[str]) -> None:
    lines = ["# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle"]
    lines += [f"vm;{s};{t};-1;30;0;0;0;0;70" for s, t in ((10, 1000), (10, 1010), (10, 1020), (last_s, 1020 + last_s))]
    traces = host_metrics.read_traces("sadf-csv", {"x": "\n".join(lines).encode()})
    assert [p.name for p in traces.problems] == gaps and traces.interval_s == 10
    assert values(traces, "cpu_user") == [pytest.approx(0.3)] * (4 - len(gaps))


def test_memory_of_sadf_without_what_is_available_is_reported() -> None:
    memory = {"memfree": 2000, "memused": 700, "memused-percent": 23.33, "buffers": 50, "cached": 200, "slab": 50}
    traces = read_sadf(*[{"memory": memory}, {"memory": memory | {"avail": 3001}}])
    assert [p.name for p in traces.problems] == ["memory_not_told"] * 2 and not traces.rows


def test_memory_of_a_munin_database_needs_every_part_of_it() -> None:
    parts = ("apps", "free", "buffers", "cached", "slab", "page_tables")
    files = {f"vm-memory-{name}-g.txt": rrd_text((1000000, 5), (1000010, 5)) for name in parts}
    assert values(host_metrics.read_traces("rrd", files), "memory_total") == [30.0] * 2
    for name in files:
        fewer = {other: data for other, data in files.items() if other != name}
        assert not host_metrics.read_traces("rrd", fewer).rows


def test_node_exporter_may_be_asked_several_times_a_second() -> None:
    data = "".join(f"node_load1 1 {t}\n" for t in (1000.25, 1000.5, 1000.75)).encode()
    assert host_metrics.read_traces("node-exporter", {"x": data}).interval_s == 0.25
