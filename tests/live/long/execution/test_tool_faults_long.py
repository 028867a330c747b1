"""Tools and servers that misbehave, in real runs over SSH: how the trial ends, which gate speaks, what is kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.core.errors import PreflightError
from loadbook.execution import load
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts import sshd
from loadbook.store.trial_record import read_json
from loopback_labs import own_lab
from misbehaving_tools import HEADER, MisbehavingLab
from recorded_run import with_studies

FIXTURES = Path(__file__).parents[3] / "fixtures"
WRK = 'tool = "wrk"\nconnections = 10\n'
H2LOAD = 'tool = "h2load"\nconnections = 10\n'
AB = 'tool = "ab"\nconnections = 10\n'
HTTPERF = 'tool = "httperf"\nmodel = "open"\n'


@pytest.mark.fault(20)
def test_missing_tools_are_named_on_all_hosts_before_the_first_trial(tmp_path, monkeypatch, capsys):
    few = tmp_path / "bin"
    few.mkdir()
    for program in (p for folder in ("/bin", "/usr/bin") for p in Path(folder).iterdir()):
        if program.name not in ("wrk", "nginx") and not (few / program.name).exists():
            (few / program.name).symlink_to(program)
    monkeypatch.setattr(
        sshd, "CONFIG_TEMPLATE", sshd.CONFIG_TEMPLATE.replace('"JMETER_HOME={jmeter}"', f'"PATH={few}"')
    )
    absent = "rude"
    with own_lab(hosts={"driver": ("driver",), "driver-2": ("driver",), "web": ("web",)}) as lab:
        misbehaving_lab = MisbehavingLab(lab, tmp_path, with_studies(tmp_path / "home"))
        own = misbehaving_lab.layout.studies / "services" / absent / "service.toml"
        own.write_text(own.read_text().replace("python3", "no-such-server"))
        misbehaving_lab.study(WRK)
        with pytest.raises(PreflightError) as refused:
            run_study(misbehaving_lab.layout, RunRequest("rude", lab.hosts_file))
        assert refused.value.problems == [
            "host driver: wrk is not installed (apt-get install wrk)",
            "host driver-2: wrk is not installed (apt-get install wrk)",
            "host web: no-such-server is not installed (apt-get install no-such-server)",
        ]
        assert misbehaving_lab.layout.runs("rude") == []
        monkeypatch.setenv("LOADBOOK_HOME", str(misbehaving_lab.layout.root))
        monkeypatch.setenv("COLUMNS", "300")
        assert exit_code(monkeypatch, "run", "rude", "--hosts", str(lab.hosts_file)) == 3
        capsys.readouterr()
        assert exit_code(monkeypatch, "doctor", "rude", "--hosts", str(lab.hosts_file)) == 3
    printed = capsys.readouterr().out
    for host, program in (("driver", "wrk"), ("driver-2", "wrk"), ("web", "no-such-server")):  # type: ignore[assignment]
        assert re.search(rf"MISSING +{host} +{program} +not installed +apt-get install {program}", printed)


@pytest.mark.fault(21)
def test_unreadable_tool_output_fails_the_trial_and_is_kept(misbehaving_lab, record_property):
    (misbehaving_lab.bin / "other").write_bytes((FIXTURES / "ab" / "2.3--freeze_1s.stdout").read_bytes())
    misbehaving_lab.fake("wrk", f"""
n=$(cat {misbehaving_lab.bin}/n 2>/dev/null || echo 0); echo $((n + 1)) >{misbehaving_lab.bin}/n
case $n in
0) head -c 3000 /dev/urandom ;;
1) "$real" "$@" | head -n 4 ;;
2) cat {misbehaving_lab.bin}/other ;;
esac
exit 0""")  # fmt: skip
    ran = misbehaving_lab.run(WRK, blocks=4)
    assert [status for status, _ in ran.ends] == [r.status for r in ran.records] == ["tool_failed"] * 4
    reasons = [reason for _, reason in ran.ends]
    assert all(reason.startswith("host driver: wrk: stdout: ") for reason in reasons)
    for reason, words in zip(reasons, ("no report of wrk", "not complete", "no report of wrk", "empty"), strict=True):
        assert words in reason
    assert all(folder.parent.name == "failed" for folder in ran.folders)
    kept = [(folder / "stdout-driver").read_bytes() for folder in ran.folders]
    assert [len(kept[0]), kept[1].count(b"\n"), kept[2][:18], kept[3]] == [3000, 4, b"This is ApacheBenc", b""]
    assert {row["reason"] for row in ran.table("trials")} == set(reasons)
    assert not any(row["valid"] for row in ran.table("trials"))
    record_property("seen", "garbage, cut, of another tool, nothing: four times tool_failed, the bytes kept")


@pytest.mark.fault(21)
def test_unknown_tool_version_is_reported_and_its_trials_count_if_parsable(misbehaving_lab):
    misbehaving_lab.fake("wrk", 'exec "$real" "$@"')
    fake = misbehaving_lab.bin / "wrk"
    fake.write_text(fake.read_text().replace("exec /usr/bin/wrk -v", '{ echo "wrk 5.0.0 [epoll]"; exit 1; }'))
    assert "5.0.0" in fake.read_text()
    ran = misbehaving_lab.run(WRK)
    assert "host driver: wrk 5.0.0 is new here: a report in another form will not be counted" in misbehaving_lab.notes
    assert read_json(ran.paths.run_json)["tool_versions"] == {"driver": "wrk 5.0.0"}
    assert [(r.status, r.tool_version) for r in ran.records] == [("ok", "5.0.0")]


@pytest.mark.fault(22)
def test_trial_of_a_tool_that_ignores_response_lengths_is_flagged(misbehaving_lab):
    ran = misbehaving_lab.run(WRK + HEADER, role='vars = { mood = "longer" }')
    assert [status for status, _ in ran.ends] == ["ok"]
    assert "bytes_per_response" in ran.gates("doubt")


@pytest.mark.root
@pytest.mark.fault(24)
@pytest.mark.parametrize(
    "load", [AB.replace("10", "50") + "keepalive = false\n", f"{HTTPERF}rate_per_s = 200\n"], ids=["ab", "httperf"]
)
def test_trial_of_every_real_tool_without_free_ports_is_invalid(spaces, tmp_path, load, record_property):
    misbehaving_lab = MisbehavingLab(spaces, tmp_path, with_studies(tmp_path / "home"))
    misbehaving_lab.study(load, service="nginx")
    study = misbehaving_lab.layout.studies / "rude.toml"
    few = '[roles.driver]\nsysctls = { "net.ipv4.ip_local_port_range" = "40000 40015" }'
    study.write_text(study.read_text().replace("[roles.driver]", few))
    ran = misbehaving_lab.again()
    ((status, reason),) = ran.ends
    assert status == "invalid", reason
    assert "net.ipv4.ip_local_port_range" in reason
    assert "ports_exhausted" in ran.gates()
    record_property("seen", reason)


# beside other work the driver's CPU is not its own
FULL = "driver_cpu = 0.8\ndriver_cpu_doubt = 0.7\ndriver_own_share = 0.05"


@pytest.mark.fault(25)
def test_trial_with_saturated_driver_is_invalid(misbehaving_lab, record_property):
    ran = misbehaving_lab.run(AB.replace("10", "50"), service="nginx", gates=FULL)
    assert "driver_saturated" in ran.gates()
    assert [row["valid"] for row in ran.table("trials")] == [False]
    record_property("seen", ran.printed("driver_saturated").split(":")[0])


HANGING = """
trap '' TERM INT HUP
sh -c 'trap "" TERM INT HUP; while :; do sleep 0.1; done' &
echo partial
while :; do sleep 0.1; done"""


@pytest.mark.fault(26)
@pytest.mark.parametrize("load_keys", [WRK + "timeout_s = 1\n", H2LOAD], ids=["wrk", "h2load"])
def test_hanging_tool_is_ended_with_its_children(misbehaving_lab, monkeypatch, record_property, load_keys):
    monkeypatch.setattr(load, "GRACE_S", 0.5)
    monkeypatch.setattr(load, "STOP_GRACE_S", 1.0)
    tool = "h2load" if load_keys == H2LOAD else "wrk"
    misbehaving_lab.fake(tool, HANGING, "--version" if tool == "h2load" else "-v")
    ran = misbehaving_lab.run(load_keys)
    ((status, reason),) = ran.ends
    assert status == "timeout"
    assert "load: " in reason
    assert ("keepalive_requests" in reason) == (tool == "h2load")
    # once more, since a host may have been slow; a tool that hung twice will hang again
    assert [folder.name for folder in ran.folders] == ["t0001-attempt1", "t0001-attempt2"]
    for folder, record in zip(ran.folders, ran.records, strict=True):
        assert folder.parent.name == "failed"
        assert (folder / "stdout-driver").read_bytes() == b"partial\n"
        assert [d.rc for d in record.drivers] == [137]
    assert misbehaving_lab.processes(tool, "sh", "sleep", "dash") == []
    assert {row["status"] for row in ran.table("trials")} == {"timeout"}
    record_property("seen", f"twice ended after {record.phases_s['load']:.1f} s of 1 s, no process left")


@pytest.mark.fault(27)
def test_tool_out_of_memory_fails_its_trial(misbehaving_lab, record_property):
    misbehaving_lab.fake("wrk", 'ulimit -c 0; ulimit -v 30000; exec "$real" "$@"')
    ran = misbehaving_lab.run(WRK)
    ((status, reason),) = ran.ends
    assert status == "tool_failed"
    assert "wrk was killed by signal 6 (SIGABRT): exit code 134: zmalloc: Out of memory" in reason
    record_property("seen", reason)


HEAD = (
    "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,bytes,grpThreads,allThreads,"
    "Latency,Connect"
)
ROW = "17952133{n:05d},12,HTTP Request,200,OK,Thread Group 1-1,true,120,1,1,11,1"
ROWS = [ROW.format(n=n).encode() for n in range(40)]
# as in reliability's table of readers: what each does to a file of 40 rows, how many places it rejects, what is said
JTL = {
    "cut inside a number": (b"\n".join(ROWS)[:-4], r"1 rejected: .*results\.jtl:41: the file ends within a row"),
    "two half lines glued": (
        b"\n".join([*ROWS[:20], ROWS[20][:30] + ROWS[21][20:], *ROWS[22:]]) + b"\n",
        r"results\.jtl:22: .*none of 40 lines was counted",
    ),
    "too few columns": (
        b"\n".join([*ROWS[:9], ROWS[9][:40], *ROWS[10:]]) + b"\n",
        r"results\.jtl:11: .*none of 41 lines was counted",
    ),
    "extra column": (
        b"\n".join([*ROWS[:9], ROWS[9] + b",1", *ROWS[10:]]) + b"\n",
        r"results\.jtl:11: .*none of 41 lines was counted",
    ),
    "NUL block": (
        b"\n".join([*ROWS[:9], b"\0" * 4096 + ROWS[9], *ROWS[10:]]) + b"\n",
        r"1 rejected: .*results\.jtl:11: NULs",
    ),
    "repeated header": (
        b"\n".join([*ROWS[:20], HEAD.encode(), *ROWS[20:]]) + b"\n",
        r"1 rejected: .*results\.jtl:22: the header comes again",
    ),
    "open quote": (
        b"\n".join([*ROWS[:9], ROWS[9].replace(b"OK", b'"OK'), *ROWS[10:]]) + b"\n",
        r"results\.jtl:11: a quote that is opened here is never closed.*none of 41 lines was counted",
    ),
    "number too large": (
        b"\n".join([*ROWS[:9], ROWS[9].replace(b",12,", b",99999999999999999999,"), *ROWS[10:]]) + b"\n",
        r"results\.jtl:11: .*none of 41 lines was counted",
    ),
}


@pytest.mark.fault(29)
def test_damaged_request_log_makes_the_trial_partial(misbehaving_lab, record_property):
    for k, (data, _) in enumerate(JTL.values()):
        (misbehaving_lab.bin / f"{k}.jtl").write_bytes(HEAD.encode() + b"\n" + data)
    misbehaving_lab.fake("jmeter", f"""
case $1 in -v) echo 'Version 5.6.3'; exit ;; esac
n=$(cat {misbehaving_lab.bin}/n 2>/dev/null || echo 0); echo $((n + 1)) >{misbehaving_lab.bin}/n
cp {misbehaving_lab.bin}/$n.jtl results.jtl
echo '... end of run'""", probe="--none")  # fmt: skip
    ran = misbehaving_lab.run('tool = "jmeter"\nconnections = 2\n', blocks=len(JTL))
    for name, (status, reason), (_, printed) in zip(JTL, ran.ends, JTL.values(), strict=True):
        assert status == "partial", (name, reason)
        assert re.search(printed, reason), (name, reason)
    trials = ran.table("trials")
    assert [(t["status"], t["valid"]) for t in trials] == [("partial", False)] * len(JTL)
    counted = {r["trial"]: r["value"] for r in ran.table("measurements") if r["metric"] == "requests"}
    assert counted == {"t0001": 39, "t0005": 40, "t0006": 40}
    record_property("seen", f"{len(JTL)} damaged files: partial each, none counts")
