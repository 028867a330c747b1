"""Facts of a real host, and what counts as a difference."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from loadbook.hosts.monitors import gather_facts, parse_facts
from loadbook.hosts.remote import connect
from loadbook.store.run_record import fact_differences


@pytest.mark.lab
def test_facts_of_a_lab_host_are_complete(lab):
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


def test_facts_that_a_host_lacks_are_null():
    found = parse_facts(b"kernel\t6.1\nmemory_total\tnonsense\nnet/ipv4/tcp_fin_timeout\t60\n\xff\n")
    assert found["kernel"] == {"value": "6.1", "kind": "identity"}
    assert found["memory_total_b"] == {"value": None, "kind": "tolerance"}
    assert found["net.ipv4.tcp_fin_timeout"]["value"] == 60
    assert found["cpu_model"]["value"] is None
    assert found["cores"]["value"] is None


def test_fact_differences_are_grouped_by_kind():
    before = parse_facts(b"kernel\t6.1\nmemory_total\t1000 kB\nload\t0.1 0 0\n")
    assert fact_differences(before, parse_facts(b"kernel\t6.1\nmemory_total\t1010 kB\nload\t9.0 0 0\n")) == []
    changed = fact_differences(before, parse_facts(b"kernel\t6.2\nmemory_total\t2000 kB\n"))
    assert [(d.name, d.before, d.after) for d in changed] == [
        ("kernel", "6.1", "6.2"),
        ("memory_total_b", 1024000, 2048000),
    ]
