"""Every wait is limited: no call in lib/ that may block for ever is without a limit, but for those that say why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LIB = Path(__file__).parents[3] / "lib" / "loadbook"

# functions that wait for ever without the keyword `timeout`
BY_KEYWORD = {
    *("subprocess.run", "subprocess.check_output", "subprocess.check_call", "subprocess.call", "urlopen"),
    *("urllib.request.urlopen", "requests.get", "socket.create_connection", "wait", "as_completed"),
    "concurrent.futures.wait",
}
# methods that wait for ever unless they are given an argument
WITHOUT_ARGUMENT = {"wait", "join", "result", "communicate", "acquire", "exception"}
# methods that need what is not in the call: a time-out set before on the channel or socket
NEED_A_TIMEOUT = {"recv", "recv_stderr", "recv_exit_status", "accept", "sendall", "send", "open_session", "recvfrom",
                  "sftp", "open_channel", "exec_command", "connect", "request"}  # fmt: skip
# a variable that takes a value; a function of ours with a limit that it cannot be called without
OTHERS = {"var.accept", "self.vars[name].accept", "http.open_channel"}

DOG = "the watchdog closes a connection that gives no sign of life, which frees whoever waits"
CHANNEL = "its channel or socket was given a time-out before"
BOUNDED = "what it waits for is a call that has its own limit, or work on bytes that are there"
# (file, what is called) -> why it is limited all the same
ALLOWED = {
    ("hosts/session.py", "connection.sftp"): f"channel_timeout; {DOG}",
    ("hosts/remote.py", "session.transport.join"): "a daemon thread of its own, which lives as long as the connection",
    ("hosts/logins.py", "agent.connect"): CHANNEL,
    ("hosts/logins.py", "connection.connect"): CHANNEL,
    ("hosts/logins.py", "agent.recv"): CHANNEL,
    ("hosts/logins.py", "agent.sendall"): CHANNEL,
    ("hosts/monitors.py", "self._channel.sendall"): CHANNEL,
    ("hosts/session.py", "channel.recv"): CHANNEL,
    ("hosts/session.py", "channel.sendall"): CHANNEL,
    ("hosts/session.py", "self._channel.sendall"): CHANNEL,
    ("hosts/session.py", "self.transport.open_session"): f"channel_timeout; {DOG}",
    ("hosts/shell.py", "channel.exec_command"): DOG,
    ("hosts/shell.py", "channel.recv"): "only when it is ready; the call has a deadline",
    ("hosts/shell.py", "channel.recv_stderr"): "only when it is ready; the call has a deadline",
    ("hosts/shell.py", "self.channel.sendall"): CHANNEL,
    ("hosts/sshd.py", "sock.recv"): CHANNEL,
    ("hosts/http.py", "self._channel.recv"): CHANNEL,
    ("hosts/http.py", "self._channel.sendall"): CHANNEL,
    ("hosts/http.py", "stream.sendall"): CHANNEL,
    ("batch/site.py", "as_completed"): "every cell of a notebook has its limit",
    ("batch/site.py", "done.result"): "it is done",
    ("request_logs/jtl_csv.py", "ready.result"): BOUNDED,
    ("request_logs/k6_points.py", "ready.exception"): BOUNDED,
    ("request_logs/k6_points.py", "ready.result"): BOUNDED,
    ("request_logs/vegeta_gob.py", "ready.exception"): BOUNDED,
    ("request_logs/vegeta_gob.py", "ready.result"): BOUNDED,
    ("request_logs/vegeta_rows.py", "ready.exception"): BOUNDED,
    ("request_logs/vegeta_rows.py", "ready.result"): BOUNDED,
    ("request_logs/read.py", "under_way.result"): "its thread has ended, or writes rows that are there",
    ("execution/testbed.py", "future.result"): "it is done",
    ("execution/testbed.py", "wait"): BOUNDED,
    ("execution/testbed.py", "ended.result"): "it is done",
    ("ingestion/workers.py", "future.exception"): "it is done",
    ("ingestion/workers.py", "future.result"): "it is done",
    ("ingestion/workers.py", "parent.join"): "a daemon thread of its own, which lives as long as its parent",
    ("execution/attempt.py", "self._monitored.result"): BOUNDED,
    ("execution/attempt.py", "page.result"): BOUNDED,
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def unlimited(called: str, node: ast.Call) -> bool:
    """Tell whether a call may wait for ever, as far as the call itself tells."""
    keywords, method = {word.arg for word in node.keywords}, called.rpartition(".")[2]
    if None in keywords:  # **options: what they hold is another function's
        return False
    if keywords & {"timeout", "timeout_s"} or called in OTHERS:
        return False
    if called in BY_KEYWORD:
        return called not in ("wait", "concurrent.futures.wait") or len(node.args) < 2
    if called in ("fcntl.flock", "fcntl.lockf"):
        return "LOCK_NB" not in ast.unparse(node) and "LOCK_UN" not in ast.unparse(node)
    if "." in called and method in WITHOUT_ARGUMENT:
        return not node.args and "blocking" not in keywords
    return "." in called and method in NEED_A_TIMEOUT


def found() -> Iterator[tuple[str, str, int]]:
    for path in sorted(LIB.rglob("*.py")):
        for called, node in calls(path):
            if unlimited(called, node):
                yield path.relative_to(LIB).as_posix(), called, node.lineno


def test_blocking_calls_have_a_time_limit():
    odd = [f"{file}:{line}: {called}" for file, called, line in found() if (file, called) not in ALLOWED]
    assert not odd, "\n".join(odd)


def test_every_exemption_from_the_wait_rule_is_needed():
    assert set(ALLOWED) == {(file, called) for file, called, _ in found()}


@pytest.mark.parametrize(
    ("text", "waits"),
    [("subprocess.run(['true'])", True), ("subprocess.run(['true'], timeout=3)", False), ("thread.join()", True),
     ("thread.join(3)", False), ("', '.join(words)", False), ("future.result()", True), ("e.wait(timeout=1)", False),
     ("fcntl.flock(f, fcntl.LOCK_EX)", True), ("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)", False),
     ("sock.recv(10)", True), ("wait(futures)", True), ("wait(futures, timeout=3)", False), ("lock.acquire()", True)],
)  # fmt: skip
def test_wait_rule_detects_blocking_calls_without_a_time_limit(text, waits):
    ((called, node),) = [(ast.unparse(n.func), n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    assert unlimited(called, node) == waits
