"""A study against its services: every problem at once, with key paths, before anything is touched."""

from pathlib import Path

import pytest

from loadbook.services import InstanceContext, check_study, known_services, load_service, render
from loadbook.services.check import ineffective_settings, version_defaults
from loadbook.study.model import Study
from loadbook.study.reader import read_study
from loadbook.study.treatments import Setting

STUDIES = Path(__file__).parents[3] / "studies"


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


def test_variable_without_its_precondition_is_reported() -> None:
    assert ineffective_settings(study()) == {"web.tcp_nopush = on has no effect: it needs sendfile = on": ["nopush"]}
    vars_ = {"tcp_nopush": "unset", "sendfile": "on"}
    assert ineffective_settings(study(roles={"driver": {}, "web": {"service": "nginx", "vars": vars_}})) == {}


@pytest.mark.parametrize(
    ("page_bytes", "headers", "needs"),
    [
        (5, {}, "page_bytes of 20 or more and the request header Accept-Encoding"),
        (20_000, {}, "the request header Accept-Encoding"),
        (5, {"accept-encoding": "gzip"}, "page_bytes of 20 or more"),
        (20_000, {"accept-encoding": "gzip"}, None),
    ],
)
def test_gzip_precondition_is_page_size_and_accept_encoding(
    page_bytes: int, headers: dict[str, str], needs: str | None
) -> None:
    of = study(
        roles={"driver": {}, "web": {"service": "nginx", "vars": {"page_bytes": page_bytes}}},
        workload={"tool": "wrk", "headers": headers},
        factors={"gzip": {"levels": ["unset", "on"]}},
        treatments={"base": {}, "gzip": {"set": {"gzip": "on"}}, "again": {"set": {"gzip": "on"}}},
    )
    text = f"web.gzip = on has no effect: it needs {needs}"
    assert ineffective_settings(of) == ({} if needs is None else {text: ["gzip", "again"]})


@pytest.mark.parametrize(
    ("version", "meaning"),
    [
        ("1.22.1", "one connection per request, HTTP/1.0"),
        ("1.29.6", "one connection per request, HTTP/1.0"),
        ("1.29.7", "kept connections, HTTP/1.1"),
        ("1.30.0", "kept connections, HTTP/1.1"),
    ],
)
def test_unset_upstream_keepalive_follows_the_nginx_version(version: str, meaning: str) -> None:
    assert version_defaults(study(), "web", version) == {}  # nothing is upstream
    web = {"service": "nginx", "vars": {"upstream": "http", "tcp_nopush": "unset"}, "backends": "app"}
    roles = {"driver": {}, "web": web, "app": {"service": "nginx"}}
    assert version_defaults(study(roles=roles), "web", version) == {"upstream_keepalive": meaning}
    web["vars"] = {"upstream": "http", "upstream_keepalive": "off"}
    assert version_defaults(study(roles=roles), "web", version) == {}


def test_variable_that_the_service_no_longer_has_is_no_setting_without_effect() -> None:
    of = study(factors={"gone": {"levels": ["a", "b"]}}, treatments={"base": {}, "x": {"set": {"gone": "b"}}})
    assert ineffective_settings(of) == {}


def test_preconditions_name_variables_of_their_service() -> None:
    for name in known_services([STUDIES / "services"]):
        spec = load_service(name, [STUDIES / "services"])
        for var in spec.vars.values():
            needed = var.needs.model_dump() if var.needs else {}
            assert {*needed.get("vars", ()), *needed.get("set", ()), *needed.get("at_least", ())} <= set(spec.vars)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_treatment_of_every_study_renders(path: Path) -> None:
    of = read_study(path)
    folders = [STUDIES / "services"]
    assert check_study(of, folders) == []
    whole = {name: _all_of(of, name) for name in of.treatments}
    for name, treatment in of.treatments.items():
        if treatment.same_as:
            assert whole[name] == whole[treatment.same_as], name
        elif name != of.baseline:
            assert whole[name] != whole[of.baseline], name


def _all_of(of: Study, treatment: str) -> dict[str, object]:
    """Everything that a treatment makes of the roles and the load, its configurations by their digests."""
    settings = {role: of.setting(treatment, role) for role in of.roles}
    hashes = {role: _sha256(own, len(own.backends)) for role, own in settings.items() if own.service}
    placed = {role: own.model_dump(exclude={"vars", "config_text"}) for role, own in settings.items()}
    return {"hashes": hashes, "placed": placed, "load": of.workload_of(treatment)}


def _sha256(setting: Setting, roles: int) -> str:
    service = load_service(str(setting.service), [STUDIES / "services"])
    node = {"node": "n", "address": "127.0.0.2", "port": 18080, "dir": "/n", "local": True}
    behind = {f"role{k}": [node] for k in range(roles)}
    extra = {"backends": [node] if roles else [], "behind": behind}
    main = None if setting.config_text is None else setting.config_text.encode()
    return render(service, setting.vars, InstanceContext("/w", "127.0.0.1", 18080, extra), main=main).config_sha256


def test_valid_study_has_no_problems() -> None:
    assert found(study()) == {}


def test_study_check_reports_every_problem_at_once() -> None:
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
    assert problems["roles.web.vars.tcp_nopush"] == "must be on or off or unset, not '80;} server {'"


def test_unknown_service_is_reported() -> None:
    of = study(roles={"driver": {}, "web": {"service": "ngnix"}})
    assert found(of) == {"roles.web.service": "no service 'ngnix'; did you mean 'nginx'?"}


@pytest.mark.parametrize(
    "key, value, path",
    [
        ("vars", {"page_bytes": "5s"}, "roles.web.vars.page_bytes"),
        ("service", "ngnix", "roles.web.service"),
        ("mode", "system", "roles.web.mode"),
    ],
)
def test_mistake_of_a_role_is_not_repeated_for_its_variants(key: str, value: object, path: str) -> None:
    service = "go-app" if key == "mode" else "nginx"
    web = {"service": service, key: value, "variants": {"one": {}, "two": {"cpus": "0"}}}
    of = study(roles={"driver": {}, "web": web}, factors={}, treatments={"base": {}})
    assert list(found(of)) == [path]


def test_mistake_of_a_variant_is_reported_at_the_variant() -> None:
    variants = {"one": {"vars": {"page_bytes": "5s"}}, "two": {"service": "ngnix"}}
    problems = found(study(roles={"driver": {}, "web": {"service": "nginx", "variants": variants}}))
    assert list(problems) == ["roles.web.variants.one.vars.page_bytes", "roles.web.variants.two.service"]


def test_factor_without_a_service_is_reported() -> None:
    of = study(roles={"driver": {}, "web": {"external": "lb.example:80"}})
    assert found(of) == {"factors.tcp_nopush.role": "role 'web' has no service to set it on"}


def test_misspelt_factor_gets_a_suggestion() -> None:
    of = study(factors={"push": {"var": "tcp_nopsh", "levels": ["unset", "on"]}}, treatments={"base": {}})
    assert list(found(of)) == ["factors.push.var"]
    assert found(of)["factors.push.var"].endswith("did you mean 'tcp_nopush'?")


def test_variants_of_a_role_are_checked_like_the_role() -> None:
    variants = {"own": {"vars": {"tcp_nopush": "maybe"}}, "other": {"service": "ngnix"}, "fine": {}}
    of = study(roles={"driver": {}, "web": {"service": "nginx", "variants": variants}})
    problems = found(of)
    assert set(problems) == {"roles.web.variants.own.vars.tcp_nopush", "roles.web.variants.other.service"}


def test_page_of_exactly_the_size_that_a_setting_needs_is_enough() -> None:
    of = study(
        roles={"driver": {}, "web": {"service": "nginx", "vars": {"page_bytes": 20}}},
        workload={"tool": "wrk", "headers": {"Accept-Encoding": "gzip"}},
        factors={"gzip": {"levels": ["unset", "on"]}},
        treatments={"base": {}, "gzip": {"set": {"gzip": "on"}}},
    )
    assert ineffective_settings(of) == {}
