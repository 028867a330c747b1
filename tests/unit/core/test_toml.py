"""Files that people write: one error with its place whatever they hold, in a second and in little memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hostile_texts import WRITABLE, silent
from loadbook.core.errors import LoadbookError, StudyError
from loadbook.core.toml import MAX_KEY_PARTS, read_toml
from loadbook.hosts.inventory import read_hosts
from loadbook.services.spec import load_service
from loadbook.study.reader import is_variant, read_study

pytestmark = pytest.mark.fault(46)

BOMBS = {
    "one key of many parts": "a." * 400_000 + "a = 1",
    "one table of many parts": "[" + "a . " * 200_000 + "a]",
    "many parts in an inline table": 'x = { "=" = 1, ' + "a." * 40_000 + "a = 1 }",
    "lists in lists": "a = " + "[" * 100_000,
    "tables in tables": "a = " + "{a=" * 100_000,
    "a huge number": "a = " + "9" * 500_000,
    "a key twice": "a = 1\na = 2",
    "a table twice": "[a]\nb = 1\n[a]\nb = 2",
    "cut off": 'a = "no end',
    "a NUL": 'a = "\0"',
    "a tag of YAML": "a: !!python/object/apply:os.system ['touch PWN']",
}


def service(folder: Path) -> object:
    return load_service("bad", [folder])


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "study": ("bad.toml", lambda folder: read_study(folder / "bad.toml")),
    "hosts": ("hosts.toml", lambda folder: read_hosts(folder / "hosts.toml")),
    "service": ("bad/service.toml", service),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_toml_files_that_would_take_hours_to_parse_are_refused_at_once(tmp_path: Path, kind: str, bomb: str) -> None:
    name, read = READERS[kind]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(BOMBS[bomb])
    with pytest.raises(StudyError) as refused:
        read(tmp_path)
    assert refused.value.exit_code == 2 and len(refused.value.message) < 1000 and silent(refused.value.message)
    assert str(tmp_path / name) in refused.value.message
    assert is_variant(tmp_path / name) is False


def test_toml_error_names_file_and_line(tmp_path: Path) -> None:
    for text, place in (
        ("a = 1\nb = [\n1,\n2\n\nc = 3", "line 6, column 1"),
        ("x = 1\n" + "a." * MAX_KEY_PARTS + "a = 1", "line 2: a key of more than"),
        ("x = '''\n\n'''\n" + "a." * MAX_KEY_PARTS + "a = 1", "line 4: a key of more than"),
    ):
        (tmp_path / "x.toml").write_text(text)
        with pytest.raises(StudyError, match=place):
            read_toml(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text("name = mine")
    with pytest.raises(StudyError) as refused:
        read_toml(tmp_path / "x.toml")
    assert "line 1, column 8" in refused.value.message and '"quotes"' in (refused.value.hint or "")
    (tmp_path / "x.toml").write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(StudyError, match="line 2: the byte 0xff is not UTF-8"):
        read_toml(tmp_path / "x.toml")


def test_dots_in_toml_values_do_not_count_as_parts_of_keys(tmp_path: Path) -> None:
    dotted = "1. 2. 3. " * 40
    text = (
        f'a = "{dotted}" # {dotted}\nb = """\n{dotted}\n"""\nc = \'{dotted}\'\nd = [{"0.5, " * 900}]\n'
        + "x." * 20
        + "x = 1\n"
    )
    (tmp_path / "x.toml").write_text(text)
    assert read_toml(tmp_path / "x.toml")["a"] == dotted


def test_toml_reads_or_refuses_hostile_keys_and_values(tmp_path: Path) -> None:
    from json import dumps

    for text in WRITABLE:
        dotted = dumps(text).replace("\\u001b", "\\u001B").replace("\x7f", "\\u007f")
        for body in (
            f"name = {dotted}\n{dotted} = 1\n",
            f"[hosts.{dotted}]\nroles = [{dotted}]\nssh = {dotted}\npassword = {dotted}\n",
        ):
            for name, read in READERS.values():
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_text(body, encoding="utf-8")
                with pytest.raises(LoadbookError) as refused:
                    read(tmp_path)
                assert silent(refused.value.message) and refused.value.exit_code == 2
