"""`loadbook new`: what it writes is a whole study, of any service; what it cannot write it says, and writes nothing."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from command_line import exit_code
from loadbook.execution.studies import load_study
from loadbook.services import known_services, load_service
from loadbook.services.check import ineffective_settings
from loadbook.services.variables import EnumVar, IntVar, PathVar, SwitchVar, Var
from loadbook.store.paths import Layout
from loadbook.study.plan import make_plan

PROXY = ["--service", "balancer=nginx", "--service", "web=nginx", "--set", "balancer.upstream=http"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for folder in ("studies", "notebooks"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))
    return Layout(tmp_path)


def other(var: Var) -> str | int:
    """Return a value that is not the variable's default."""
    if isinstance(var, IntVar):
        values: list[Any] = [var.min, var.max]
    elif isinstance(var, SwitchVar):
        values = ["on", "off"]
    elif isinstance(var, EnumVar):
        values = [*var.values]
    else:
        values = ["/srv/x"] if isinstance(var, PathVar) else []
    values += ["unset"] if var.unset else []
    return next((value for value in values if value != var.default), "")


@pytest.mark.parametrize("service", [name for name in known_services() if load_service(name).vars])
def test_new_study_can_be_made_for_every_variable_of_every_service(home, service, monkeypatch):
    values = {name: other(var) for name, var in load_service(service).vars.items()}
    tried = [f"--try={name}={value}" for name, value in values.items() if value != ""]
    assert exit_code(monkeypatch, "new", "mine", "--service", service, *tried) == 0
    study = load_study(home, "mine")
    assert len(make_plan(study).treatments) == len(tried) + 2
    spec = load_service(service)
    text = (home.studies / "mine.toml").read_text()
    given = tomllib.loads(re.sub(r"^# ([a-z_0-9]+ = )", r"\1", text, flags=re.MULTILINE))["roles"]["web"]["vars"]
    assert spec.problems("vars", given) == [] and list(given) == list(spec.vars)
    assert all(given[name] == var.default for name, var in spec.vars.items())


def test_plan_warns_of_a_treatment_that_can_have_no_effect(home, monkeypatch, capsys):
    assert exit_code(monkeypatch, "new", "mine", "--service", "nginx", "--try", "tcp_nopush=on") == 0
    capsys.readouterr()
    assert exit_code(monkeypatch, "plan", "mine") == 0
    text = "web.tcp_nopush = on has no effect: it needs sendfile = on (treatment tcp-nopush-on)"
    assert f"warning     {text}\n" in capsys.readouterr().out


def test_example_in_the_help_of_the_new_command_has_an_effect(home, monkeypatch, capsys):
    assert exit_code(monkeypatch, "new", "--help") == 0
    example = (
        re.sub(r"\s+", " ", capsys.readouterr().out).partition("For example: loadbook ")[2].partition(" Options")[0]
    )
    assert exit_code(monkeypatch, *example.split()) == 0
    assert ineffective_settings(load_study(home, example.split()[1])) == {}


def test_new_study_with_two_roles_puts_one_in_front_of_the_other(home, monkeypatch, capsys):
    words = [*PROXY, "--try", "upstream_path=/app", "--control", "balancer.set_steps=100"]
    assert exit_code(monkeypatch, "new", "mine", *words, "--try", "balancer.sendfile=on") == 2
    assert "say which: balancer.upstream_path=/app" in capsys.readouterr().err
    words = [w.replace("upstream_path", "balancer.upstream_path") for w in words]
    assert exit_code(monkeypatch, "new", "mine", *words, "--try", "web.set_steps=5") == 0
    study = load_study(home, "mine")
    assert study.workload.target == "balancer" and study.roles["balancer"].backends == ("web",)
    assert study.roles["balancer"].vars == {"upstream": "http"} and study.roles["web"].vars == {}
    assert {name: spec.set for name, spec in study.treatments.items()} == {
        "as-is": {}, "upstream-path-app": {"upstream_path": "/app"}, "web-set-steps-5": {"web_set_steps": 5},
        "again": {}, "control": {"balancer_set_steps": 100},
    }  # fmt: skip
    assert study.factors["web_set_steps"].levels == (0, 5) and study.treatments["control"].expect == "worse"
    assert study.levels_of("as-is") == {"upstream_path": "/", "web_set_steps": 0, "balancer_set_steps": 0}


@pytest.mark.parametrize(
    "words, printed",
    [
        (["--service", "nginx"], "nothing is compared"),
        (["--service", "nginx", "--try", "gzip"], "sets nothing"),
        (["--service", "nginx", "--try", "gzp=on"], "did you mean 'gzip'?"),
        (["--service", "nginx", "--try", "gzip=maybe"], "web.gzip: must be on or off or unset"),
        (["--service", "nginx", "--try", "wb.gzip=on"], "roles: web"),
        (["--service", "nginx", "--try", "gzip=on", "--set", "gzip=on"], "web.gzip is on already"),
        (["--service", "ngnix", "--try", "gzip=on"], "did you mean 'nginx'"),
        (["--service", "nginx", "--service", "haproxy", "--try", "gzip=on"], "no role for it"),
        (["--service", "driver=nginx", "--try", "gzip=on"], "no role for it"),
    ],
)
def test_new_study_that_cannot_be_written_leaves_no_file(home, words, printed, monkeypatch, capsys):
    assert exit_code(monkeypatch, "new", "mine", *words) == 2
    assert printed in capsys.readouterr().err and list(home.studies.iterdir()) == []


def test_new_study_never_overwrites_a_file(home, monkeypatch, capsys):
    (home.studies / "mine.toml").write_text("mine")
    assert exit_code(monkeypatch, "new", "mine", "--service", "nginx", "--try", "gzip=on") == 2
    assert "is there already" in capsys.readouterr().err and (home.studies / "mine.toml").read_text() == "mine"
    assert exit_code(monkeypatch, "new", "../x", "--service", "nginx", "--try", "gzip=on") == 2


@pytest.mark.parametrize(
    "words, control",
    [
        (["--service", "nginx", "--try", "gzip=on"], {"set_steps": 100}),
        (["--service", "nginx", "--try", "gzip=on", "--set", "page_bytes=1048576"], {"set_steps": 1000}),
        ([*PROXY, "--try", "balancer.sendfile=on"], {"set_steps": 1000}),
        ([*PROXY, "--try", "web.sendfile=on"], {"set_steps": 100}),
        (["--service", "balancer=haproxy", "--service", "nginx", "--try", "http_reuse=always"], {"set_steps": 1000}),
        # in mode tcp haproxy sees no requests, so the servers behind it are slowed
        (["--service", "balancer=haproxy", "--service", "nginx", "--set", "mode=tcp", "--try", "maxconn=900"],
         {"set_steps": 100}),
        (["--service", "nginx", "--try", "set_steps=5"], None),
        (["--service", "node-app", "--set", "loop=500000", "--try", "processes=2"], None),
        (["--service", "redis", "--try", "io_threads=2"], None),
        (["--service", "nginx", "--try", "gzip=on", "--no-control"], None),
        (["--service", "nginx", "--try", "gzip=on", "--control", "access_logs=4", "--set", "access_log=unbuffered"],
         {"access_logs": 4}),
    ],
)  # fmt: skip
def test_new_study_has_a_control_unless_it_is_refused_or_no_service_has_one(home, words, control, monkeypatch, capsys):
    assert exit_code(monkeypatch, "new", "mine", *words) == 0
    study, out = load_study(home, "mine"), capsys.readouterr().out
    assert (study.treatments["control"].set if control else None) == control
    assert ("control" in study.treatments) == (control is not None)
    assert all("control" not in treatments for treatments in ineffective_settings(study).values())
    by_user = "--control" in words or "--no-control" in words
    assert ("control none: no service here" in out) == (control is None and not by_user)


def test_control_and_no_control_exclude_each_other(home, monkeypatch, capsys):
    words = ["--service", "nginx", "--try", "gzip=on", "--control", "set_steps=5", "--no-control"]
    assert exit_code(monkeypatch, "new", "mine", *words) == 2
    assert "exclude each other" in capsys.readouterr().err
