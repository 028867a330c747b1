"""What a host has for us may be anything: links instead of files, prompts, answers that never end. Over a real sshd."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hostile_texts import CORPUS, HTML, PATHS, SHELL, TEMPLATES, TERMINAL, no_canary, silent
from loadbook.core.errors import HostError, HostTimeoutError, LoadbookError
from loadbook.hosts.host import Job
from loadbook.hosts.remote import connect
from waiting import PATIENCE_S

SECRET = b"root:$6$canary-of-the-host:19000:0:99999:7:::\n"


@pytest.fixture(scope="module")
def host(lab):
    shared = connect(lab.hosts_file, "web")
    yield shared
    shared.close()


@pytest.fixture
def shadow(tmp_path) -> Path:
    """A file on the host that is none of ours: not below the work folder."""
    (tmp_path / "shadow").write_bytes(SECRET)
    return tmp_path / "shadow"


@pytest.mark.fault(43)
def test_remote_arguments_with_shell_syntax_are_passed_literally(host):
    for text in CORPUS:
        try:
            sent = text.encode("utf-8", "surrogateescape")
            assert host.run(["printf", "%s", text], timeout_s=PATIENCE_S).stdout == sent
            assert host.script('printf %s "$1"', [text], timeout_s=PATIENCE_S).stdout == sent
        except (HostError, UnicodeEncodeError):
            assert "\0" in text or "\ud800" in text  # what no program can be given
    assert no_canary(Path(host.workdir))


@pytest.mark.fault(43)
def test_job_and_file_names_cannot_leave_the_work_folder(host, tmp_path):
    for text in (*SHELL, *PATHS, *HTML, *TERMINAL, *TEMPLATES):
        with pytest.raises(LoadbookError) as refused:
            host.start(Job(text, (("true",),), 5))
        assert silent(refused.value.message)
        with pytest.raises(HostError):
            host.remove(f"../{text}")


@pytest.mark.fault(49)
@pytest.mark.parametrize("kind", ["link", "link in a folder", "folder is a link", "way out", "pipe", "folder"])
def test_fetch_accepts_regular_files_only(host, shadow, tmp_path, kind):
    folder = Path(host.workdir) / f"jobs/{kind.replace(' ', '-')}"
    path = folder / "stdout.1"
    if kind == "folder is a link":
        folder.parent.mkdir(exist_ok=True)
        (shadow.parent / "stdout.1").write_bytes(SECRET)
        folder.symlink_to(shadow.parent)
    else:
        folder.mkdir(parents=True)
    if kind in ("link", "link in a folder"):
        path.symlink_to(shadow if kind == "link" else os.path.relpath(shadow, folder))
    elif kind == "way out":
        path = folder / os.path.relpath(shadow, folder)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(HostError, match="not a plain file of ours"):
        host.fetch(str(path), tmp_path / "kept" / "stdout", max_bytes=1000)
    assert not [p for p in (tmp_path / "kept").rglob("*") if p.is_file()]


@pytest.mark.fault(49)
def test_fetch_never_follows_a_link_swapped_in_during_transfer(host, shadow, tmp_path, record_property):
    """Somebody on the host puts a link in the place of the output, again and again."""
    folder = Path(host.workdir) / "jobs" / "swapped"
    folder.mkdir(parents=True)
    path, over = folder / "stdout.1", threading.Event()

    def swap() -> None:
        link, plain = folder / "link", folder / "plain"
        while not over.is_set():
            plain.write_bytes(b"x" * len(SECRET))
            plain.rename(path)
            time.sleep(0.001)
            link.symlink_to(shadow)
            link.rename(path)
            time.sleep(0.001)

    thread = threading.Thread(target=swap)
    thread.start()
    kept = refused = 0
    try:
        while not path.exists():
            time.sleep(0.01)
        for _ in range(60):
            with suppress(HostError):
                host.fetch(str(path), tmp_path / "got", max_bytes=1000)
                kept += 1
                assert (tmp_path / "got").read_bytes() == b"x" * len(SECRET)
                continue
            refused += 1
    finally:
        over.set()
        thread.join()
    record_property("seen", f"swapped under 60 fetches: {refused} refused, {kept} whole, the other file never")
    assert refused and not any(SECRET in p.read_bytes() for p in tmp_path.glob("got*"))


@pytest.mark.fault(45)
def test_commands_that_prompt_on_a_host_get_no_input(host):
    ask = 'printf "[sudo] password: "; printf "Password:" >&2; read -r typed && echo "got $typed" || echo "nothing"'
    assert host.script(ask, timeout_s=PATIENCE_S) == (0, b"[sudo] password: nothing\n", b"Password:")
    host.start(Job("asks", (("/bin/sh", "-c", ask),), 20))
    assert host.wait("asks", timeout_s=PATIENCE_S) == 0
    assert host.get("jobs/asks/stdout.1", max_bytes=100) == b"[sudo] password: nothing\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does what it likes with whoever asks."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.recv(65536)
                    answer(client)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _drip(first: bytes, then: bytes) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.sendall(first)
        for _ in range(400):
            client.sendall(then)
            time.sleep(0.05)

    return answer


ENDLESS = {
    "a byte of the body now and then": _drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "a byte of a header now and then": _drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "interim answers for ever": _drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks without an end": _drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "silence": lambda client: time.sleep(20),
}


@pytest.mark.fault(44)
@pytest.mark.parametrize("kind", ENDLESS)
def test_remote_answer_has_one_overall_time_limit(host, kind):
    with server(ENDLESS[kind]) as port, pytest.raises(HostTimeoutError):
        host.http_get("127.0.0.1", port, "/", timeout_s=0.7)


ODD = {
    "no http": b"\x00\x01\x02\xff",
    "nothing": b"",
    "status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "status with escapes": b"HTTP/1.1 \x1b[31m200 OK\r\n\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "thousands of headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "less than it says": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx",
    "a length below zero": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx",
    "a chunk of nonsense": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.fault(44)
@pytest.mark.parametrize("kind", ODD)
def test_malformed_http_responses_are_refused_or_read_verbatim(host, kind):
    with server(lambda client: client.sendall(ODD[kind])) as port:
        try:
            answer = host.http_get("127.0.0.1", port, "/", timeout_s=PATIENCE_S)
        except HostError as error:
            assert silent(error.message) and f":{port}/" in error.message
        else:
            assert kind == "a length below zero" and answer.status == 200


@pytest.mark.fault(44)
def test_hostile_http_headers_and_bodies_are_treated_as_data(host):
    for text in (*HTML, *TERMINAL):
        value = text.encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
        body = b"HTTP/1.1 200 " + value + b"\r\nServer: " + value + b"\r\n\r\n" + value
        with server(lambda client, body=body: client.sendall(body)) as port:
            try:
                answer = host.http_get("127.0.0.1", port, "/", timeout_s=PATIENCE_S)
            except HostError as error:
                assert silent(error.message)
            else:
                assert answer.body == value
