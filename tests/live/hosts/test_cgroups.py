"""cgroups.sh on real control groups (root), and on folders laid out as the kernel's documents say."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from loadbook.host_metrics.sampler import parse_sampler
from loadbook.hosts.monitors import sampler_job

SCRIPT = str(files("loadbook.hosts").joinpath("cgroups.sh"))
TREE = Path("/sys/fs/cgroup/cpu")
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
CONTROLLER = "29 23 0:26 {root} /sys/fs/cgroup{sub} rw,nosuid - {kind} {kind} rw{options}\n"


def quotas(shell: list[str], pid: int | str, root: Path | None = None) -> tuple[int, list[str]]:
    """Return exit code of cgroups.sh for a process, and its lines on quotas, of the folder `root` in place of /."""
    env = {"PATH": os.environ["PATH"]} | ({"LOADBOOK_ROOT": str(root)} if root else {})
    command = [shutil.which(shell[0]) or shell[0], *shell[1:], SCRIPT, str(pid)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert done.stderr == ""
    lines = [line.removeprefix(str(root)) for line in done.stdout.splitlines()]
    return done.returncode, [line for line in lines if not line.endswith(" none")]


def layout(root: Path, mounts: str, groups: str, limits: dict[str, str]) -> Path:
    """Write mounts, the groups of process 7 and files of limits below `root`."""
    for name, text in {"proc/self/mountinfo": mounts, "proc/7/cgroup": groups, **limits}.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = CONTROLLER.format(root="/", sub="", kind="cgroup2", options="")
V1 = CONTROLLER.format(root="/", sub="/cpu,cpuacct", kind="cgroup", options=",cpu,cpuacct")
DOCKER_V1 = CONTROLLER.format(root="/docker/abc", sub="/cpu,cpuacct", kind="cgroup", options=",cpu,cpuacct")
SLICE = "/sys/fs/cgroup/user.slice"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("mounts", "groups", "limits", "answer"),
    [
        pytest.param(
            V2, "0::/user.slice/session-3.scope\n",
            {f"{SLICE}/cpu.max": "150000 100000\n", f"{SLICE}/session-3.scope/cpu.max": "max 100000\n"},
            (0, [f"{SLICE} 1500"]), id="v2, a slice above the login",
        ),
        pytest.param(V2, "0::/\n", {"/sys/fs/cgroup/cpu.max": "20000 100000\n"}, (0, ["/sys/fs/cgroup 200"]),
                     id="v2, in a container"),
        pytest.param(V2, "0::/../other\n", {"/sys/fs/cgroup/cpu.max": "50000 100000\n"}, (0, ["/sys/fs/cgroup 500"]),
                     id="v2, a group that the container does not see"),
        pytest.param(V2, "0::/\n", {}, (0, []), id="v2, the root of the host"),
        pytest.param(
            V1, "4:cpu,cpuacct:/a/b\n0::/\n",
            {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n",
             "/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n",
             "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "25000\n",
             "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "50000\n"},
            (0, ["/sys/fs/cgroup/cpu,cpuacct/a 500"]), id="v1, a group above",
        ),
        pytest.param(
            DOCKER_V1, "4:cpu,cpuacct:/docker/abc\n",
            {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "10000\n",
             "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            (0, ["/sys/fs/cgroup/cpu,cpuacct 100"]), id="v1, in a container",
        ),
        pytest.param(V2, "4:cpu,cpuacct:/docker/abc\n0::/\n", {}, (1, []), id="v1, not mounted"),
        pytest.param("", "0::/\n", {}, (1, []), id="nothing mounted"),
    ],
)  # fmt: skip
def test_quotas_of_all_groups_around_a_process_are_found(shell, mounts, groups, limits, answer, tmp_path):
    assert quotas(shell, 7, layout(tmp_path, mounts, groups, limits)) == answer


def test_process_that_is_gone_has_no_answer():
    assert quotas(["dash"], 999_999_999) == (1, [])


@pytest.fixture
def limited_group():
    """Yield a real control group of version 1 with a fifth of a CPU, inside of one with half of a CPU."""
    if os.geteuid() != 0 or (not (TREE / "cpu.cfs_quota_us").exists() and not (TREE / "cpu.shares").exists()):
        pytest.skip("needs root and a tree of control groups of version 1")
    outer = TREE / f"lbtest-{os.getpid()}"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    (outer / "cpu.cfs_quota_us").write_text("50000")
    (inner / "cpu.cfs_quota_us").write_text("20000")
    yield inner
    inner.rmdir()
    outer.rmdir()


@pytest.mark.parametrize("perl", [True, False], ids=["perl", "no perl"])
def test_throttling_of_a_watched_process_is_sampled(limited_group, perl, tmp_path):
    job = sampler_job("m", interval_s=0.25, limit_s=2.0, processes=[("busy", "pid")])
    for name, content in job.files.items():
        (tmp_path / name).write_bytes(content)
    path = os.environ["PATH"]
    if not perl:
        path = str(tmp_path / "bin")
        (tmp_path / "bin").mkdir()
        for program in ("sed", "sleep", "date", "getconf", "cat"):
            (tmp_path / "bin" / program).symlink_to(shutil.which(program) or "")
    join = f"echo $$ >{limited_group}/cgroup.procs; while :; do :; done"
    with subprocess.Popen(["/bin/sh", "-c", join]) as busy:
        try:
            (tmp_path / "pid").write_text(f"{busy.pid}\n")
            done = subprocess.run(job.steps[0], cwd=tmp_path, env={"PATH": path}, capture_output=True, check=True)
        finally:
            busy.kill()
    traces = parse_sampler(done.stdout)
    quota, stopped = (
        [float(r["value"]) for r in traces.rows if r["metric"] == metric] for metric in ("cpu_quota", "throttled_time")
    )
    assert [p.name for p in traces.problems] == ([] if perl else ["queue_unknown"])
    assert set(quota) == {0.2}
    assert sum(stopped) / len(stopped) > 0.4


def test_quota_that_is_set_while_a_process_runs_is_sampled(limited_group, tmp_path):
    (limited_group / "cpu.cfs_quota_us").write_text("-1")
    (limited_group.parent / "cpu.cfs_quota_us").write_text("-1")
    job = sampler_job("m", interval_s=0.25, limit_s=3.0, processes=[("busy", "pid")])
    for name, content in job.files.items():
        (tmp_path / name).write_bytes(content)
    join = f"echo $$ >{limited_group}/cgroup.procs; while :; do :; done"
    with subprocess.Popen(["/bin/sh", "-c", join]) as busy:
        try:
            (tmp_path / "pid").write_text(f"{busy.pid}\n")
            with subprocess.Popen(job.steps[0], cwd=tmp_path, stdout=subprocess.PIPE) as sampler:
                output = b""
                while output.count(b"\n.\n") < 4:
                    output += sampler.stdout.readline()
                (limited_group / "cpu.cfs_quota_us").write_text("20000")
                output += sampler.stdout.read()
        finally:
            busy.kill()
    traces = parse_sampler(output)
    quota = [row["value"] for row in traces.rows if row["metric"] == "cpu_quota"]
    assert set(quota) == {0.2} and len(quota) < len(traces.times) - 3
