"""The study file: any mistake is named with its key path, any mutation loads or is refused in words."""

import copy
import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core import toml
from loadbook.core.errors import StudyError, UsageError
from loadbook.study import reader
from loadbook.study.model import Study
from loadbook.study.reader import find_study, read_study, read_study_tables, smoke_variant

STUDIES = Path(__file__).parents[3] / "studies"
VALID = """
name = "x"
question = "Does it matter?"
baseline = "base"
[roles.driver]
[roles.web]
service = "nginx"
vars = { tcp_nopush = "unset" }
[workload]
tool = "wrk"
[factors.tcp_nopush]
levels = ["unset", "on"]
[treatments.base]
[treatments.again]
same_as = "base"
check = "aa"
[treatments.nopush]
set = { tcp_nopush = "on" }
[subsets]
default = ["base", "again", "nopush"]
[published]
source = "an article"
[[published.claims]]
claim = "it helps"
treatment = "nopush"
against = "base"
value = 2.0
against_value = 1.0
"""


def write(folder: Path, text: str, name: str = "x.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> dict[str, str]:
    with pytest.raises(StudyError) as caught:
        read_study(write(folder, text))
    assert caught.value.exit_code == 2
    paths = [p.path for p in caught.value.problems]
    assert len(set(paths)) == len(paths)
    return {p.path: p.message for p in caught.value.problems}


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda p: p.stem)
def test_studies_of_the_project_and_their_smoke_variants_are_valid(path: Path) -> None:
    study = read_study(path)
    assert study.name == path.stem
    assert Study.model_validate(study.model_dump(mode="json", by_alias=True)) == study
    short = smoke_variant(study)
    assert (
        short.blocks == (5 if study.capacity else 6)
        and short.workload.duration_s == 1
        and short.name == path.stem + "-smoke"
    )
    assert set(short.treatments_in()) <= set(short.treatments)


def test_study_with_five_errors_reports_five_key_paths_and_no_consequences_of_them(tmp_path: Path) -> None:
    text = VALID.replace('baseline = "base"', 'baseline = "bsae"\nmetric = "ok_per_second"')
    text = text.replace("[workload]", '[workload]\nduration = 3\ntarget = "wbe"')
    text = text.replace('tcp_nopush = "on"', 'tcp_nopush = "of"')
    assert problems(tmp_path, text) == {
        "baseline": "no treatment 'bsae'; did you mean 'base'?",
        "metric": "no metric 'ok_per_second'; did you mean 'ok_per_s'?",
        "workload.duration": "unknown key; did you mean 'duration_s'?",
        "workload.target": "no role 'wbe'; did you mean 'web'?",
        "treatments.nopush.set.tcp_nopush": "'of' is not one of its levels ['unset', 'on']",
    }


@pytest.mark.parametrize(
    "old, new, path, words",
    [
        ('tool = "wrk"', "", "workload.tool", "is required"),
        ('tool = "wrk"', 'tool = "wrk"\nmodel = "open"', "workload", "needs rate_per_s"),
        ('tool = "wrk"', 'tool = "wrk"\nrate_per_s = inf\nmodel = "open"', "workload.rate_per_s", "finite"),
        ('tool = "wrk"', 'tool = "wrk"\nduration_s = -1', "workload.duration_s", "must be greater than 0, not -1"),
        ('tool = "wrk"', 'tool = "wrk"\npath = "/a b"', "workload.path", "must be a path that begins with /"),
        ('name = "x"', 'name = "../x"', "name", "must be a name of letters"),
        ('name = "x"', 'name = "x"\nblcoks = 3', "blcoks", "did you mean 'blocks'?"),
        ('name = "x"', 'name = "x"\nsubset = "al"', "subset", "did you mean 'all'?"),
        ('name = "x"', 'name = "x"\nslices = 0.1', "slices", "must be a list: [0.1]"),
        (
            'vars = { tcp_nopush = "unset" }',
            "vars = { tcp_nopush = [1] }",
            "roles.web.vars.tcp_nopush",
            "must be a text, a finite number",
        ),
        ('vars = { tcp_nopush = "unset" }', "vars = { a = nan }", "roles.web.vars.a", "finite"),
        ('vars = { tcp_nopush = "unset" }', 'vars = { tcp_nopush = "x" }', "factors.tcp_nopush.levels", "lacks 'x'"),
        ('service = "nginx"', 'external = "lb:80"', "roles.web", "measured, not configured"),
        ('service = "nginx"\nvars = { tcp_nopush = "unset" }', "", "roles.web", "needs a service or an external"),
        ('service = "nginx"', 'service = "nginx"\nexternal = "a b"', "roles.web.external", "must be a host and a port"),
        (
            "[factors.tcp_nopush]",
            '[factors.tcp_nopush]\nrole = "wbe"',
            "factors.tcp_nopush.role",
            "did you mean 'web'?",
        ),
        ('"unset", "on"]', '"unset"]', "factors.tcp_nopush.levels", "must have 2 or more entries, not 1"),
        ('same_as = "base"', 'same_as = "nopush"', "treatments.again.check", "repeats the baseline"),
        ('same_as = "base"', 'same_as = "again"', "treatments.again.same_as", "no other treatment"),
        ('check = "aa"', 'check = "control"', "treatments.again.expect", "the sign that is known"),
        ("set = { tcp_nopush", "set = { tcp_nopus", "treatments.nopush.set.tcp_nopus", "did you mean 'tcp_nopush'?"),
        ('"nopush"]', '"nopsuh"]', "subsets.default.2", "did you mean 'nopush'?"),
        ('"nopush"]', '"base"]', "subsets.default.2", "twice"),
        ('["base", "again", "nopush"]', "[]", "subsets.default", "lacks the baseline 'base'"),
        ('against = "base"', 'against = "bse"', "published.claims.0.against", "did you mean 'base'?"),
        (
            "[treatments.nopush]",
            "[treatments.nopush]\nworkload = { tol = 'ab' }",
            "treatments.nopush.workload.tol",
            "'tool'?",
        ),
        (
            "[treatments.nopush]",
            "[treatments.nopush]\nworkload = { model = 'open' }",
            "treatments.nopush.workload.model",
            "the same for every treatment",
        ),
        (
            "[treatments.nopush]",
            "[treatments.nopush]\nworkload = { rate_per_s = 5 }",
            "treatments.nopush.workload",
            "goes with model",
        ),
        (
            'same_as = "base"',
            'same_as = "base"\nworkload = { tool = "ab" }',
            "treatments.again.workload",
            "repeats the other treatment's load",
        ),
        ("value = 2.0", "vale = 2.0", "published.claims.0.vale", "did you mean 'value'?"),
        ("value = 2.0", "value = nan", "published.claims.0.value", "finite"),
        ("value = 2.0", "value = 1979-05-27", "published.claims.0.value", "must be a number"),
    ],
)
def test_study_error_has_key_path_and_reason(tmp_path: Path, old: str, new: str, path: str, words: str) -> None:
    assert old in VALID
    messages = problems(tmp_path, VALID.replace(old, new, 1))
    assert words in messages[path]


@pytest.mark.parametrize(
    "text",
    [
        "x = ",
        "\x00",
        "x = " + "9" * 5000,
        "x = 0x" + "f" * 5000,
        "a." * 5000 + "b = 1",
        "x = " + "[" * 5000,
        "a=1\na=2",
    ],
    ids=["cut", "nul", "huge", "huge hex", "deep table", "deep list", "twice"],
)
def test_hostile_study_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(StudyError) as caught:
        read_study(write(tmp_path, text))
    assert len(caught.value.message) < 5000


def test_huge_and_binary_study_files_are_refused(tmp_path: Path) -> None:
    big = write(tmp_path, "#" * (toml.MAX_BYTES + 1))
    with pytest.raises(StudyError, match="larger than"):
        read_study(big)
    big.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="file: "):
        read_study(big)
    with pytest.raises(UsageError, match="No such file"):
        read_study(tmp_path / "gone.toml")


def test_study_errors_contain_no_control_characters(tmp_path: Path) -> None:
    text = VALID + '\n[treatments."a\\u001b[31m\\nb\\u202e"]\nset = { "\\u001b" = "\\u001b" }\n'
    with pytest.raises(StudyError) as caught:
        read_study(write(tmp_path, text))
    assert all(line.isprintable() for line in caught.value.message.splitlines())


def test_tables_of_a_file_override_those_of_its_include(tmp_path: Path) -> None:
    write(tmp_path, VALID, "base.toml")
    path = write(tmp_path, 'include = "base.toml"\nname = "y"\n[workload]\nconnections = 7\n', "y.toml")
    study = read_study(path)
    assert (study.name, study.workload.connections, study.workload.tool) == ("y", 7, "wrk")
    assert study.treatments_in() == ("base", "again", "nopush")


@pytest.mark.parametrize("include", ["../x.toml", "/etc/passwd", "x.toml\\u0000", ".", "", 3, ["a.toml"]])
def test_include_must_be_one_file_beside_the_study(tmp_path: Path, include: object) -> None:
    value = f'"{include}"' if isinstance(include, str) else repr(include)
    with pytest.raises(StudyError, match=r"include: must name a .toml file beside this one"):
        read_study(write(tmp_path, f"include = {value}\n"))


def test_include_of_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="four deep at most"):
        read_study(write(tmp_path, 'include = "x.toml"\n'))


def test_study_is_found_by_name_or_path(tmp_path: Path) -> None:
    write(tmp_path, VALID)
    assert find_study(tmp_path, "x").name == "x"
    assert find_study(tmp_path, "x-smoke").name == "x-smoke"
    assert find_study(tmp_path, str(tmp_path / "x.toml")).name == "x"
    with pytest.raises(UsageError, match=r"no study 'xx' in .*did you mean 'x'"):
        find_study(tmp_path, "xx")


def test_study_levels_variables_and_subsets_are_read(tmp_path: Path) -> None:
    study = read_study(write(tmp_path, VALID))
    assert study.levels_of("again") == study.levels_of("base") == {"tcp_nopush": "unset"}
    assert study.vars_of("nopush", "web") == {"tcp_nopush": "on"}
    assert study.treatments_in("all") == ("base", "again", "nopush")
    with pytest.raises(UsageError, match="no subset 'nope'"):
        study.treatments_in("nope")


def test_smoke_variant_keeps_claims_about_its_treatments() -> None:
    short = smoke_variant(read_study(STUDIES / "nginx-directives.toml"))
    assert short.published is not None
    assert {c.treatment for c in short.published.claims} <= set(short.treatments)


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just(datetime.date(2026, 1, 1))
    | st.lists(st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=1), max_size=3)
    | st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=3), max_size=2)
)


def places(raw: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [path for key, value in items for path in ((*at, key), *places(value, (*at, key)))]


def mutate(raw: dict[str, Any], draw: Any) -> None:
    path = draw(st.sampled_from(places(raw)))
    parent: Any = raw
    for key in path[:-1]:
        parent = parent[key]
    if draw(st.booleans()) and isinstance(parent, dict):
        parent[draw(st.text(max_size=6) | st.sampled_from(["set", "same_as", "vars", "levels"]))] = draw(JUNK)
    elif draw(st.booleans()):
        del parent[path[-1]]
    else:
        parent[path[-1]] = draw(JUNK)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_randomly_changed_study_is_read_or_refused_with_key_paths(data: st.DataObject, tmp_path: Path) -> None:
    raw = copy.deepcopy(read_study_tables(write(tmp_path, VALID)))
    for _ in range(data.draw(st.integers(1, 3))):
        if places(raw):
            mutate(raw, data.draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_study_tables", lambda path: raw)
        try:
            study = read_study(tmp_path / "x.toml")
        except StudyError as error:
            assert error.problems and all(p.path and p.message for p in error.problems)
            assert all(line.isprintable() for line in error.message.splitlines())
            return
    assert {t: study.levels_of(t) for t in study.treatments}
    assert study.baseline in study.treatments_in() and smoke_variant(study).treatments


def test_treatment_can_change_the_workload(tmp_path: Path) -> None:
    other = 'set = { tcp_nopush = "on" }\nworkload = { tool = "ab", extra = ["-l"] }'
    study = read_study(write(tmp_path, VALID.replace('set = { tcp_nopush = "on" }', other)))
    assert study.workload_of("base") == study.workload_of("again") == study.workload
    assert study.workload_of("nopush") == study.workload.model_copy(update={"tool": "ab", "extra": ("-l",)})
    assert study.tools_of(["base", "nopush", "again"]) == ("wrk", "ab")
