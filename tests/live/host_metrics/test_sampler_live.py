"""The sampler with perl and under three shells, and its parser on real captures, cut and mutated."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadbook.host_metrics.sampler import parse_sampler
from loadbook.hosts.host import Job
from loadbook.hosts.monitors import sampler_job
from sampler_results import check

QUEUES = ("accept_queue", "unaccepted")


def folder_of_job(folder: Path, job: Job) -> Path:
    """Write a job's files, and a file `pid` with the id of process 1."""
    for name, content in job.files.items():
        (folder / name).write_bytes(content)
    (folder / "pid").write_text("1 and more\n")
    return folder


def programs_without_perl(folder: Path) -> str:
    """Return a folder for PATH in which the programs of the shell's sampler are, and no others."""
    folder.mkdir()
    for program in ("sed", "sleep", "date", "getconf", "cat"):
        (folder / program).symlink_to(shutil.which(program) or "")
    return str(folder)


@pytest.mark.parametrize("perl", [True, False], ids=["perl", "no perl"])
@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"], ["busybox", "sh"]])
def test_sampler_stops_at_its_time_limit_and_includes_processes_that_start_later(shell, perl, tmp_path):
    job = sampler_job("m", interval_s=0.05, limit_s=0.2, processes=[("me", "pid"), ("never", "none")])
    folder = folder_of_job(tmp_path, job)
    path = os.environ["PATH"] if perl else programs_without_perl(tmp_path / "bin")
    step = [shutil.which(shell[0]) or shell[0], *shell[1:], *job.steps[0][1:]]
    done = subprocess.run(step, cwd=folder, env={"PATH": path}, capture_output=True, timeout=20, check=True)
    traces = parse_sampler(done.stdout)
    check(traces)
    assert len(traces.times) >= 4
    assert any(row["item"] == "me:1" for row in traces.rows)
    assert done.stderr == b""


def test_sampler_prints_the_same_lines_with_and_without_perl(tmp_path):
    job = sampler_job("m", interval_s=0.05, limit_s=0.05, processes=[("me", "pid")])
    folder = folder_of_job(tmp_path, job)
    lines = []
    with subprocess.Popen(["sleep", "30"]) as watched:
        (folder / "pid").write_text(f"{watched.pid}\n")
        for path in (os.environ["PATH"], programs_without_perl(tmp_path / "bin")):
            done = subprocess.run(job.steps[0], cwd=folder, env={"PATH": path}, capture_output=True, check=True)
            # accept queues are read with perl only
            text = re.sub(r"^(?:accept_queues|unaccepted).*\n", "", done.stdout.decode(), flags=re.MULTILINE)
            lines.append([re.sub(r"[\d.]+", "0", line).split() for line in text.splitlines()])
        watched.kill()
    assert ["@", "0", "me:0"] in lines[0]
    assert ["0", "(sleep)"] in [words[:2] for words in lines[0]]
    assert lines[0] == lines[1]


def test_sampler_with_perl_follows_a_process_that_takes_another_ones_place(tmp_path):
    job = sampler_job("m", interval_s=0.1, limit_s=1.0, processes=[("me", "pid")])
    folder = folder_of_job(tmp_path, job)
    with subprocess.Popen(["sleep", "30"]) as first, subprocess.Popen(["sleep", "30"]) as second:
        (folder / "pid").write_text(f"{first.pid}\n")
        with subprocess.Popen(job.steps[0], cwd=folder, stdout=subprocess.PIPE) as sampler:
            output = sampler.stdout.readline()
            while output.count(b"\n.\n") < 2:
                output += sampler.stdout.readline()
            first.kill()
            first.wait()
            (folder / "pid").write_text(f"{second.pid}\n")
            output += sampler.stdout.read()
        second.kill()
    traces = parse_sampler(output)
    check(traces)
    assert {row["item"] for row in traces.rows if row["metric"] == "process_rss"} == {
        f"me:{first.pid}",
        f"me:{second.pid}",
    }


def test_connections_that_nobody_accepts_are_counted(tmp_path):
    job = sampler_job("m", interval_s=0.1, limit_s=60.0)
    folder = folder_of_job(tmp_path, job)
    with socket.create_server(("127.0.0.1", 0), backlog=20) as server, ExitStack() as clients:
        address = server.getsockname()
        for _ in range(7):
            clients.enter_context(socket.create_connection(address))
        clients.enter_context(server.accept()[0])
        with subprocess.Popen(job.steps[0], cwd=folder, stdout=subprocess.PIPE) as sampler:
            output = b""
            # it looks less often where many connections are in TIME-WAIT
            while not re.search(rb"(?m)^unaccepted \S.*\n(?:.*\n)*\.\n", output):
                output += sampler.stdout.readline()
            sampler.terminate()
    traces = parse_sampler(output)
    check(traces)
    item = f"127.0.0.1:{address[1]}"
    rows = {m: [r["value"] for r in traces.rows if (r["metric"], r["item"]) == (m, item)] for m in QUEUES}
    assert set(rows["accept_queue"]) == {6}
    assert rows["unaccepted"] == [6]
