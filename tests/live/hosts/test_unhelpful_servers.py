"""Servers in which commands work for ssh, but not all that a run needs: each is named, with the setting to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from command_line import exit_code
from loadbook.core.errors import HostError, HostTimeoutError, PreflightError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts import shell, sshd
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import connect
from recorded_run import with_studies


@pytest.fixture
def changed(monkeypatch) -> Callable[[str, str], None]:
    """`changed(old, new)` replaces a line of the lab's sshd_config."""

    def change(old: str, new: str) -> None:
        assert old in sshd.CONFIG_TEMPLATE
        monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", sshd.CONFIG_TEMPLATE.replace(old, new))

    return change


def refused(lab: Lab) -> HostError:
    with pytest.raises(HostError) as caught:
        connect(lab.hosts_file, "web")
    return caught.value


@pytest.mark.parametrize("line", ["", "Subsystem sftp /bin/false", "Subsystem sftp /no/such/program"])
def test_server_without_sftp_is_named_with_the_setting(server, changed, line):
    changed("Subsystem sftp internal-sftp", line)
    error = refused(server())
    assert error.message.startswith("host web: its SSH server offers no SFTP, by which files are copied (")
    assert error.hint.startswith("add `Subsystem sftp internal-sftp` to its sshd_config")


@pytest.mark.parametrize(
    ("start_file", "kind"), [('read -r -p "which? " x', HostError), ("cat >/dev/null", HostTimeoutError)]
)
def test_start_file_that_reads_commands_is_named(server, tmp_path, monkeypatch, start_file, kind):
    monkeypatch.setattr(shell, "SHELL_TIMEOUT_S", 2.0)
    start_file = f"unset BASH_ENV\n{start_file}\n"  # only the shell of the login reads it, as a ~/.bashrc
    (tmp_path / "start").write_text(start_file)
    lab = server(f"SetEnv BASH_ENV={tmp_path}/start SHLVL=1")
    error = refused(lab)
    assert type(error) is kind
    assert error.message == (
        "host web: the shell of the login did not run its first command: a start file, such as ~/.bashrc, may read it"
    )
    assert error.hint.startswith("begin that host's ~/.bashrc with: case $- in *i*) ;; *) return ;; esac")
    (tmp_path / "start").write_text(f"case $- in *i*) ;; *) return ;; esac\n{start_file}")
    connect(lab.hosts_file, "web").close()


@pytest.fixture
def closed_lab(tmp_path, changed) -> Iterator[Lab]:
    """A lab of a driver and a server, both of which forbid forwarding."""
    changed("AllowTcpForwarding yes", "AllowTcpForwarding no")
    lab = Lab(tmp_path / "lab", hosts={"driver": ("driver",), "web": ("web",)}, net_prefix="127.251.8")
    lab.up()
    yield lab
    lab.down()


def test_forbidden_forwarding_is_named_by_doctor_and_before_the_first_trial(closed_lab, tmp_path, monkeypatch, capsys):
    layout = with_studies(tmp_path / "home")
    with pytest.raises(PreflightError) as caught:
        run_study(layout, RunRequest("aa", closed_lab.hosts_file))
    problem = "host driver: its sshd refuses to forward connections, by which pages are checked"
    assert caught.value.problems == [problem]
    assert caught.value.hint.startswith("set `AllowTcpForwarding local` (or yes) in its sshd_config")
    monkeypatch.setenv("COLUMNS", "300")
    assert exit_code(monkeypatch, "doctor", "--hosts", str(closed_lab.hosts_file)) != 0
    printed = capsys.readouterr().out
    assert printed.count("refused by sshd, so that no page can be checked") == 2
    assert "AllowTcpForwarding local" in printed
