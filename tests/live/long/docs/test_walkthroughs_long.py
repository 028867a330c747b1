"""The tutorial and the how-to pages, done as they stand there: quickly without hosts, and whole in a lab."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from doc_pages import Command
from doc_reader import Reader, walk
from loadbook.hosts import sshd
from loopback_labs import own_lab
from page_server import is_open
from ports import kept_port
from waiting import PATIENCE_S, wait_until

OWN_TOOL = "tools.md#A load generator of your own"
ALONE = {"load1": ("driver",), "web1": ("web",)}
pytestmark = pytest.mark.timeout(1800)
NODE = """
daemon off; pid nginx.pid; error_log stderr; events {{}}
http {{ access_log off; server {{ listen 127.0.0.1:{port}; location / {{ return 200 "a page of a node"; }} }} }}
"""
BALANCER = """
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen front
    bind 127.0.0.1:{port}
    server node 127.0.0.1:{node}
"""


def test_walkthrough_of_the_tutorial_works(tmp_path):
    with own_lab(hosts=ALONE | {"lb1": ("balancer",)}) as lab:
        walk(Reader(tmp_path, lab), "tutorial.md", {"bench": getpass.getuser()})


def test_walkthrough_of_howto_config_works(tmp_path):
    with own_lab(hosts=ALONE) as lab:
        walk(Reader(tmp_path, lab), "howto-config.md")


def test_walkthrough_of_howto_tool_works(tmp_path, monkeypatch):
    found = f'"PATH={tmp_path / "bin"}:{os.environ["PATH"]}"'  # by whoever logs in, as /usr/local/bin is
    monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", sshd.CONFIG_TEMPLATE.replace('"JMETER_HOME={jmeter}"', found))
    with own_lab(hosts=ALONE) as lab:
        walk(Reader(tmp_path, lab), OWN_TOOL, {"/usr/local/bin/": f"{tmp_path / 'bin'}/"})


def test_walkthrough_of_howto_jump_host_works(tmp_path):
    with own_lab(hosts=ALONE | {"gate": ("none",)}) as lab:
        at = {host.alias: host.address for host in lab.status()}
        named = {"gate.example.org": at["gate"]}
        named |= {f"{alias}.bench.internal": at[alias] for alias in ("load1", "web1")}
        reader = Reader(tmp_path, lab)
        walk(reader, "hosts.md#Behind a jump host", named | {"bench@": f"{getpass.getuser()}@"})
        assert "Accepted publickey" in (lab.folder / "gate" / "sshd.log").read_text()
        (gate,) = [host.pid for host in lab.status() if host.alias == "gate"]
        os.kill(gate, signal.SIGKILL)
        with pytest.raises(AssertionError, match=r"(?s)gate.*exit code 3"):
            reader.type(Command("loadbook doctor nginx-directives --hosts hosts.toml", ""))


def test_walkthrough_of_howto_cloud_works(tmp_path):
    with own_lab(hosts={"load1": ("driver",), "web1": ("node",)}) as lab, black_box(tmp_path) as (front, node):
        named = {"lb.example.net:80": front, "192.0.2.13:80": node, "192.0.2.13": "127.0.0.1"}
        walk(Reader(tmp_path, lab), "hosts.md#Cloud machines", named)


@contextmanager
def black_box(folder):
    """Have a node and a balancer before it that loadbook did not start; yields their addresses."""
    front, node = kept_port(), kept_port()
    (folder / "node.conf").write_text(NODE.format(port=node))
    (folder / "front.cfg").write_text(BALANCER.format(port=front, node=node))
    started = [
        subprocess.Popen(["nginx", "-p", f"{folder}/", "-c", "node.conf"]),
        subprocess.Popen(["haproxy", "-db", "-f", f"{folder}/front.cfg"]),
    ]
    try:
        for port in (node, front):
            wait_until(lambda port=port: is_open(port))
        yield f"127.0.0.1:{front}", f"127.0.0.1:{node}"
    finally:
        for process in started:
            process.terminate()
            process.wait(PATIENCE_S)
