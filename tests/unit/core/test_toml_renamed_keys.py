"""Old names of TOML keys are read with one note; records keep the names that they had."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from loadbook.core.errors import StudyError
from loadbook.core.toml import RenamedKeyWarning
from loadbook.hosts.inventory import read_hosts
from loadbook.study.plan import as_planned, make_plan, parse_plan, study_sha256
from loadbook.study.reader import read_study, study_files

STUDIES = study_files(Path(__file__).parents[3] / "studies")
COMMON = """schema = 1
name = "x"
question = "Is one faster?"
baseline = "base"
margin = 0.02
{top}
[roles.driver]
[roles.web]
service = "nginx"
[roles.web.vars]
worker_processes = 1
[workload]
tool = "wrk"
[factors.worker_processes]
levels = [1, 2]
[treatments.base]
[treatments.one]
set = {{ worker_processes = 2 }}
{tables}
"""
OLD = COMMON.format(
    top='asks = "no-loss"\napart = "worker_processes"',
    tables='[reset]\nmax_time_wait = 7\n[gates]\nrest_time_wait = 8\n[gate]\nundecided = "fail"',
)
NEW = COMMON.format(
    top='hypothesis = "non-inferiority"\nstratify_by = "worker_processes"',
    tables='[reset]\ntime_wait_sockets = 7\n[validity]\ntime_wait_increase = 8\n[ci]\nundecided = "fail"',
)


def _write(folder: Path, text: str, name: str = "x.toml") -> Path:
    file = folder / name
    # both arms are baselines of their own conditions, which a stratified study needs
    file.write_text(text)
    return file


def test_former_names_of_keys_give_the_same_study_and_one_warning(tmp_path: Path) -> None:
    with pytest.warns(RenamedKeyWarning) as noted:
        old = read_study(_write(tmp_path, OLD))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = read_study(_write(tmp_path, NEW))
    assert old == new
    (note,) = [str(w.message) for w in noted]
    for name in ("[ci]", "[validity]", "stratify_by", "hypothesis", "time_wait_sockets", "time_wait_increase"):
        assert name in note
    assert (new.reset.time_wait_sockets, new.validity.time_wait_increase, new.hypothesis) == (7, 8, "non-inferiority")


def test_plan_json_is_written_with_former_names_of_keys(tmp_path: Path) -> None:
    study = read_study(_write(tmp_path, NEW))
    spec = make_plan(study).to_json()["study_spec"]
    assert {"gates", "gate", "apart", "asks"} <= set(spec)
    assert not {"validity", "ci", "stratify_by", "hypothesis"} & set(spec)
    read = parse_plan(make_plan(study).to_json(), "plan.json")
    assert study_sha256(read.study) == study_sha256(as_planned(study, read))


def test_errors_on_renamed_keys_use_the_present_names(tmp_path: Path) -> None:
    with pytest.raises(StudyError) as error:
        read_study(_write(tmp_path, NEW.replace("= 7", '= "many"').replace('"fail"', '"maybe"').replace("= 8", "= -1")))
    assert {p.path for p in error.value.problems} == {
        "reset.time_wait_sockets", "ci.undecided", "validity.time_wait_increase"
    }  # fmt: skip


def test_key_under_both_its_former_and_present_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="leave max_time_wait out"):
        read_study(_write(tmp_path, NEW.replace("= 7", "= 7\nmax_time_wait = 6")))


def test_hosts_file_with_the_former_key_may_is_read_as_allow_with_a_warning(tmp_path: Path) -> None:
    text = '[hosts.a]\nroles = ["web"]\nallow = ["tc"]\n'
    with pytest.warns(RenamedKeyWarning, match="`may` is now `allow`"):
        old = read_hosts(_write(tmp_path, text.replace("allow", "may")))
    assert old == read_hosts(_write(tmp_path, text))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_hosts(_write(tmp_path, 'replay = "."\n' + text.replace("allow", "may"))).hosts["a"].allow == ("tc",)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_studies_of_the_repository_use_present_names_of_keys(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_study(path)


@pytest.mark.parametrize(
    ("addition", "path"),
    [('label = "{}"', "treatments.one.label"), ('note = "{}"', "treatments.one.note")],
)
def test_very_long_texts_in_a_study_file_are_refused(tmp_path: Path, addition: str, path: str) -> None:
    text = NEW.replace("[treatments.one]", "[treatments.one]\n" + addition.format("a" * 200_000))
    with pytest.raises(StudyError) as error:
        read_study(_write(tmp_path, text))
    assert path in {p.path: p.message for p in error.value.problems}
