"""A real munin node, asked over real SSH."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from loadbook import host_metrics
from loadbook.core.errors import HostError
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.monitors import connect_monitor
from polled_monitors import poll
from waiting import wait_until


@pytest.mark.skipif(
    shutil.which("munin-node", path="/usr/sbin:/usr/bin") is None or not os.access("/etc/munin/plugin-conf.d", os.R_OK),
    reason="munin-node is not there, or only root may start it: apt-get install munin-node, make test as root",
)
def test_real_munin_node_is_polled(connect_lab, port, tmp_path):
    lines = (
        "log_file {0}/log",
        "pid_file {0}/pid",
        "background 0",
        "setsid 0",
        "host 127.0.0.1",
        "allow ^127\\.0\\.0\\.1$",
    )
    conf = tmp_path / "node.conf"
    conf.write_text("\n".join([*lines, f"port {port}", ""]).format(tmp_path))
    program = shutil.which("munin-node", path="/usr/sbin:/usr/bin")
    with subprocess.Popen([program, "--config", conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            host, entry = connect_lab(), HostEntry(roles=["driver"], munin_port=port)
            wait_until(lambda: _answers(host, entry))
            data, problem = poll(host, entry, "munin")
        finally:
            started.terminate()
    assert not problem
    traces = host_metrics.read_traces("munin", {"x": data})
    assert {"cpu_busy", "memory_used", "memory_total"} <= {row["metric"] for row in traces.rows}


def _answers(host, entry) -> bool:
    try:
        connect_monitor(host, entry, "munin").close()
    except HostError:
        return False
    return True
