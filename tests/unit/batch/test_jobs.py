"""What a batch file means in a project: works, shared runs, machines, names; every misfit before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.batch.file import read_batch
from loadbook.batch.jobs import batch_jobs
from loadbook.core.errors import StudyError
from recorded_run import FIXTURE, REPO, copy_recorded_run, with_studies

REPLAY = next(FIXTURE.iterdir()) / "hosts.toml"
HOSTS = """
[hosts.{0}-load]
roles = ["driver"]
[hosts.{0}-web]
roles = ["web", "balancer"]
address = "{1}"
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return with_studies(tmp_path_factory.mktemp("works"))


def works(layout, tmp_path: Path, text: str):
    path = tmp_path / "nightly.toml"
    path.write_text(text)
    return batch_jobs(layout, read_batch(path))


def hosts(tmp_path: Path, name: str, address: str) -> str:
    (tmp_path / f"{name}.toml").write_text(HOSTS.format(name, address))
    return f"{name}.toml"


def problems(layout, tmp_path: Path, text: str) -> dict[str, str]:
    with pytest.raises(StudyError) as caught:
        works(layout, tmp_path, text)
    found: dict[str, str] = {}
    for problem in caught.value.problems:
        found[problem.path] = f"{found.get(problem.path, '')}{problem.message}\n"
    return found


def test_batch_jobs_merge_entries_that_share_a_run(layout, tmp_path):
    text = """
[[entry]]
study = "nginx-directives-smoke"
parameters.metric = ["ok_per_s", "latency"]
[[entry]]
study = "noise-smoke"
[[entry]]
study = "nginx-directives-smoke"
parameters = { metric = "ok_per_s", level = 1 }
"""
    one, two = works(layout, tmp_path, text)
    assert (one.study, one.trials, one.hosts_text) == ("nginx-directives-smoke", 48, "the lab")
    assert [report.parameters for report in one.reports] == [
        {"metric": "ok_per_s"}, {"metric": "latency"}, {"metric": "ok_per_s", "level": 1},
    ]  # fmt: skip
    assert [report.name for report in (*one.reports, *two.reports)] == [
        "nginx-directives-smoke-ok_per_s", "nginx-directives-smoke-latency", "nginx-directives-smoke-ok_per_s-1",
        "noise-smoke",
    ]  # fmt: skip


def test_batch_jobs_pass_parameters_to_notebooks_that_declare_them(layout, tmp_path):
    text = 'parameters.level = [0.9, 0.95]\n[[entry]]\nstudy = ["nginx-directives-smoke", "noise-smoke"]\n'
    one, two = works(layout, tmp_path, text)
    assert [report.parameters for report in one.reports] == [{"level": 0.9}, {"level": 0.95}]
    assert [report.parameters for report in two.reports] == [{}]


def test_batch_jobs_give_pages_unique_names(layout, tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "h.toml").write_text(HOSTS.format("h", "192.0.2.1"))
    text = '[[entry]]\nstudy = "noise"\nhosts = ["old/h.toml", "new/h.toml"]\n'
    names = [report.name for work in works(layout, tmp_path, text) for report in work.reports]
    assert names[0] == "noise-h"
    assert names[1].startswith("noise-h-")
    assert names == [report.name for work in works(layout, tmp_path, text) for report in work.reports]


def test_batch_jobs_recognise_the_same_machine_in_different_hosts_files(layout, tmp_path):
    a, b, same = (hosts(tmp_path, *each) for each in (("a", "192.0.2.1"), ("b", "192.0.2.2"), ("c", "192.0.2.1")))
    studies = ["noise", "aa", "known-cost"]
    text = "".join(f'[[entry]]\nstudy = "{s}"\nhosts = "{h}"\n' for s, h in zip(studies, (a, b, same), strict=True))
    text += f'[[entry]]\nstudy = "noise"\nhosts = "{b}"\n[[entry]]\nstudy = "lb-kernel"\n'
    text += f'[[entry]]\nstudy = "nginx-directives-smoke"\nhosts = "{REPLAY}"\n'
    one, other, shared, again, lab, replayed = works(layout, tmp_path, text)
    assert not one.machines & other.machines
    assert one.machines & shared.machines == {"192.0.2.1"}
    assert again.machines == other.machines
    assert (lab.machines, replayed.machines) == (None, frozenset())


def test_batch_jobs_recognise_hosts_on_this_machine(layout, tmp_path):
    text = f'[[entry]]\nstudy = "noise"\nhosts = "{hosts(tmp_path, "a", "127.0.0.9")}"\n'
    (one,) = works(layout, tmp_path, text)
    assert one.machines is None


def test_batch_jobs_report_every_error_before_the_start(layout, tmp_path):
    (tmp_path / "torn.toml").write_text('name = "torn"\nquestion = "Is it?"\n')
    (tmp_path / "few.toml").write_text('[hosts.web]\nroles = ["web"]\n')
    text = """
parameters.studdy = "x"
[[entry]]
study = "nginx-directive"
[[entry]]
study = "torn.toml"
[[entry]]
study = "aa"
subset = "small"
[[entry]]
study = "aa"
hosts = ["absent.toml", "few.toml"]
[[entry]]
study = "known-cost"
more = 5
[[entry]]
study = "noise"
parameters = { metrik = "x", study = "y" }
[[entry]]
study = "aa-smoke"
parameters = { metric = "ok", baseline = "zero" }
"""
    found = problems(layout, tmp_path, text)
    assert "did you mean 'nginx-directives'" in found["entry.0.study (line 3)"]
    assert "torn.toml: " in found["entry.1.study (line 5)"]
    assert "no subset 'small'" in found["entry.2.study (line 7)"]
    assert "absent.toml is not there" in found["entry.3.hosts (line 10)"]
    assert "few.toml: the run cannot start: no host has the role 'driver'" in found["entry.3.hosts (line 10)"]
    assert "has no run yet" in found["entry.4.more (line 13)"]
    assert "unknown parameter 'metrik'; did you mean 'metric'?" in found["entry.5.parameters (line 16)"]
    assert "no treatment 'zero'" in found["entry.6.parameters.baseline (line 19)"]


def test_batch_jobs_refuse_reserved_and_undeclared_notebook_parameters(layout, tmp_path):
    found = problems(layout, tmp_path, '[[entry]]\nstudy = "noise"\nparameters = { study = "x", run = "y" }\n')
    assert set(found) == {"entry.0.parameters.study (line 1)", "entry.0.parameters.run (line 1)"}
    found = problems(layout, tmp_path, 'parameters.metrik = "x"\n[[entry]]\nstudy = "noise"\n')
    assert found == {"parameters.metrik": "no notebook of these studies knows it\n"}


def test_batch_jobs_add_blocks_to_an_existing_or_new_run(tmp_path):
    home = copy_recorded_run(tmp_path)
    entry = f'[[entry]]\nstudy = "{{}}"\nhosts = "{REPLAY}"\n'
    (one,) = works(home, tmp_path, entry.format("recorded") + "more = 2\n")
    assert one.trials == 8
    text = entry.format("nginx-directives-smoke") + entry.format("nginx-directives-smoke") + "more = 2\n"
    assert [work.more for work in works(home, tmp_path, text)] == [None, 2]


def test_batch_jobs_accept_the_documented_example(layout):
    batch = read_batch(REPO / "docs/nightly.toml")
    assert {work.hosts_text for work in batch_jobs(layout, batch)} == {"the lab"}
