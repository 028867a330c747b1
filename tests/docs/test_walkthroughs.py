"""The tutorial and the how-to pages, done as they stand there: quickly without hosts, and whole in a lab."""

from __future__ import annotations

import getpass
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

import loadbook.tools
from command_line import exit_code
from doc_pages import DOCS, Command, File, page_text, seen, steps
from doc_reader import Reader, walk, without_hosts
from loadbook.hosts import sshd
from loopback_labs import own_lab

OWN_TOOL = "tools.md#A load generator of your own"
PAGES = [
    "tutorial.md",
    "howto-config.md",
    OWN_TOOL,
    "hosts.md#Behind a jump host",
    "hosts.md#Cloud machines",
]
ALONE = {"load1": ("driver",), "web1": ("web",)}
LONG = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1800)]
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


def long_in_a_lab(test):
    """Mark a walk of a whole page: it takes minutes, in a lab of its own."""
    for mark in LONG:
        test = mark(test)
    return test


def test_walkthrough_detects_output_that_differs_from_the_page():
    assert seen("", "anything") and seen("a 3 %\n", "a  4.5 %\n") and seen("...\nb\n", "a\na\nb\n")
    assert seen("a [y/N]: y\nb: stored\n", "a [y/N]: b: stored\n") and seen("x ... z\n", "x y z\n")
    assert not seen("a\n", "a\nb\n") and not seen("a\nb\n", "b\na\n") and not seen("slower by 3 %\n", "faster by 3 %\n")


def test_walkthrough_accepts_any_verdict_in_place_of_the_pages_verdict():
    assert seen("▲ a is faster by 3 %\n", "▼ a is slower by 4 %\n")
    assert seen("▲ a is faster by 3 %\n", "No verdict: the A/A arm differs from the baseline.\n")
    assert not seen("▲ a is faster by 3 %\n", "a is faster by 3 %\n")


@pytest.fixture
def own_tools(tmp_path, monkeypatch):
    """The folder of a tool that a page adds; the page's own place is in the package of the reader's clone."""
    folder = tmp_path / "loadbook" / "own"
    folder.mkdir(parents=True)
    monkeypatch.setattr(loadbook.tools, "__path__", [*loadbook.tools.__path__, str(folder)])
    yield {"lib/loadbook/tools/burst.py": "own/burst.py"}
    sys.modules.pop("loadbook.tools.burst", None)


@pytest.mark.parametrize("page", PAGES)
def test_walkthrough_steps_that_need_no_hosts_work(page, tmp_path, own_tools, monkeypatch, capfd):
    reader, done = Reader(tmp_path), 0
    for step in steps(page, own_tools if page == OWN_TOOL else None):
        if isinstance(step, File):
            reader.write(step)
        elif without_hosts(step):
            reader.call(step, monkeypatch, capfd)
            done += "dry-run" in step.line
    assert done, f"{page} shows no dry run"


def test_walkthrough_of_howto_cloud_shows_the_real_error_for_an_unlisted_target(tmp_path, monkeypatch, capsys):
    reader = Reader(tmp_path)
    for step in steps("hosts.md#Cloud machines"):
        if isinstance(step, File):
            reader.write(step._replace(text=re.sub(r"^external = \[.*\n", "", step.text, flags=re.MULTILINE)))
    monkeypatch.chdir(reader.root)
    assert exit_code(monkeypatch, "plan", "cloud", "--hosts", "hosts.toml") == 2
    (shown,) = re.findall(r"```\n(hosts.toml: 1 problem\n.*?)```", page_text("hosts.md#Cloud machines"), re.DOTALL)
    assert shown in capsys.readouterr().err


@long_in_a_lab
def test_walkthrough_of_the_tutorial_works(tmp_path):
    with own_lab(hosts=ALONE | {"lb1": ("balancer",)}) as lab:
        walk(Reader(tmp_path, lab), "tutorial.md", {"bench": getpass.getuser()})


@long_in_a_lab
def test_walkthrough_of_howto_config_works(tmp_path):
    with own_lab(hosts=ALONE) as lab:
        walk(Reader(tmp_path, lab), "howto-config.md")


@long_in_a_lab
def test_walkthrough_of_howto_tool_works(tmp_path, monkeypatch):
    found = f'"PATH={tmp_path / "bin"}:{os.environ["PATH"]}"'  # by whoever logs in, as /usr/local/bin is
    monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", sshd.CONFIG_TEMPLATE.replace('"JMETER_HOME={jmeter}"', found))
    with own_lab(hosts=ALONE) as lab:
        walk(Reader(tmp_path, lab), OWN_TOOL, {"/usr/local/bin/": f"{tmp_path / 'bin'}/"})


@long_in_a_lab
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


@long_in_a_lab
def test_walkthrough_of_howto_cloud_works(tmp_path):
    with own_lab(hosts={"load1": ("driver",), "web1": ("node",)}) as lab, black_box(tmp_path) as (front, node):
        named = {"lb.example.net:80": front, "192.0.2.13:80": node, "192.0.2.13": "127.0.0.1"}
        walk(Reader(tmp_path, lab), "hosts.md#Cloud machines", named)


@contextmanager
def black_box(folder):
    """Have a node and a balancer before it that loadbook did not start; yields their addresses."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        front, node = one.getsockname()[1], two.getsockname()[1]
    (folder / "node.conf").write_text(NODE.format(port=node))
    (folder / "front.cfg").write_text(BALANCER.format(port=front, node=node))
    started = [
        subprocess.Popen(["nginx", "-p", f"{folder}/", "-c", "node.conf"]),
        subprocess.Popen(["haproxy", "-db", "-f", f"{folder}/front.cfg"]),
    ]
    try:
        for port in (node, front):
            _await(port)
        yield f"127.0.0.1:{front}", f"127.0.0.1:{node}"
    finally:
        for process in started:
            process.terminate()
            process.wait(10)


def _await(port):
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail(f"nothing listens on {port}")


def test_docs_index_links_every_page():
    index = (DOCS / "README.md").read_text()
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == set(), "nobody finds these pages"
