"""Batch files: every combination of what stands in an entry, and every mistake at once with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile_texts import WRITABLE, inline_toml, silent
from loadbook.batch.file import MAX_ENTRIES, read_batch
from loadbook.core.errors import StudyError, UsageError


def write(folder: Path, text: str, name: str = "nightly.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def mistakes(path: Path) -> dict[str, str]:
    with pytest.raises(StudyError) as caught:
        read_batch(path)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_batch_entry_expands_to_every_combination_in_order(tmp_path):
    text = """
[[entry]]
study = ["a", "sub/b.toml"]
hosts = ["lab", "old.toml"]
parameters.metric = ["ok_per_s", "latency"]
[[entry]]
study = "c"
blocks = [5, 10]
"""
    batch = read_batch(write(tmp_path, text))
    entries = [
        (Path(e.study).name, e.hosts and e.hosts.name, e.blocks, e.entry_parameters.get("metric"))
        for e in batch.entries
    ]
    assert entries[:4] == [
        ("a", None, None, "ok_per_s"), ("a", None, None, "latency"),
        ("a", "old.toml", None, "ok_per_s"), ("a", "old.toml", None, "latency"),
    ]  # fmt: skip
    assert entries[-2:] == [("c", None, 5, None), ("c", None, 10, None)]
    assert (batch.name, len(batch.entries)) == ("nightly", 10)


def test_batch_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    text = '[[entry]]\nstudy = "../s.toml"\nhosts = ["h.toml", "~/h.toml", "/etc/h.toml"]\n'
    entries = read_batch(write(tmp_path, text)).entries
    assert [str(e.hosts) for e in entries] == [f"{tmp_path}/h.toml", "/home/somebody/h.toml", "/etc/h.toml"]
    assert entries[0].study == f"{tmp_path}/../s.toml"


def test_batch_entry_overrides_batch_settings(tmp_path):
    text = """
hosts = "a.toml"
parameters = { level = 0.9, metric = "latency" }
[[entry]]
study = "a"
[[entry]]
study = "b"
hosts = "lab"
parameters.metric = "ok_per_s"
"""
    one, two = read_batch(write(tmp_path, text)).entries
    assert (one.hosts, one.entry_parameters, one.batch_parameters) == (
        tmp_path / "a.toml",
        {},
        {"level": 0.9, "metric": "latency"},
    )
    assert (two.hosts, two.entry_parameters, two.batch_parameters) == (None, {"metric": "ok_per_s"}, {"level": 0.9})


def test_batch_entries_with_equal_measurements_share_a_run(tmp_path):
    text = '[[entry]]\nstudy = "a"\nparameters.metric = ["x", "y"]\n[[entry]]\nstudy = "a"\nblocks = 3\n'
    one, two, three = read_batch(write(tmp_path, text)).entries
    assert one.run_key == two.run_key != three.run_key
    assert len({one.identity, two.identity, three.identity}) == 3


def test_batch_file_errors_are_reported_together_with_lines(tmp_path):
    text = """name = "a/b"
hosts = ["lab", 3]
stdy = 1
[parameters]
level = inf
[[entry]]
study = "../evil"
blocks = true
[[entry]]
study = ["ok", "no\\u0007.toml"]
hosts = "host\\u001b[1m.toml"
more = 0
parameters = { metric = [], x = { a = 1 } }
subset = "a b"
[[entry]]
studdy = "x"
"""
    problems = mistakes(write(tmp_path, text))
    assert list(problems) == [
        "name", "hosts.1", "parameters.level", "entry.0.study (line 6)", "entry.0.blocks (line 6)",
        "entry.1.study.1 (line 9)", "entry.1.hosts (line 9)", "entry.1.subset (line 9)", "entry.1.more (line 9)",
        "entry.1.parameters.metric (line 9)", "entry.1.parameters.x (line 9)", "entry.2.study (line 15)",
        "entry.2.studdy (line 15)", "stdy",
    ]  # fmt: skip
    assert problems["entry.2.studdy (line 15)"] == "unknown key; did you mean 'study'?"
    assert problems["stdy"].endswith("known: name, hosts, parameters, entry")
    assert "\x1b" not in str(problems) and "\x07" not in str(problems)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ('[[entry]]\nstudy = "a"\n[[entry]]\nstudy = "a"', "entry.1 (line 3)", "a: the same as entry.0 (line 1)"),
        ('[[entry]]\nstudy = "a"\nmore = 2\nblocks = 3', "entry.0.more (line 1)", "leave blocks and subset out"),
        ("name = 'x'", "entry", "is required"),
        ("entry = []", "entry", "empty list"),
        ('entry = ["a"]', "entry.0", "must be a table"),
        ('[[entry]]\nstudy = "~nobody-at-all/x.toml"', "entry.0.study (line 1)", "names a home that there is not"),
        ("[[entry]]\nstudy = 7", "entry.0.study (line 1)", "must be a name"),
        (
            f'[[entry]]\nstudy = "a"\nblocks = {list(range(1, MAX_ENTRIES + 2))}',
            "entry",
            f"more than {MAX_ENTRIES} combinations",
        ),
        ("[[entry]\n", "file", "line 1"),
    ],
)
def test_batch_file_errors_name_key_and_line(tmp_path, text, path, message):
    problems = mistakes(write(tmp_path, text))
    assert message in problems[path]


def test_batch_with_too_many_combinations_is_refused(tmp_path):
    many = list(range(1, 2000))
    text = f'[[entry]]\nstudy = "a"\nparameters = {{ a = {many}, b = {many}, c = {many}, d = {many} }}'
    assert "more than" in mistakes(write(tmp_path, text))["entry"]


def test_batch_file_whose_file_name_is_invalid_needs_a_name_key(tmp_path):
    entry = '[[entry]]\nstudy = "a"\n'
    assert "is no name" in mistakes(write(tmp_path, entry, "every night.toml"))["name"]
    assert read_batch(write(tmp_path, 'name = "n"\n' + entry, "every night.toml")).name == "n"


@pytest.mark.parametrize("name", ["absent.toml", "folder"])
def test_unreadable_batch_file_is_reported(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=f"batch file .*{name}: "):
        read_batch(tmp_path / name)


PLAIN = {"NA", "null", "nan", "1e400", "None", "class", "print"}  # names after all


@pytest.mark.parametrize("key", ["name", "study", "hosts", "subset"])
def test_batch_file_refuses_hostile_names(tmp_path, key):
    for text in (text for text in WRITABLE if text not in PLAIN):
        raw = {"study": "a", key: text}
        top = f"name = {inline_toml(raw.pop('name'))}\n" if key == "name" else ""
        lines = [f"{name} = {inline_toml(value)}" for name, value in raw.items()]
        with pytest.raises(StudyError) as caught:
            read_batch(write(tmp_path, top + "\n".join(["[[entry]]", *lines])))
        assert silent(caught.value.message)


def test_batch_parameters_keep_hostile_texts_or_refuse_them(tmp_path):
    for text in WRITABLE:
        path = write(tmp_path, f'[[entry]]\nstudy = "a"\nparameters = {{ metric = {inline_toml(text)} }}')
        if text.isprintable():
            assert read_batch(path).entries[0].entry_parameters == {"metric": text}
        else:
            assert silent(str(mistakes(path)))
