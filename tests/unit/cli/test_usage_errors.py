"""Wrong turns that people take on the command line: each is told what is there, and what to do next."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

import loadbook
from command_line import exit_code
from loadbook.core.errors import UsageError
from recorded_run import STUDY, copy_recorded_run


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Type a command in a project with a recorded run and no lab; returns exit code, stdout and stderr."""
    monkeypatch.setenv("LOADBOOK_HOME", str(copy_recorded_run(tmp_path).root))
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = exit_code(monkeypatch, *words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_misspelt_subcommand_lists_commands_by_similarity(typed):
    code, _, err = typed("rnu", "x")
    assert code == 2
    assert "no command 'rnu'" in err
    assert "commands: run, " in err


def test_missing_study_argument_suggests_the_studies_command(typed):
    code, _, err = typed("run")
    assert code == 2
    assert err.startswith("loadbook: run: missing argument 'STUDY'\n")
    assert err.endswith("next: loadbook studies has them all\n")


def test_new_without_a_service_lists_the_services(typed):
    code, _, err = typed("new", "mine")
    assert code == 2
    assert "--service NAME; services: " in err and "haproxy" in err


@pytest.mark.parametrize(
    "study, following",
    [
        ("nosuch", f"studies with a run: {STUDY}; loadbook studies has every study"),
        ("aa", "loadbook run aa"),
        ("aa-smoke", "loadbook run aa-smoke"),
    ],
)
def test_report_without_a_run_lists_studies_with_runs(typed, study, following):
    code, _, err = typed("report", study)
    assert code == 2
    assert f"study '{study}' has no run" in err and f"next: {following}\n" in err
    assert "did you mean" not in err


def test_invalid_option_value_is_reported_with_an_example(typed):
    code, _, err = typed("new", "mine", "--service", "nginx", "--try", "open_file_cache=on")
    assert code == 2
    assert "web.open_file_cache: must match" in err
    assert "next: open_file_cache: for example `max=1000 inactive=20s`" in err


def test_value_that_is_not_allowed_is_reported_with_those_that_are(typed):
    _, _, err = typed("new", "mine", "--service", "nginx", "--try", "gzip=yes")
    assert "web.gzip: must be on or off or unset, not 'yes'\n" in err
    assert err.endswith("next: gzip may be: on, off, unset\n")


def test_mistyped_variable_is_reported_with_the_similar_one_and_the_page_of_all(typed):
    _, _, err = typed("new", "mine", "--service", "nginx", "--try", "gzipp=on")
    assert err == "loadbook: no variable 'gzipp'; did you mean 'gzip'?\n  next: docs/services.md lists all variables\n"


def test_study_without_runs_is_reported_with_the_similar_one_that_has_some(typed):
    code, _, err = typed("verify", f"{STUDY}s")
    assert code == 2
    assert f"study '{STUDY}s' has no run under " in err and f"; did you mean '{STUDY}'?\n  next: " in err


@pytest.mark.parametrize(
    "words, message, following",
    [
        (["run", "aa", "--blcoks", "3"], "run: no option '--blcoks'; did you mean '--blocks'?", "loadbook run --help"),
        (["run", "aa", "--zzz"], "run: no option '--zzz'", "loadbook run --help"),
        (["lab", "upp"], "no command 'upp' of loadbook lab; did you mean 'up'?", "commands: up, "),
        (["parse", "wrk", "gone"], "no file or folder 'gone'", "name a file that the tool wrote"),
        (["compare", "a.csv"], "--baseline is missing", "loadbook compare a.csv --baseline NAME"),
        (["compare", "a", "b"], "no file or folder 'a'", "name a file that the tool wrote"),
        (["run", "aa", "--blocks", "x"], "run: invalid value for '--blocks': 'x' is not", "loadbook run --help"),
        (["--nosuch"], "no option '--nosuch'", "loadbook --help"),
    ],
)
def test_mistakes_in_a_command_are_reported_in_the_same_style(typed, tmp_path, words, message, following):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"loadbook: {message}") and f"\n  next: {following}" in err
    assert "Usage" not in err and "Error" not in err and err.count("\n") == 2


def test_run_with_missing_hosts_file_starts_nothing(typed, tmp_path):
    code, out, err = typed("run", STUDY, "--hosts", "hosts.toml")
    assert code == 2
    assert f"hosts file {tmp_path}/hosts.toml is not there" in err
    assert "new run" not in out + err


def test_doctor_without_a_lab_suggests_lab_up(typed):
    code, _, err = typed("doctor")
    assert code == 2
    assert "no lab on this machine yet" in err and "loadbook lab up" in err


def test_trust_without_a_terminal_prints_the_full_command(typed, tmp_path, monkeypatch):
    (tmp_path / "hosts.toml").write_text('[hosts.web1]\nroles = ["web"]\nhost_name = "192.0.2.13"\n')
    offer = SimpleNamespace(status="new", description="ssh-ed25519 SHA256:x", key=None)
    monkeypatch.setattr("loadbook.hosts.ssh.check_offered_keys", lambda end: [offer])
    code, _, err = typed("hosts", "trust", "--hosts", "hosts.toml")
    assert code == 2
    assert err.endswith("then: loadbook hosts trust --yes --hosts hosts.toml\n")


def test_trust_of_a_changed_key_without_a_terminal_advises_replace(typed, tmp_path, monkeypatch):
    (tmp_path / "hosts.toml").write_text('[hosts.web1]\nroles = ["web"]\nhost_name = "192.0.2.13"\n')
    offer = SimpleNamespace(status="changed", description="ssh-ed25519 SHA256:x", key=None)
    monkeypatch.setattr("loadbook.hosts.ssh.check_offered_keys", lambda end: [offer])
    _, _, err = typed("hosts", "trust", "--hosts", "hosts.toml")
    assert "loadbook hosts trust --replace" in err and "--yes" not in err
    _, _, err = typed("hosts", "trust", "--hosts", "hosts.toml", "--replace")
    assert err.endswith("then: loadbook hosts trust --yes --replace --hosts hosts.toml\n")


def test_lab_down_during_a_run_prints_a_warning(typed, monkeypatch):
    owner = SimpleNamespace(description="me@here (process 7), run 20260101-000000 of aa, for 3 s")
    lab = SimpleNamespace(owners=lambda: [owner], down=lambda: [])
    monkeypatch.setattr("loadbook.cli.hosts._load_lab", lambda: lab)
    code, _, err = typed("lab", "down")
    assert code == 0
    assert err == f"warning: the lab is in use by {owner.description}; its trial ends here\n"


def test_unknown_study_is_an_error_with_the_most_similar_name(typed):
    code, out, err = typed("studies", "nginx-directivs")
    assert (code, out) == (2, "")
    assert "no study 'nginx-directivs' in " in err and "did you mean 'nginx-directives'?" in err


def test_misspelt_command_suggests_the_most_similar_one(typed):
    code, _, err = typed("rn", "x")
    assert code == 2
    assert "no command 'rn'; did you mean 'run'?\n  next: commands: run, " in err


@pytest.mark.parametrize("chain", [["driver=nginx"], ["nginx", "web=haproxy"], ["Web=nginx"], ["my-web=nginx"]])
def test_new_gives_every_service_a_role_of_its_own_that_is_not_the_driver(typed, chain):
    code, _, err = typed("new", "mine", *(word for service in chain for word in ("--service", service)))
    assert code == 2
    assert "no role for it" in err


def test_full_disk_of_the_controller_is_an_error_with_a_next_step(typed, monkeypatch):
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "data/raw/x")

    monkeypatch.setattr("loadbook.cli.cli", full)
    code, _, err = typed("studies")
    assert code == 4
    assert "next: " in err


def test_shell_completes_commands_and_studies(typed, monkeypatch):
    monkeypatch.setenv("_LOADBOOK_COMPLETE", "bash_complete")
    for words, expected in (("loadbook re", {"report", "restore"}), ("loadbook plan aa", {"aa"})):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        code, out, _ = typed()
        assert code == 0
        assert {line.partition(",")[2] for line in out.splitlines()} == expected


def test_page_of_a_mistyped_study_suggests_the_similar_one_with_a_run(typed):
    with pytest.raises(UsageError, match=f"study 'x{STUDY}' has no run under .*; did you mean '{STUDY}'"):
        loadbook.effects_page(f"x{STUDY}")
