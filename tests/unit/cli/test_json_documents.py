"""`--json`: stdout is one document with the keys of docs/ci.md, text goes to stderr, exit codes are as without it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from batch_projects import BOTH, REPLAY, batch_file, project_of_replays
from command_line import exit_code
from import_files import folder
from loadbook.cli import terminal
from loadbook.hosts.doctor import CheckResult
from loadbook.hosts.lab import LabHostStatus
from recorded_run import STUDY, copy_recorded_run, run_of

SECTION = (Path(__file__).parents[3] / "docs/ci.md").read_text().split("\n## JSON for scripts\n")[1]
ROWS = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", SECTION, re.MULTILINE))
HOSTS = '[hosts.load1]\nroles = ["driver"]\nhost_name = "192.0.2.12"\n[hosts.web1]\nroles = ["web"]\n' \
        'host_name = "192.0.2.13"\naddress = "192.0.2.99"\nuser = "bench"\n'  # fmt: skip


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = copy_recorded_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def loadbook(layout, monkeypatch, capsys):
    """Call a command with --json; returns exit code, document and stderr."""

    def call(*words):
        code = exit_code(monkeypatch, *words, "--json")
        printed = capsys.readouterr()
        return code, json.loads(printed.out), printed.err

    return call


def documented(command: str) -> set[str]:
    """Return the names in a row of the table, and those of `run` if the row refers to them."""
    names = set(re.findall(r"`(\w+)`", ROWS[command]))
    return names | documented("run") if "those of `run`" in ROWS[command] else names


def test_hosts_list_document_has_an_object_per_host(loadbook, tmp_path):
    (tmp_path / "hosts.toml").write_text(HOSTS)
    code, hosts, _ = loadbook("hosts", "list", "--hosts", "hosts.toml")
    assert code == 0
    assert [(host["host"], host["roles"], host["address"]) for host in hosts] == [
        ("load1", ["driver"], "192.0.2.12"), ("web1", ["web"], "192.0.2.99"),
    ]  # fmt: skip
    assert hosts[1]["login"].startswith("bench@192.0.2.13") and hosts[1]["trusted_keys"] == 0
    assert set(hosts[0]) == documented("hosts list")


def test_lab_status_document_has_an_object_per_host_and_exits_with_3_if_one_is_down(loadbook, monkeypatch):
    states = [LabHostStatus("driver", "127.0.1.1", 2201, 77, (0,)), LabHostStatus("web", "127.0.1.2", 2202, None, None)]
    monkeypatch.setattr("loadbook.hosts.lab.Lab.status", lambda lab: states)
    code, hosts, err = loadbook("lab", "status")
    assert code == 3 and "next: loadbook lab up" in err
    assert [(host["host"], host["pid"], host["up"], host["cpus"]) for host in hosts] == [
        ("driver", 77, True, [0]), ("web", None, False, None),
    ]  # fmt: skip
    assert set(hosts[0]) == documented("lab status")


def test_lab_status_document_without_a_lab_is_empty(loadbook):
    assert loadbook("lab", "status")[:2] == (3, [])


def test_doctor_document_has_the_lines_of_the_table(loadbook, tmp_path, monkeypatch):
    (tmp_path / "hosts.toml").write_text(HOSTS)
    found = [CheckResult("web1", "nginx", "missing", "not found", "apt-get install nginx")]
    monkeypatch.setattr("loadbook.cli.hosts.check_hosts", lambda *given: found)
    code, checks, err = loadbook("doctor", "--hosts", "hosts.toml")
    assert code == 3 and "1 thing missing" in err
    assert checks[0]["subject"] == "Python" and checks[0]["status"] == "ok"
    assert checks[-1] == found[0]._asdict()
    assert set(checks[-1]) <= documented("doctor")


def test_verify_document_names_every_changed_file(loadbook, layout):
    raw = run_of(layout)
    code, (run,), _ = loadbook("verify")
    assert (code, run["findings"], run["attempts"]) == (0, [], 32)
    files = [path for path in raw.rglob("*") if path.is_file()]
    assert (run["files"], run["size_bytes"]) == (len(files), sum(path.stat().st_size for path in files))
    assert set(run) <= documented("verify") and (run["study"], run["run"]) == (STUDY, raw.name)
    (raw / "trials/t0003/monitor-web").unlink()
    code, (run,), err = loadbook("verify", STUDY)
    name = f"{raw.relative_to(layout.root)}/trials/t0003/monitor-web"
    assert (code, run["findings"]) == (4, [{"kind": "missing", "path": name, "message": None}])
    assert "1 finding" in err


def test_run_document_has_the_run_its_trials_and_the_next_command(loadbook, layout):
    hosts = run_of(layout) / "hosts.toml"
    code, run, err = loadbook("run", STUDY, "--hosts", str(hosts), "--blocks", "1", "--new")
    assert (code, run["study"], run["next"]) == (0, STUDY, f"loadbook report {STUDY}")
    assert run["run"] == layout.runs(STUDY)[-1] and run["folder"] == str(layout.run(STUDY, run["run"]).raw)
    assert (run["planned_trials"], run["recorded_trials"], run["valid_trials"]) == (4, 4, 4)
    assert (run["invalid"], run["exploratory"]) == ([], None)
    assert "4 of 4 planned trials are valid" in err
    assert set(run) <= documented("run")


def test_run_document_is_printed_although_no_trial_counts(loadbook, layout):
    hosts = run_of(layout) / "hosts.toml"
    text = f'include = "{STUDY}.toml"\nname = "other"\n[roles.web.vars]\npage_bytes = 6\n'
    (layout.studies / "other.toml").write_text(text)
    code, run, err = loadbook("run", "other", "--hosts", str(hosts), "--blocks", "1")
    assert (code, run["valid_trials"], run["next"]) == (4, 0, "loadbook run other")
    assert sum(cause["trials"] for cause in run["invalid"]) == run["recorded_trials"] == 4
    assert "is valid: " in err


def test_run_dry_run_with_json_names_the_plan(layout, monkeypatch, capsys):
    assert exit_code(monkeypatch, "run", STUDY, "--dry-run", "--json") == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.endswith(f"next: loadbook plan {STUDY} --json\n")


def test_import_document_has_every_output_and_the_run(loadbook, layout, tmp_path):
    there = folder(tmp_path)
    words = ("import", str(there), "--conditions", str(there / "conditions.csv"), "--baseline", "plain")
    code, planned, _ = loadbook(*words, "--dry-run")
    assert (code, planned["run"], planned["refused"], len(planned["outputs"])) == (0, None, [], 18)
    code, found, err = loadbook(*words)
    assert (code, found["run"], found["valid_trials"]) == (0, layout.runs("by-hand")[-1], 18)
    assert found["outputs"] == planned["outputs"] and (found["metric"], found["baseline"]) == ("ok_per_s", "plain")
    assert found["outputs"][0] == {
        "file": "access-1.txt", "tool": "wrk", "treatment": "access-log", "block": 1, "trial": "t0001", "error": None,
    }  # fmt: skip
    assert found["next"] == "loadbook report by-hand" and "next: loadbook report by-hand" in err
    assert set(found) <= documented("import FOLDER")
    assert loadbook(*words, "--dry-run")[1]["same_as_run"] == found["run"]


def test_import_document_gives_the_reason_of_every_refused_row(loadbook, layout, tmp_path):
    there = folder(tmp_path)
    (there / "access-2.txt").unlink()
    words = ("import", str(there), "--conditions", str(there / "conditions.csv"))
    code, found, err = loadbook(*words, "--baseline", "nope")
    assert (code, found["run"], found["outputs"], layout.runs("by-hand")) == (2, None, [], [])
    assert found["refused"][0]["line"] is None and found["refused"][0]["reason"].startswith("no treatment 'nope'")
    (missing,) = [row for row in found["refused"] if "access-2.txt" in row["reason"]]
    assert isinstance(missing["line"], int) and f"line {missing['line']}: {missing['reason']}" in err


def test_import_document_of_an_archive_has_its_verification(loadbook, layout, tmp_path, monkeypatch, capsys):
    archive = tmp_path / "run.tar.gz"
    assert exit_code(monkeypatch, "export", STUDY, "--out", str(archive)) == 0
    capsys.readouterr()
    code, found, err = loadbook("import", str(archive))
    assert (code, found["run"], found["already_there"]) == (0, run_of(layout).name, True)
    assert (found["differing_tables"], found["verification"]["findings"]) == ([], [])
    assert "all as it was kept" in err
    assert set(found) <= documented("import ARCHIVE")


def test_batch_dry_run_document_has_the_expected_times(tmp_path, monkeypatch, capsys):
    layout = project_of_replays(tmp_path / "home")
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "batch", str(batch_file(layout, *BOTH)), "--dry-run", "--jobs", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["jobs"]
    assert (first["study"], first["hosts"], first["starts_after_s"]) == ("first", str(REPLAY), 0)
    assert second["starts_after_s"] == first["ends_after_s"] < second["ends_after_s"] == found["expected_s"]
    assert {*found, *first} <= documented("batch --dry-run")


def test_documents_have_null_for_numbers_that_json_lacks(capsys):
    terminal.print_json({"a": [math.nan, (math.inf, 1.5)], "b": "\x1b[31mü"})
    assert json.loads(capsys.readouterr().out) == {"a": [None, [None, 1.5]], "b": "\x1b[31mü"}


def test_tables_and_texts_go_to_stderr_beside_a_document():
    @click.command()
    @terminal.json_option("nothing")
    def command(as_json):
        terminal.echo("text")
        terminal.print_table(("heading",), [("cell",)])
        if as_json:
            terminal.print_json([])

    done = CliRunner().invoke(command, ["--json"])
    assert (done.stdout, done.stderr.split()) == ("[]\n", ["text", "heading", "cell"])
    done = CliRunner().invoke(command, [])
    assert (done.stdout.split(), done.stderr) == (["text", "heading", "cell"], "")


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_calibrate_without_a_terminal_needs_yes(layout, monkeypatch, capsys, words):
    monkeypatch.setattr("loadbook.cli.terminal.can_ask", lambda: bool(words))
    monkeypatch.setattr("loadbook.cli.calibrate._lab_hosts", lambda layout: pytest.fail("the lab was started"))
    assert exit_code(monkeypatch, "calibrate", *words) == 2
    printed = capsys.readouterr().err
    assert "puts load on the hosts for minutes" in printed and printed.endswith("next: loadbook calibrate ... --yes\n")


def test_calibrate_tells_the_load_and_its_time_before_it_starts(layout, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("loadbook.cli.terminal.can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin.readline", lambda: "n\n")
    monkeypatch.setattr("loadbook.cli.calibrate._driver_tools", lambda path, tools: (["ab"], []))
    monkeypatch.setattr("loadbook.cli.calibrate._run_studies", lambda *given: pytest.fail("load was put"))
    assert exit_code(monkeypatch, "calibrate", "--hosts", "hosts.toml", "--blocks", "3") == 130
    printed = capsys.readouterr().err.replace("\N{NO-BREAK SPACE}", " ")
    assert "This puts load on the hosts of hosts.toml: 15 trials of ab, 60 s. Start? [y/N]" in printed
