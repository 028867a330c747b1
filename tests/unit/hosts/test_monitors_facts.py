"""Facts of a real host, and what counts as a difference."""

from __future__ import annotations

from loadbook.hosts.monitors import parse_facts
from loadbook.store.run_record import fact_differences


def test_facts_that_a_host_does_not_have_are_null():
    found = parse_facts(b"kernel\t6.1\nmemory_total\tnonsense\nnet/ipv4/tcp_fin_timeout\t60\n\xff\n")
    assert found["kernel"] == {"value": "6.1", "kind": "identity"}
    assert found["memory_total_b"] == {"value": None, "kind": "tolerance"}
    assert found["net.ipv4.tcp_fin_timeout"]["value"] == 60
    assert found["cpu_model"]["value"] is None
    assert found["cores"]["value"] is None


def test_differences_of_host_facts_are_grouped_by_kind():
    before = parse_facts(b"kernel\t6.1\nmemory_total\t1000 kB\nload\t0.1 0 0\n")
    assert fact_differences(before, parse_facts(b"kernel\t6.1\nmemory_total\t1010 kB\nload\t9.0 0 0\n")) == []
    changed = fact_differences(before, parse_facts(b"kernel\t6.2\nmemory_total\t2000 kB\n"))
    assert [(d.name, d.before, d.after) for d in changed] == [
        ("kernel", "6.1", "6.2"),
        ("memory_total_b", 1024000, 2048000),
    ]
