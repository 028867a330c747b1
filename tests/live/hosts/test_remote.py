"""Control commands and files over a real sshd."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time

import pytest

from loadbook.core.errors import CommandError, HostError, HostTimeoutError, OversizeError, UnreachableError, UsageError
from loadbook.hosts import sshd
from loadbook.hosts.host import Job
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import connect
from waiting import PATIENCE_S

ALL_BYTES = bytes(range(256)) * 3
HOSTILE = (
    "$(touch PWN)", "; touch PWN #", "`touch PWN`", "-oProxyCommand=touch PWN", "--", "a\nb", "\r\n", "it's", '"', "\\",
    "*", "~root", "!!", "x" * 300, "../../x", "\u202egnp", "\x1b]0;x\x07", "\udcff\udcfe", "", "FOO=bar",
    "[sudo] password: ",
)  # fmt: skip


@pytest.fixture(scope="module")
def host(lab):
    shared = connect(lab.hosts_file, "driver")
    yield shared
    shared.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link of another user's: make test as root")
def test_work_folder_that_is_a_symlink_of_another_user_is_refused(lab, tmp_path):
    tmp_path.chmod(0o755)
    own = tmp_path / "own"
    own.mkdir()
    link = tmp_path / "work"
    link.symlink_to(own)
    text = re.sub(r'^workdir = ".*/driver/work"', f'workdir = "{link}"', lab.hosts_file.read_text(), flags=re.M)
    known = f'known_hosts = "{lab.folder}/known_hosts"\n' if "known_hosts =" not in text else ""
    (tmp_path / "hosts.toml").write_text(known + text)
    connect(tmp_path / "hosts.toml", "driver").close()  # a link of one's own is as good as its folder
    assert (own / "bin").is_dir()
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(HostError, match="belongs to another user"):
        connect(tmp_path / "hosts.toml", "driver")


def test_command_returns_exit_code_stdout_and_stderr_separately(host):
    done = host.script('printf "out %s" "$1"; printf err >&2; exit 7', ["a b"], timeout_s=PATIENCE_S)
    assert done == (7, b"out a b", b"err")
    assert host.run(["sh", "-c", "kill -9 $$"], timeout_s=PATIENCE_S).rc == 137
    assert host.run(["no-such-program"], timeout_s=PATIENCE_S).rc == 127


@pytest.mark.fault(43)
@pytest.mark.parametrize("text", HOSTILE)
def test_command_arguments_arrive_unchanged(host, text):
    sent = text.encode("utf-8", "surrogateescape")
    assert host.run(["printf", "%s", text], timeout_s=PATIENCE_S).stdout == sent
    assert host.script('printf %s "$1"', [text], timeout_s=PATIENCE_S).stdout == sent
    assert not host.exists("PWN")


@pytest.mark.parametrize("argv", [["true", "a\0b"], ["true", "\ud800"], [], [""], ["-x"]])
def test_command_arguments_with_nul_are_refused(host, argv):
    with pytest.raises(HostError):
        host.run(argv, timeout_s=5)


def test_command_cannot_disturb_the_persistent_shell(host):
    for text in ("exit 3", "set -x; set -v; cd /", "exec >/dev/null 2>&1", "trap '' EXIT; unset PATH", 'echo "'):
        host.script(text, timeout_s=PATIENCE_S)
    host.run(["cd", "/"], timeout_s=PATIENCE_S)
    assert host.run(["pwd"], timeout_s=PATIENCE_S).stdout.decode().strip() == host.workdir


def test_files_and_command_output_are_byte_exact(host):
    host.put("all", ALL_BYTES)
    assert host.run(["cat", "all"], timeout_s=PATIENCE_S).stdout == ALL_BYTES
    assert host.get("all", max_bytes=len(ALL_BYTES)) == ALL_BYTES


def test_command_output_is_capped_without_blocking(host):
    done = host.script("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 4", timeout_s=20)
    assert (done.rc, len(done.stdout), len(done.stderr)) == (4, 1 << 20, 1 << 20)
    assert host.run(["echo", "next"], timeout_s=PATIENCE_S).stdout == b"next\n"


def test_command_beyond_its_time_limit_is_killed_and_the_next_one_works(host):
    pid = host.script("sleep 77 & echo $!; true", timeout_s=PATIENCE_S).stdout.strip().decode()
    with pytest.raises(HostTimeoutError, match=r"longer than 0\.3 s"):
        host.run(["sleep", "78"], timeout_s=0.3)
    assert host.run(["echo", "next"], timeout_s=5).stdout == b"next\n"
    assert host.script(f'read -r a b c d </proc/{pid}/stat && [ "$c" != Z ]', timeout_s=5).rc != 0


def test_checked_command_error_contains_its_stderr(host):
    with pytest.raises(CommandError, match="exit code 2\nno way"):
        host.script("echo no way >&2; exit 2", timeout_s=PATIENCE_S, check=True)


def test_commands_on_a_host_have_a_fixed_environment(host):
    answer = host.script('echo "$LC_ALL $TZ"; command -v sshd; taskset -cp $$', timeout_s=PATIENCE_S).stdout.decode()
    assert answer.startswith("C UTC\n/usr/sbin/sshd\n")


def test_put_writes_files_atomically_below_the_work_folder(host):
    host.put("deep/er/file", b"one", mode=0o600)
    host.put("deep/er/file", b"two")
    assert host.get("deep/er/file", max_bytes=3) == b"two"
    assert host.run(["ls", "-A", "deep/er"], timeout_s=PATIENCE_S).stdout == b"file\n"
    with pytest.raises(HostError, match="larger than the 2 bytes"):
        host.get("deep/er/file", max_bytes=2)
    with pytest.raises(HostError, match="no such file"):
        host.get("missing", max_bytes=1)
    host.remove("deep")
    assert not host.exists("deep")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".", "", "a\0b"])
def test_remove_refuses_paths_outside_the_work_folder(host, path):
    with pytest.raises(HostError):
        host.remove(path)


def test_fetch_of_20_mb_is_verified_by_checksum(host, tmp_path):
    host.run(["sh", "-c", "head -c 20000000 /dev/urandom >big"], timeout_s=20, check=True)
    digest = host.fetch("big", tmp_path / "new" / "big", max_bytes=20_000_000)
    assert digest == hashlib.sha256((tmp_path / "new" / "big").read_bytes()).hexdigest()
    with pytest.raises(OversizeError, match="has 20,000,000 bytes: only the first 1,000,000 are kept") as cut:
        host.fetch("big", tmp_path / "other", max_bytes=1_000_000)
    assert (cut.value.size_bytes, cut.value.copied_bytes) == (20_000_000, 1_000_000)
    assert (tmp_path / "other").read_bytes() == (tmp_path / "new" / "big").read_bytes()[:1_000_000]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "other"]
    host.remove("big")


def test_put_on_a_full_disk_fails_and_keeps_the_old_file(host):
    if os.geteuid():
        pytest.skip("only root mounts a small tmpfs: make test as root")
    host.run(["mkdir", "-p", "small"], timeout_s=PATIENCE_S)
    if host.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "small"], timeout_s=PATIENCE_S).rc:
        pytest.skip("cannot mount here")
    try:
        host.put("small/file", b"old")
        with pytest.raises(HostError, match=r"disk full|Failure|bytes arrived"):
            host.put("small/file", b"x" * 1_000_000)
        assert host.get("small/file", max_bytes=10) == b"old"
        assert host.run(["ls", "-A", "small"], timeout_s=5).stdout == b"file\n"
    finally:
        host.run(["umount", "small"], timeout_s=PATIENCE_S, check=True)


def test_job_receives_arguments_and_files(host):
    steps = (("cat", "data"), ("sh", "-c", 'printf %s "$1"', "sh", "a 'b\n$(touch PWN)\n"))
    host.start(Job("full", steps, 20, files={"data": ALL_BYTES}))
    assert host.wait("full", timeout_s=PATIENCE_S) == 0
    assert host.get("jobs/full/stdout.1", max_bytes=1000) == ALL_BYTES
    assert host.get("jobs/full/stdout.2", max_bytes=1000) == b"a 'b\n$(touch PWN)\n"
    state = host.state("full")
    assert (state.rc, state.running) == (0, False)
    with pytest.raises(HostError, match="already a job full"):
        host.start(Job("full", (("true",),), 20))
    with pytest.raises(UsageError):
        host.start(Job("../x", (("true",),), 20))
    assert not host.exists("PWN")


def test_job_wait_has_a_limit_and_stop_ends_the_group(host):
    host.start(Job("long", (("sh", "-c", "sleep 88 & sleep 89"),), 200))
    with pytest.raises(HostTimeoutError, match=r"job long did not end within 0\.2 s"):
        host.wait("long", timeout_s=0.2)
    host.stop("long", grace_s=1)
    assert host.wait("long", timeout_s=1) == 143
    host.stop("long", grace_s=1)


def test_close_ends_jobs_and_a_new_connection_reads_their_exit_code(lab, connect_lab):
    first = connect_lab(run_id="one")
    first.start(Job("with-us", (("sleep", "90"),), 200))
    first.start(Job("without-us", (("sleep", "91"),), 200, ends_with_session=False))
    first.close()
    second = connect(lab.hosts_file, "driver", "two")
    try:
        assert second.state("with-us").rc == 143
        assert second.state("without-us").running
        second.stop("without-us", grace_s=1)
    finally:
        second.close()


def test_host_is_shared_by_many_threads(host):
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda k=k: answers.append(host.run(["echo", str(k)], timeout_s=PATIENCE_S).stdout))
        for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [b"%d\n" % k for k in range(8)]


def test_clock_offset_to_this_machine_is_zero(host):
    clock = host.clock()
    assert abs(clock.offset_s) <= clock.rtt_s
    assert clock.rtt_s > 0


SERVER = """
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_http_get_goes_through_the_host(host):
    host.start(Job("http", ((sys.executable, "-c", SERVER),), 60, files={"page": b"hello"}))
    port = 0
    for _ in range(200):
        answer = host.get("jobs/http/stdout.1", max_bytes=10) if host.exists("jobs/http/stdout.1") else b""
        if answer.strip():
            port = int(answer)
            break
        time.sleep(0.05)
    got = host.http_get("127.0.0.1", port, "/page", timeout_s=PATIENCE_S)
    assert (got.status, got.body, got.headers["content-length"]) == (200, b"hello", "5")
    assert host.http_get("127.0.0.1", port, "/none", timeout_s=PATIENCE_S).status == 404
    host.stop("http", grace_s=1)
    with pytest.raises(UnreachableError, match="nothing answers"):
        host.http_get("127.0.0.1", port, "/", timeout_s=PATIENCE_S)


NOISE = 'echo "noise $(head -c 3000 /dev/zero | tr "\\0" n)"; echo noise >&2; false'


@pytest.mark.fault(19)
def test_remote_shell_tolerates_banners_locale_and_disabled_forwarding(tmp_path, monkeypatch):
    """A login that prints, another locale, a banner: nothing of it reaches an answer."""
    (tmp_path / "noise").write_text(NOISE)
    extra = f"SetEnv BASH_ENV={tmp_path}/noise LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo\nBanner {tmp_path}/noise\n"
    forwarding = sshd.CONFIG_TEMPLATE.replace("AllowTcpForwarding yes", "AllowTcpForwarding no")
    monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", forwarding + extra)
    noisy = Lab(tmp_path / "lab", hosts={"noisy": ("web",)}, net_prefix="127.251.7")
    try:
        noisy.up()
        host = connect(noisy.hosts_file, "noisy")
        assert host.run(["sh", "-c", "echo $LC_ALL $TZ"], timeout_s=PATIENCE_S) == (0, b"C UTC\n", b"")
        host.start(Job("quiet", (("echo", "only this"),), 10))
        assert host.wait("quiet", timeout_s=PATIENCE_S) == 0
        assert host.get("jobs/quiet/stdout.1", max_bytes=100) == b"only this\n"
        assert not host.can_forward()
        with pytest.raises(HostError, match="sshd refuses") as caught:
            host.http_get("127.0.0.1", 80, "/", timeout_s=5)
        assert "AllowTcpForwarding" in caught.value.hint
        host.close()
    finally:
        noisy.down()
