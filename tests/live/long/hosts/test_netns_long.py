"""The namespace lab: hosts of their own, apart from each other and from this machine; nothing of it stays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from loadbook.hosts.lab import Lab
from loadbook.hosts.netns import NamespaceNetwork, namespace_names


@pytest.mark.root
def test_namespaces_left_by_a_crash_are_reused_or_removed(tmp_path):
    lab = Lab.load(tmp_path / "lab", min_hosts={"app": 1}, kind="netns")
    prefix = NamespaceNetwork(lab.folder).prefix
    others = {name for name in namespace_names() if not name.startswith(prefix)}
    try:
        first = lab.up()
        assert lab.up() == first
        subprocess.run(["ip", "netns", "del", f"{prefix}-host-web"], check=True)
        second = lab.up()
        assert [s.address for s in second] == [s.address for s in first]
        assert [a.pid == b.pid for a, b in zip(first, second, strict=True)] == [True, False, True]
        (lab.folder / "lab.json").write_text('{"kind": "netns", "hosts": {}}')  # as of a lab that never came up whole
        Lab.load(lab.folder).down()
        assert not [name for name in namespace_names() if name.startswith(prefix)]
        assert not Path(f"/sys/class/net/{prefix}").exists()
        assert others <= set(namespace_names())
    finally:
        lab.down()
