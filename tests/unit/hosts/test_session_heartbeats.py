"""Heartbeats of a session, over a real SSH connection within this process; the clock is turned."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import paramiko
import pytest

from loadbook.hosts.session import HEARTBEAT_S, SESSION_LEASE_S, DeadManSwitch
from turned_clock import TurnedClock
from waiting import PATIENCE_S


class OpenDoor(paramiko.ServerInterface):
    """Lets everybody in and gives a shell."""

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return True


@pytest.fixture
def ends() -> Iterator[tuple[paramiko.Channel, paramiko.Channel]]:
    """Both ends of a channel: the controller's and the host's."""
    with ExitStack() as opened:
        ours, theirs = socket.socketpair()
        server, client = paramiko.Transport(theirs), paramiko.Transport(ours)
        for transport in (server, client):
            opened.callback(transport.close)
        server.add_server_key(paramiko.ECDSAKey.generate())
        server.start_server(threading.Event(), OpenDoor())  # without an event, it waits for the client
        client.start_client()
        client.auth_none("someone")
        channel = client.open_session()
        channel.invoke_shell()
        yield channel, server.accept()


def test_heartbeats_are_sent_until_the_channel_is_closed(
    ends: tuple[paramiko.Channel, paramiko.Channel], clock: TurnedClock
) -> None:
    channel, host = ends
    host.settimeout(PATIENCE_S)
    host.sendall(b"watching 7\n")
    switch = DeadManSwitch("web", channel, ["job.sh", "watch"])
    printed = host.makefile("r")
    assert printed.readline() == "exec job.sh watch\n"
    assert [printed.readline() for _ in range(5)] == ["alive\n"] * 5
    assert clock.slept[:5] == [HEARTBEAT_S] * 5
    assert switch.alive
    channel.close()
    assert not switch.alive
    assert set(printed.readlines()) <= {"alive\n"}


def test_several_heartbeats_may_be_lost_before_the_lease_ends() -> None:
    assert SESSION_LEASE_S >= 4 * HEARTBEAT_S
