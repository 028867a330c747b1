"""Values and templates that want to be more than that: no line of a configuration, no Python, no endless work."""

from __future__ import annotations

import pytest

from hostile_texts import CORPUS, silent
from loadbook.core.errors import LoadbookError, StudyError
from loadbook.services import InstanceContext, known_services, load_service, render
from loadbook.services.build import build_command
from loadbook.services.variables import TextVar

PLACE = InstanceContext("/srv/work/services/t1", "127.0.0.1", 18080, {})
SANDBOX = (
    "{{ ''.__class__.__mro__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ refuse.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('touch PWN').read() }}",
    "{{ joiner.__init__.__globals__['__builtins__'] }}",
    "{{ config_id.format.__self__.__class__ }}",
    "{{ '{0.__class__.__init__}'.format(refuse) }}",
    "{{ ('a' | attr('__class__')) }}",
    "{{ [].append.__self__.__class__.__base__.__subclasses__() }}",
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% include '../../core/gates.toml' %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ 1 / 0 }}",
    "{{ 9 ** 'x' }}",
    "{{ nothing_of_that_name }}",
    "{% for",
)


@pytest.mark.fault(48)
@pytest.mark.parametrize("service", known_services())
def test_hostile_values_cannot_end_a_configuration_line(service: str) -> None:
    """Each is refused by its variable's type, or is one word of the very text that was asked for."""
    spec = load_service(service)
    for name, var in spec.vars.items():
        for text in CORPUS:
            message = spec.problem(name, text)
            if message is not None:
                assert silent(message) and "must" in message
                continue
            accepted = str(var.accept(text))
            assert not set(accepted) & set("\n\r\0;{}$#`\"'\\<>|&"), (name, text)
            assert isinstance(var, TextVar) or accepted == text


@pytest.mark.fault(48)
def test_variable_patterns_exclude_configuration_syntax() -> None:
    """A service file that is careless with its pattern: the type itself keeps quotes and the like out."""
    loose = TextVar(type="text", about="anything", default="", pattern="(?s).*")
    for text in CORPUS:
        try:
            accepted = str(loose.accept(text))
        except ValueError:
            continue
        assert not set(accepted) & set("\n\r\0;{}$#`\"'\\<>|&()[]!~^")


@pytest.mark.fault(48)
@pytest.mark.parametrize("text", SANDBOX)
def test_user_configuration_template_has_no_access_to_python(text: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError) as refused:
        rendered = render(load_service("nginx"), {}, PLACE, main=text.encode())
        raise AssertionError(rendered.files)
    assert silent(refused.value.message) and refused.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault(48)
def test_foreign_service_template_has_no_access_to_python(tmp_path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "x.conf.j2").write_text("{{ ''.__class__ }}")
    head = 'name = "odd"\nabout = "odd"\nbinary = "true"\npackage = "x"\n[version]\nargv = ["true"]\npattern = "(x)"\n'
    (folder / "service.toml").write_text(head + '[files]\n"x.conf" = "x.conf.j2"\n[commands]\nstart = ["true"]\n')
    with pytest.raises(StudyError, match="SecurityError"):
        render(load_service("odd", [tmp_path]), {}, PLACE)
    (folder / "x.conf.j2").write_text("plain")
    for argv in ("{{ ''.__class__ }}", "{{ cycler.__init__.__globals__ }}"):
        (folder / "service.toml").write_text(
            head + f'[files]\n"x.conf" = "x.conf.j2"\n[commands]\nstart = ["true", "{argv}"]\n'
        )
        with pytest.raises(StudyError, match="SecurityError"):
            render(load_service("odd", [tmp_path]), {}, PLACE)


@pytest.mark.fault(48)
def test_build_recipe_template_has_no_access_to_python() -> None:
    spec = load_service("go-app")
    assert spec.build is not None
    evil = spec.build.model_copy(update={"argv": ("{{ arch.__class__ }}",)})
    with pytest.raises(LoadbookError, match="SecurityError"):
        build_command(spec.model_copy(update={"build": evil}), "x86_64")
