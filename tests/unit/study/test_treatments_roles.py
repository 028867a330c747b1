"""Roles with variants, what stands behind them, factors that place them, and treatments made from a grid."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import StudyError
from loadbook.study.designs import combination_name
from loadbook.study.reader import find_study, read_study, smoke_variant
from loadbook.study.treatments import Role, Setting

STUDY = """
schema = 1
name = "own"
question = "Does a balancer cost anything?"
baseline = "none-1"

[roles.driver]
delay_ms = 5

[roles.balancer]
backends = "web"
sysctls = { "net.core.somaxconn" = 1024 }
[roles.balancer.variants.l4]
service = "haproxy"
vars = { mode = "tcp" }
[roles.balancer.variants.l7]
service = "haproxy"
vars = { mode = "http" }
cpus = "1"

[roles.web]
service = "nginx"
hosts = 1
vars = { page_bytes = 5 }

[workload]
tool = "wrk"
target = "balancer"

[factors]
balancer = { role = "balancer", of = "variant", levels = ["none", "l4", "l7"] }
nodes = { role = "web", of = "hosts", levels = [1, 2] }
size = { var = "page_bytes", levels = [5, 1024] }
backlog = { role = "balancer", of = "sysctls", var = "net.core.somaxconn", levels = [1024, 8] }
connections = { of = "workload", levels = [50, 400] }
delay = { role = "driver", of = "delay_ms", levels = [5, 20] }

[grid]
factors = ["balancer", "nodes"]
only = { nodes = [1, 2] }
label = "{balancer} x {nodes}"

[treatments.none-1]
label = "single node"

[treatments.many]
set = { connections = 400, size = 1024, balancer = "l7", backlog = 8, delay = 20 }

[treatments.again]
same_as = "many"

[subsets]
smoke = ["none-1", "l4-2"]
"""


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(STUDY)
    return tmp_path


def test_grid_generates_every_combination_and_keeps_treatments_defined_in_the_file(studies):
    study = find_study(studies, "own")
    made = ["none-1", "none-2", "l4-1", "l4-2", "l7-1", "l7-2"]
    assert list(study.treatments) == [*made, "many", "again"]
    assert [study.label(name) for name in made[:3]] == ["single node", "none x 2", "l4 x 1"]


def test_level_none_removes_a_role_and_its_backend_gets_the_load(studies):
    study = find_study(studies, "own")
    assert not study.setting("none-1", "balancer").is_present
    assert [study.target_of(name) for name in ("none-1", "l4-1")] == ["web", "balancer"]


def test_factors_override_variants_and_variants_override_roles(studies):
    study = find_study(studies, "own")
    plain, many = study.setting("l4-2", "balancer"), study.setting("many", "balancer")
    assert (plain.service, plain.vars, plain.cpus, plain.sysctls) == (
        "haproxy",
        {"mode": "tcp"},
        "all",
        {"net.core.somaxconn": 1024},
    )
    assert (many.vars, many.cpus, many.sysctls) == ({"mode": "http"}, "1", {"net.core.somaxconn": 8})
    assert study.setting("l4-2", "web").hosts == 2
    assert study.vars_of("many", "web") == {"page_bytes": 1024}
    assert study.setting("many", "driver").delay_ms == 20


def test_workload_factor_also_applies_to_treatments_that_repeat_another(studies):
    study = find_study(studies, "own")
    assert [study.workload_of(name).connections for name in ("none-1", "many", "again")] == [50, 400, 400]


def test_subset_named_smoke_is_the_smoke_variant(studies):
    short = find_study(studies, "own-smoke")
    assert (short.treatments_in(), short.blocks) == (("none-1", "l4-2"), 6)
    assert smoke_variant(find_study(studies, "own")) == short


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ('backends = "web"', 'backends = "webs"', "roles.balancer.backends.0", "no role 'webs'"),
        ('service = "nginx"', 'service = "nginx"\nbackends = "balancer"', "roles.web.backends.0", "go round"),
        ('["none", "l4", "l7"]', '["none", "l4", "l7", "l8"]', "factors.balancer.levels.3", "no variant 'l8'"),
        ('cpus = "1"', 'cpus = "one"', "roles.balancer.variants.l7.cpus", "must be CPU numbers"),
        ("levels = [5, 20] }", "levels = [5, 90_000] }", "treatments.many: delay_ms", "at most 60000"),
        ("only = { nodes = [1, 2] }", "only = { nodes = [3] }", "grid.only.nodes", "3 is not one of its levels"),
        ('factors = ["balancer", "nodes"]', 'factors = ["balancer", "node"]', "grid.factors.1", "did you mean 'nodes'"),
        ('label = "single node"', "set = { nodes = 2 }", "treatments.none-1.set", "is what [grid] sets"),
        ("levels = [50, 400]", "levels = [60, 400]", "factors.connections.levels", "lacks 50"),
        ('service = "nginx"', 'service = "nginx"\nconfig = "mine.conf"', "roles.web.config", "cannot be read"),
        ('cpus = "1"', 'cpus = "0,3-1"', "roles.balancer.variants.l7.cpus", "first to last"),
        ('cpus = "1"', 'external = "a:99999"', "roles.balancer.variants.l7.external", "a port from 1 to 65535"),
        ("[roles.web]", "[roles.monitor]\n[roles.web]", "roles.monitor", "loadbook's own"),
        ('of = "workload", levels', 'of = "workload", var = "model", levels', "factors.connections.var", "every"),
        ("hosts = 1", "hosts = 1\ndelay_ms = 5", "roles.web.delay_ms", "the role that drives"),
        ('role = "driver", of = "delay_ms"', 'role = "web", of = "loss"', "factors.delay.of", "the role that drives"),
        ("[roles.web]", "[roles.db]\nrate_mbit = 9\n[roles.web]", "roles.db.rate_mbit", "has no service"),
    ],
)
def test_mistake_in_a_treatment_is_reported_with_its_key_path(studies, old, new, path, words):
    text = STUDY.replace("delay = 20 }", "delay = 90_000 }") if "90_000" in new else STUDY
    if path == "factors.connections.levels":
        text = text.replace('target = "balancer"', 'target = "balancer"\nconnections = 50')
    assert old in text
    (studies / "own.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError) as refused:
        read_study(studies / "own.toml")
    messages = {problem.path: problem.message for problem in refused.value.problems}
    assert any(key.endswith(path) and words in message for key, message in messages.items()), messages


def test_workload_factor_needs_no_role(tmp_path):
    (tmp_path / "box.toml").write_text(
        """
schema = 1
name = "box"
question = "Two ways to something that nobody logs in to?"
baseline = "straight"

[roles.driver]
[roles.entry]
external = "192.0.2.13:80"

[workload]
tool = "wrk"
target = "entry"

[factors]
think_time_s = { of = "workload", levels = [0, 0.02] }

[treatments.straight]
[treatments.slow]
set = { think_time_s = 0.02 }
"""
    )
    assert read_study(tmp_path / "box.toml").workload_of("slow").think_time_s == 0.02
    named = (tmp_path / "box.toml").read_text().replace('of = "workload"', 'of = "workload", role = "web"')
    (tmp_path / "box.toml").write_text(named)
    with pytest.raises(StudyError, match="no role 'web'"):
        read_study(tmp_path / "box.toml")


def test_text_of_a_configuration_file_is_stored_with_the_study(studies):
    (studies / "mine.conf").write_text("events {}\n")
    (studies / "own.toml").write_text(STUDY.replace('service = "nginx"', 'service = "nginx"\nconfig = "mine.conf"'))
    assert find_study(studies, "own").setting("none-1", "web").config_text == "events {}\n"


def test_variant_with_a_different_service_does_not_inherit_variables_or_file():
    role = Role.model_validate(
        {"service": "a", "vars": {"x": 1}, "cpus": "0", "variants": {"b": {"service": "b"}, "c": {"vars": {"y": 2}}}}
    )
    again = role.model_copy(update={"variants": {"d": Setting(service="a", vars={"y": 3})}})
    assert again.variant_setting("d").vars == {"x": 1, "y": 3}
    assert (role.variant_setting("b").vars, role.variant_setting("b").cpus) == ({}, "0")
    own = role.model_copy(update={"config": "mine.conf", "config_text": "events {}"})
    assert (own.variant_setting("b").config, own.variant_setting("b").config_text) == (None, None)
    assert own.variant_setting("c").config_text == "events {}"
    assert (role.variant_setting("c").service, role.variant_setting("c").vars) == ("a", {"x": 1, "y": 2})
    assert not role.variant_setting("none").is_present


@given(st.lists(st.one_of(st.text(min_size=1), st.integers(), st.booleans()), min_size=1, max_size=4))
def test_generated_treatment_names_have_only_allowed_characters(levels):
    assert set(combination_name(tuple(levels))) <= set(
        "-._ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    )


def test_role_with_variants_is_equal_after_writing_and_reading() -> None:
    """A run keeps its study as JSON: what a variant does not state is still the role's own when that is read again."""
    spec = {
        "service": "nginx", "backends": "app", "nofile": 64_000, "vars": {"page_bytes": 5},
        "variants": {"static": {"backends": []}, "pooled": {"vars": {"keepalive": 100}}},
    }  # fmt: skip
    role = Role.model_validate(spec)
    again = Role.model_validate_json(role.model_dump_json())
    assert again == role
    assert [again.variant_setting(name) for name in spec["variants"]] == [  # type: ignore[attr-defined]
        role.variant_setting(name)
        for name in spec["variants"]  # type: ignore[attr-defined]
    ]
    assert again.variant_setting("pooled").service == "nginx" and again.variant_setting("static").backends == ()
