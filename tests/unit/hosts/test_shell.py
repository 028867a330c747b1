"""The shell of a host: what it is sent is quoted, and what it prints is read up to the mark at its end."""

from __future__ import annotations

import pytest

from loadbook.hosts.shell import MAX_OUTPUT_BYTES, PREAMBLE, _Stream, cpu_list, search_path, sh_join

MARK = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("2,4-5", {2, 4, 5}), ("", set())]
)
def test_list_of_cpus_is_read(text, cpus):
    assert cpu_list(text) == cpus


@pytest.mark.parametrize("argv", [[], [""], ["-c", "true"], ["true", "a\0b"], ["true", "\ud800"]])
def test_command_that_no_shell_could_run_is_refused(argv):
    with pytest.raises(ValueError):
        sh_join(argv)


def test_arguments_of_a_command_are_quoted():
    assert sh_join(["echo", "a b", "$(x)", "-n", ""]) == "echo 'a b' '$(x)' -n ''"


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_output_ends_at_its_mark_however_it_arrives(chunk):
    stream, data = _Stream(MARK), f"one\n{MARK[:16]}two{MARK} 143\n".encode()
    for start in range(0, len(data), chunk):
        assert stream.rc is None
        stream.feed(data[start : start + chunk])
    assert stream.rc == 143 and bytes(stream.output) == f"one\n{MARK[:16]}two".encode()


def test_output_beyond_the_limit_is_cut_and_its_exit_code_still_read():
    stream = _Stream(MARK)
    for _ in range(3):
        stream.feed(b"x" * (MAX_OUTPUT_BYTES // 2))
    stream.feed(f"{MARK} 0\n".encode())
    assert stream.rc == 0 and len(stream.output) == MAX_OUTPUT_BYTES


def test_folders_of_programs_are_searched_once_and_after_those_of_the_user(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/sbin:/bin")
    monkeypatch.setenv("HOME", "/home/me")
    folders = search_path().split(":")
    assert folders[:2] == ["/usr/sbin", "/bin"] and "/home/me/.cargo/bin" in folders
    assert folders.count("/usr/sbin") == 1 and folders[2] == "/usr/local/sbin"


def test_program_search_path_adds_the_folders_of_servers_and_of_the_users_own_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/sbin")
    monkeypatch.setenv("HOME", "/home/me")
    assert search_path() == (
        "/usr/bin:/sbin:/usr/local/sbin:/usr/sbin:/usr/local/go/bin:/home/me/go/bin:/home/me/.cargo/bin:/home/me/.local/bin"
        ":/home/me/bin"
    )
    assert ":/usr/sbin:" in PREAMBLE and ":/usr/local/go/bin:$HOME/go/bin:" in PREAMBLE  # what commands on hosts have
