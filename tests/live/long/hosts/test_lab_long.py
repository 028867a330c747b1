"""The lab survives what happens to it: calls in any order, a reboot, a taken port, a stopped server."""

from __future__ import annotations

import os
from dataclasses import replace

from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.lab import Lab
from loopback_labs import processes_in


def test_lab_keeps_addresses_when_drivers_are_added(tmp_path):
    folder = tmp_path / "lab"

    def lab(drivers: int | None = None) -> Lab:
        return replace(Lab.load(folder, drivers), net_prefix="127.250.11")

    try:
        one = lab().up()
        two = lab(2).up()
        assert [(s.alias, s.address) for s in two] == [
            ("driver", "127.250.11.1"), ("web", "127.250.11.2"), ("driver-2", "127.250.11.3"),
        ]  # fmt: skip
        assert [s.port for s in two[:2]] == [s.port for s in one]
        assert read_hosts(folder / "hosts.toml").with_role("driver") == ["driver", "driver-2"]
        for state in two:
            assert state.cpus is None or os.sched_getaffinity(state.pid) == set(state.cpus)
        assert lab().up() == two
        again = lab(1).up()
        assert [(s.alias, s.address, s.cpus) for s in again] == [(s.alias, s.address, s.cpus) for s in one]
        assert not [line for line in processes_in(folder / "driver-2") if b"sshd" in line]
    finally:
        lab().down()
