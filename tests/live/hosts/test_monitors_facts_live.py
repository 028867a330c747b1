"""Facts of a real host, and what counts as a difference."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from loadbook.hosts.monitors import gather_facts
from loadbook.hosts.remote import connect
from loadbook.store.run_record import fact_differences


def test_recorded_facts_about_a_lab_host_are_complete(lab):
    host = connect(lab.hosts_file, "driver")
    try:
        found, again = gather_facts(host), gather_facts(host)
    finally:
        host.close()
    assert found["net.core.somaxconn"]["value"] == int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert len(str(found["net.ipv4.ip_local_port_range"]["value"]).split()) == 2
    assert found["cores"]["value"] >= 1
    assert found["memory_total_b"]["value"] > 1 << 28
    assert {fact["kind"] for fact in found.values()} == {"identity", "tolerance", "info"}
    assert fact_differences(found, again) == []
    text = json.dumps(found)
    assert "127." not in text
    assert f'"{socket.gethostname()}"' not in text
    assert Path("/etc/machine-id").read_text().strip() not in text
