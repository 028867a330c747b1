"""A study against its services: every problem at once, with key paths, before anything is touched."""

from pathlib import Path

import pytest

from loadbook.design.study import Study
from loadbook.design.study_file import read_study
from loadbook.services import Place, check_study, load_service, render

STUDIES = Path(__file__).parents[2] / "studies"


def study(**changes: object) -> Study:
    spec: dict[str, object] = {
        "name": "x",
        "question": "Does it matter?",
        "baseline": "base",
        "roles": {"driver": {}, "web": {"service": "nginx", "vars": {"tcp_nopush": "unset"}}},
        "workload": {"tool": "wrk"},
        "factors": {"tcp_nopush": {"levels": ["unset", "on"]}},
        "treatments": {"base": {}, "nopush": {"set": {"tcp_nopush": "on"}}},
    }
    return Study.model_validate({**spec, **changes})


def found(of: Study) -> dict[str, str]:
    return {p.path: p.message for p in check_study(of)}


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_treatment_of_the_studies_that_come_with_loadbook_renders(path: Path) -> None:
    of = read_study(path)
    folders = [STUDIES / "services"]
    assert check_study(of, folders) == []
    hashes = {}
    for role in (name for name, r in of.roles.items() if r.service):
        service = load_service(of.roles[role].service or "", folders)
        for name in of.treatments:
            rendered = render(service, of.vars_of(name, role), Place("/w", "127.0.0.1", 18080))
            hashes[name] = rendered.config_sha256
    for name, treatment in of.treatments.items():
        if treatment.same_as:
            assert hashes[name] == hashes[treatment.same_as]
        elif name != of.baseline and not treatment.workload:
            assert hashes[name] != hashes[of.baseline]


def test_a_fine_study_has_no_problems() -> None:
    assert found(study()) == {}


def test_every_problem_at_once() -> None:
    of = study(
        roles={"driver": {}, "web": {"service": "nginx", "vars": {"tcp_nopush": "80;} server {", "foo": 1}}},
        factors={"tcp_nopush": {"levels": ["unset", "on", "yes"]}, "sendfil": {"levels": ["on", "off"]}},
        treatments={"base": {}, "x": {"set": {"tcp_nopush": "yes", "sendfil": "on"}}},
    )
    problems = found(of)
    assert set(problems) == {
        "roles.web.vars.tcp_nopush",
        "roles.web.vars.foo",
        "factors.tcp_nopush.levels.2",
        "treatments.x.set.tcp_nopush",
        "factors.sendfil",
    }
    assert "did you mean 'sendfile'?" in problems["factors.sendfil"]
    assert problems["roles.web.vars.tcp_nopush"] == "must be on or off or unset (is '80;} server {')"


def test_a_service_that_nobody_knows() -> None:
    of = study(roles={"driver": {}, "web": {"service": "ngnix"}})
    assert found(of) == {"roles.web.service": "no service 'ngnix'; did you mean 'nginx'?"}


def test_a_factor_needs_a_service_to_be_set_on() -> None:
    of = study(roles={"driver": {}, "web": {"external": "lb.example:80"}})
    assert found(of) == {"factors.tcp_nopush.role": "role 'web' has no service to set it on"}


def test_a_factor_under_another_name() -> None:
    of = study(factors={"push": {"var": "tcp_nopsh", "levels": ["unset", "on"]}}, treatments={"base": {}})
    assert list(found(of)) == ["factors.push.var"]
