"""A run from a cell: one output updated in place, however many trials; a process that outlives its kernel."""

import pytest

import loadbook as lb
from loadbook.core.errors import UsageError
from loadbook.notebook import live_run
from recorded_run import STUDY
from replayable_project import replayable_project


@pytest.fixture
def project(tmp_path):
    return replayable_project(tmp_path / "home")


def test_jupyter_server_that_does_not_answer_does_not_end_the_cell():
    nobody = live_run.OpenPages("http://127.0.0.1:9/api/kernels/k")
    assert nobody.number() is None and not nobody.changed()
    assert not live_run.OpenPages().changed() and live_run.open_pages() == live_run.OpenPages()
    served = {"url": "https://h:1/", "token": "secret"}
    assert live_run.pages_of_server(served, "k") == live_run.OpenPages()
    known = live_run.pages_of_server(served | {"url": "http://h:1/x/"}, "k")
    assert known.address == "http://h:1/x/api/kernels/k" and "secret" not in repr(known)


def test_wrong_arguments_of_run_are_errors_before_the_start(project, monkeypatch):
    layout, _ = project
    monkeypatch.chdir(layout.root)
    with pytest.raises(UsageError, match="no study"):
        lb.run("recordd", execute=True)
    with pytest.raises(UsageError, match="absent"):
        lb.run(STUDY, hosts="absent.toml", execute=True)
    assert "Nothing was executed" in lb.run(STUDY).text


def test_study_called_example_cannot_be_run(project, monkeypatch):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    study = layout.studies / f"{STUDY}.toml"
    (layout.studies / "example.toml").write_text(study.read_text().replace(f'name = "{STUDY}"', 'name = "example"'))
    with pytest.raises(UsageError, match="cannot be called 'example'"):
        lb.run("example", hosts=hosts, execute=True)
