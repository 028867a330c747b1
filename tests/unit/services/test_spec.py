"""Services as data: what a folder may say, and which values get through to a template."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadbook.core.errors import StudyError, UsageError
from loadbook.services import InstanceContext, known_services, load_service, render
from loadbook.services.variables import UNSET, EnumVar, IntVar, PathVar, TextVar, Var

NGINX = load_service("nginx")
BEHIND = {"node": "web1", "address": "10.0.0.1", "port": 18080, "dir": "/srv/work/services/t2", "local": True}
PLACE = InstanceContext("/srv/work/services/t1", "127.0.0.1", 18080, {"backends": [BEHIND]})
HOSTILE = ["80;} server {", "on\n", "on;", "$(reboot)", "`id`", "../../etc", "on #", '"', "'", "\\", "on\x00", "", "ON"]


def conf(**values: str | int) -> str:
    return render(NGINX, values, PLACE, token="t").files["nginx.conf"].decode()


def test_unset_variable_leaves_the_directive_out() -> None:
    for name in ("tcp_nopush", "tcp_nodelay", "multi_accept", "worker_rlimit_nofile", "keepalive_timeout", "sendfile"):
        assert name not in conf()
    assert "use epoll" not in conf()
    assert "worker_processes" not in conf(worker_processes="unset")


def test_values_of_service_variables_become_configuration_directives() -> None:
    text = conf(tcp_nopush=True, tcp_nodelay="off", worker_processes="auto", worker_rlimit_nofile=8096, use_epoll="on")
    wanted = ("tcp_nopush on;", "tcp_nodelay off;", "worker_processes auto;", "worker_rlimit_nofile 8096;")
    assert all(f"\n{line}\n" in text for line in (*wanted, "use epoll;"))


@pytest.mark.parametrize("access_log, lines", [("off", 0), ("buffered", 3), ("unbuffered", 3)])
def test_access_log_variables_become_nginx_directives(access_log: str, lines: int) -> None:
    text = conf(access_log=access_log, access_logs=3)
    assert text.count("combined") == lines
    assert text.count("buffer=64k") == (3 if access_log == "buffered" else 0)


def test_variables_that_add_a_known_cost_become_separate_nginx_lines() -> None:
    assert "location / {" not in conf()
    assert "rate=970r/s;" in conf(requests_per_s=970)
    assert conf(set_steps=7).count('set $spent "$request_uri$host$remote_addr";') == 7


@pytest.mark.fault(48)
@pytest.mark.parametrize("service", known_services())
def test_hostile_values_are_refused_before_rendering(service: str) -> None:
    spec = load_service(service)
    for name in spec.vars:
        for value in HOSTILE:
            with pytest.raises(StudyError, match=rf"vars\.{name}: .*must"):
                render(spec, {name: value}, PLACE)


@pytest.mark.parametrize("service", known_services())
def test_every_service_renders_the_same_on_any_host(service: str) -> None:
    spec = load_service(service)
    there = {"backends": [{**BEHIND, "node": "other", "address": "10.9.9.9", "port": 81, "dir": "/x"}], "cpus": [2, 3]}
    one, two = (
        render(spec, {}, PLACE),
        render(spec, {}, InstanceContext("/elsewhere", "10.9.9.8", 8080, {**there, "node": "n"})),
    )
    assert one.config_sha256 == two.config_sha256
    assert one.config_id != two.config_id and one.contains_config_id


@pytest.mark.parametrize("service", known_services())
def test_every_service_defines_a_readiness_check_and_a_configuration_check(service: str) -> None:
    spec = load_service(service)
    assert spec.prove is not None
    assert len((spec.folder / "README.md").read_text().splitlines()) >= 5


def syntax(text: str) -> list[str]:
    """The characters that have a meaning in a configuration file, in their order."""
    return re.findall(r"[{};$`\\\"'#\x00\n]", text)


def harmless_value(var: Var) -> st.SearchStrategy[str | int]:
    """Accepted values that add no syntax."""
    if isinstance(var, TextVar):
        return st.from_regex(re.compile(var.pattern, re.ASCII), fullmatch=True).filter(lambda word: not syntax(word))
    if isinstance(var, PathVar):
        return st.sampled_from(["/srv/harmless.pem", "/srv/other.pem"])
    if isinstance(var, IntVar):
        return st.integers(var.min, min(var.max, var.min + 20))
    return st.sampled_from(var.values if isinstance(var, EnumVar) else ("on", "off"))


def any_value(var: Var) -> st.SearchStrategy[str | int | bool]:
    """Values of any kind, accepted ones, and these with hostile texts around them."""
    around = st.sampled_from(["", *HOSTILE])
    hostile = st.tuples(around, harmless_value(var).map(str), around).map("".join)
    return st.text(max_size=20) | st.integers() | st.booleans() | harmless_value(var) | hostile


def harmless_stand_in(var: Var, accepted: str | int | bool) -> st.SearchStrategy[str | int | bool]:
    """A harmless value in place of an accepted one; the default stays, and what is one of few words or a number."""
    if accepted == var.default or (var.unset and accepted == UNSET):
        return st.just(accepted)
    if isinstance(var, TextVar | PathVar):
        return harmless_value(var).filter(lambda word: word != var.default)
    words = [*getattr(var, "values", ()), *getattr(var, "also", ()), "on", "off"]
    assert isinstance(accepted, int) or accepted in words
    return st.just(accepted)


@pytest.mark.fault(48)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional={name: any_value(var) for name, var in NGINX.vars.items()}), st.data())
def test_any_variable_value_is_refused_or_adds_no_syntax(
    values: dict[str, str | int | bool], data: st.DataObject
) -> None:
    accepted = {}
    for name, value in values.items():
        try:
            conf(**{"page_bytes": 50, name: value})
        except StudyError as error:
            assert {problem.path for problem in error.problems} == {f"vars.{name}"}
            continue
        accepted[name] = value
    harmless = {name: data.draw(harmless_stand_in(NGINX.vars[name], value)) for name, value in accepted.items()}
    assert syntax(conf(**{**accepted, "page_bytes": 50})) == syntax(conf(**{**harmless, "page_bytes": 50}))


def test_service_value_errors_are_reported_together_with_suggestions() -> None:
    with pytest.raises(StudyError) as caught:
        render(NGINX, {"tcp_nopuhs": "on", "gzip": "maybe", "worker_connections": 3}, PLACE)
    assert [p.path for p in caught.value.problems] == ["vars.tcp_nopuhs", "vars.gzip", "vars.worker_connections"]
    assert "did you mean 'tcp_nopush'?" in caught.value.message
    assert "must be on or off or unset, not 'maybe'" in caught.value.message


def test_rendered_configuration_hash_is_stable_and_its_id_unique() -> None:
    one = render(NGINX, {"tcp_nopush": "on"}, PLACE)
    two = render(NGINX, {"tcp_nopush": "on"}, InstanceContext("/elsewhere", "10.0.0.1", 80, {"cpus": [3], "node": "x"}))
    assert one.config_sha256 == two.config_sha256
    assert one.config_id != two.config_id
    assert one.config_id.startswith(one.config_sha256[:16])
    assert one.config_id in one.files["nginx.conf"].decode()
    assert render(NGINX, {}, PLACE).config_sha256 != one.config_sha256


@pytest.mark.parametrize("size", [0, 1, 5, 13, 14, 4096])
def test_rendered_page_has_exactly_the_requested_bytes(size: int) -> None:
    page = render(NGINX, {"page_bytes": size}, PLACE).files["html/index.html"]
    assert len(page) == size
    assert page == (b"hello, world\n" * size)[:size]


def test_unknown_service_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no service 'ngnix'; did you mean 'nginx'"):
        load_service("ngnix", [tmp_path])
    assert "nginx" in known_services()
    with pytest.raises(UsageError):
        load_service("../services/nginx", [tmp_path])


SPEC = """
name = "{name}"
about = "x"
binary = "sh"
package = "dash"
[version]
argv = ["sh"]
pattern = "x"
[commands]
start = ["sh", "-c", "{start}"]
"""


def service(folder: Path, text: str, name: str = "toy") -> Path:
    (folder / name).mkdir()
    (folder / name / "service.toml").write_text(text)
    return folder


def test_service_folder_beside_the_study_takes_precedence(tmp_path: Path) -> None:
    service(tmp_path, SPEC.format(name="nginx", start="true"), "nginx")
    assert load_service("nginx", [tmp_path]).about == "x"


@pytest.mark.parametrize(
    "change, path",
    [
        ("bianry = 1\n", "bianry"),
        ("[vars.dir]\ntype='int'\nmin=1\nmax=2\ndefault=1\nabout=''", "file"),
        ("[vars.n]\ntype='int'\nmin=1\nmax=2\ndefault=7\nabout=''", "file"),
        ("[vars.n]\ntype='integer'\nabout=''\ndefault=1", "vars.n"),
        ("[files]\n'a.conf' = 'not-there.j2'", "files"),
        ("[files]\n'../a' = 'x'", r"files.\"../a\""),
        ("[", "file"),
    ],
)
def test_invalid_service_file_names_the_key(tmp_path: Path, change: str, path: str) -> None:
    text = SPEC.format(name="toy", start="true")
    head = change if change.startswith("bianry") else ""
    service(tmp_path, head + text + ("" if head else change))
    with pytest.raises(StudyError) as caught:
        load_service("toy", [tmp_path])
    assert path.replace("\\", "") in {p.path for p in caught.value.problems}


def test_template_with_an_unknown_variable_is_an_error(tmp_path: Path) -> None:
    spec = load_service("toy", [service(tmp_path, SPEC.format(name="toy", start="{{ nope }}"))])
    with pytest.raises(StudyError, match="start: UndefinedError: 'nope' is undefined"):
        render(spec, {}, PLACE)


def test_service_ports_are_those_used_in_its_templates():
    for name in known_services():
        spec = load_service(name)
        aside = any("{{ side_" in (spec.folder / template).read_text() for template in spec.files.values())
        assert spec.ports(18_080) == ((18_080, 28_080) if aside else (18_080,)), name
    assert load_service("haproxy").ports(60_000) == (60_000, 50_000)
