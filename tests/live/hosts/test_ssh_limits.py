"""Servers that allow few sessions or few logins at once: one retry, then a message that names the setting."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from loadbook.core.errors import HostError, UnreachableError
from loadbook.hosts import sshd
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import connect

pytestmark = pytest.mark.fault(15)


@pytest.fixture
def limited(tmp_path, monkeypatch) -> Iterator[Callable[[str], Lab]]:
    """`limited("MaxSessions 2")` returns a lab, not yet up, whose only server has this setting."""
    made = []

    def lab(setting: str) -> Lab:
        name = setting.split()[0]
        lines = [setting if line.startswith(f"{name} ") else line for line in sshd.CONFIG_TEMPLATE.splitlines()]
        monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", "\n".join(lines) + "\n")
        made.append(Lab(tmp_path / "lab", hosts={"few": ("web",)}, net_prefix="127.251.9"))
        return made[-1]

    yield lab
    for one in made:
        one.down()


def test_host_needs_at_most_four_ssh_sessions(limited):
    lab = limited("MaxSessions 4")
    lab.up()
    host = connect(lab.hosts_file, "few")
    try:
        threads = [threading.Thread(target=host.run, args=(["true"],), kwargs={"timeout_s": 10}) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(HostError, match="took longer"):
            host.run(["sleep", "30"], timeout_s=0.2)
        assert host.run(["echo", "a new shell"], timeout_s=5).stdout == b"a new shell\n"
    finally:
        host.close()


def test_error_about_too_few_ssh_sessions_names_the_sshd_setting(limited, record_property):
    with pytest.raises(HostError) as refused:
        limited("MaxSessions 2").up()
    assert "MaxSessions" in str(refused.value.hint)
    record_property("seen", f"MaxSessions 2: {refused.value.hint}")


def test_refused_login_is_retried_once_and_then_names_the_sshd_setting(limited, record_property):
    lab = limited("MaxStartups 1:100:1")
    (status,) = lab.up()
    where = (status.address, status.port)
    with socket.create_connection(where) as login:
        login.recv(8)
        with pytest.raises(UnreachableError) as refused:
            connect(lab.hosts_file, "few")
    assert "MaxStartups" in str(refused.value.hint)
    record_property("seen", "MaxStartups 1, taken: refused after one retry; named")
    login = socket.create_connection(where)
    login.recv(8)
    threading.Timer(0.3, login.close).start()
    connect(lab.hosts_file, "few").close()
