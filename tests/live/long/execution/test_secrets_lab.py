"""A whole run with secrets in everything a user may set: none of them is anywhere afterwards, nor while it goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from loadbook.hosts.lab import Lab
from loadbook.store.paths import Layout
from own_ssh import own_ssh
from recorded_run import with_studies

pytestmark = [pytest.mark.fault(54), pytest.mark.timeout(900)]
# one word for each place, so that a find says where it came from
ENVIRONMENT, PASSPHRASE, COMMENT, KEY_FILE, CONFIG = (
    "canary-env-7f3a", "canary-pass-51cc", "canary-comment-90de", "canary-file-2b6e", "canary-config-c4d1",
)  # fmt: skip
STUDY = """
include = "aa.toml"
name = "secret"
execution = "plain"
blocks = 2

[workload]
duration_s = 1
warmup_s = 0.2

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""


def keygen(path: Path, passphrase: str) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", COMMENT, "-f", str(path)]
    subprocess.run(words, check=True, timeout=30, stdin=subprocess.DEVNULL)


@contextmanager
def agent(folder: Path, key: Path) -> Iterator[dict[str, str]]:
    """An ssh-agent that holds a key; yields the environment that leads to it."""
    printed = subprocess.run(
        ["ssh-agent", "-s", "-a", str(folder / "agent")], capture_output=True, text=True, check=True
    )
    found = re.search(r"SSH_AGENT_PID=(\d+)", printed.stdout)
    assert found
    environment = {"SSH_AUTH_SOCK": str(folder / "agent")}
    try:
        subprocess.run(["ssh-add", "-q", str(key)], env=os.environ | environment, check=True, timeout=30)
        yield environment
    finally:
        os.kill(int(found[1]), 15)


class Watch(threading.Thread):
    """Looks at the command lines of all processes and the environments of those of the lab, again and again."""

    def __init__(self, lab: Lab, secrets: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.lab, self.secrets, self.over = lab, secrets, threading.Event()
        self.found: set[str] = set()
        self.looks = self.environments = 0

    def run(self) -> None:
        while not self.over.wait(0.05):
            self.looks += 1
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    self._look(folder)

    def _look(self, folder: Path) -> None:
        line = (folder / "cmdline").read_bytes()
        self._search("command line", line, line)
        if str((folder / "cwd").readlink()).startswith(f"{self.lab.folder}/"):
            self.environments += 1
            self._search("environment", (folder / "environ").read_bytes(), line)

    def _search(self, what: str, data: bytes, line: bytes) -> None:
        if any(secret in data for secret in self.secrets):
            self.found.add(f"{what} of {line.replace(bytes(1), b' ').decode(errors='replace')[:200]}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home: keys, one of them locked, and a configuration of ssh."""
    folder = tmp_path / "user"
    (folder / ".ssh").mkdir(parents=True, mode=0o700)
    keygen(folder / ".ssh" / KEY_FILE, PASSPHRASE)
    (folder / ".ssh" / "config").write_text(
        f"# {CONFIG}\nHost driver web\n  IdentityFile {folder}/.ssh/{KEY_FILE}\n  SetEnv TOKEN={CONFIG}\n"
    )
    return folder


def hosts_file(lab: Lab, home: Path) -> Path:
    """The lab's hosts as a user has them: the driver by the agent's key, the web host by one with a name of its own."""
    key = home / ".ssh" / f"{KEY_FILE}-web"
    shutil.copy(lab.folder / "user_key", key)
    path = home / "hosts.toml"
    driver, web = re.split(r'\n(?=\[hosts\."web"\])', lab.hosts_file.read_text())
    driver = re.sub(r"identity_file = .*\n", "", driver)
    path.write_text(driver + "\n" + re.sub(r"identity_file = .*", f'identity_file = "{key}"', web))
    shutil.copy(lab.folder / "known_hosts", home / "known_hosts")
    return path


def test_secrets_appear_in_no_file_output_or_process_list(
    lab: Lab, home: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    layout: Layout = with_studies(tmp_path / "project")
    (layout.studies / "secret.toml").write_text(STUDY)
    file = hosts_file(lab, home)
    # the last lines of a key hold what is secret of it; the first are alike in all
    keys = (lab.folder / "user_key", home / ".ssh" / KEY_FILE)
    material = [line.encode() for key in keys for line in key.read_text().splitlines()[-3:-1]]
    words = [w.encode() for w in (ENVIRONMENT, PASSPHRASE, COMMENT, KEY_FILE, CONFIG)]
    watch = Watch(lab, words + material)
    names = ("SSHPASS", "SUDO_PASSWORD", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "LOADBOOK_TOKEN", "SSH_ASKPASS_TEXT")
    printed = b""
    with agent(tmp_path, lab.folder / "user_key") as environment:
        environment |= dict.fromkeys(names, ENVIRONMENT) | {"HOME": str(home), "LOADBOOK_HOME": str(layout.root)}
        environment["PATH"] = f"{own_ssh(tmp_path / 'bin', home / '.ssh/config')}:{os.environ['PATH']}"
        watch.start()
        for command in (
            ["doctor", "secret", "--hosts", str(file)],
            ["run", "secret", "--hosts", str(file)],
            ["ingest", "secret"],
            ["report", "secret"],
            ["verify", "secret"],
        ):
            done = subprocess.run(
                [sys.executable, "-c", "from loadbook.cli import main; main()", *command],
                env=os.environ | environment, capture_output=True, timeout=600, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (command, done.stderr.decode())
            printed += done.stdout + done.stderr
        watch.over.set()
        watch.join()
    # what a host saw of us includes the name of our hosts file on our own command line: that is ours to give
    found = {one for one in watch.found if "loadbook.cli" not in one}
    assert found == set()
    assert watch.looks > 10 and watch.environments > 10
    files = [p for folder in (layout.root, lab.folder) for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    leaks = {str(p) for p in files if p not in keys and any(secret in p.read_bytes() for secret in words + material)}
    assert leaks == set()
    assert not any(secret in printed for secret in words + material)
    kept = sum(p.stat().st_size for p in files)
    text = f"{len(files)} files of {kept / 1e6:.1f} MB, {watch.looks} looks at all processes: no secret"
    record_property("seen", text)


def test_passphrase_protected_key_is_reported_without_passphrase_or_prompt(
    lab: Lab, home: Path, tmp_path: Path
) -> None:
    """The passphrase stands in the environment, as some wrappers leave it; nobody takes it from there."""
    file = home / "hosts.toml"
    file.write_text(
        re.sub(r"identity_file = .*", f'identity_file = "{home}/.ssh/{KEY_FILE}"', lab.hosts_file.read_text())
    )
    shutil.copy(lab.folder / "known_hosts", home / "known_hosts")
    layout = with_studies(tmp_path / "project")
    (layout.studies / "secret.toml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-c", "from loadbook.cli import main; main()", "run", "secret", "--hosts", str(file)],
        env=os.environ | {"HOME": str(home), "LOADBOOK_HOME": str(layout.root), "SSH_ASKPASS_TEXT": PASSPHRASE}
        | {"SSH_AUTH_SOCK": ""}, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 3 and "locked by a passphrase" in done.stderr, done.stderr
    assert PASSPHRASE not in done.stdout + done.stderr
    assert not (layout.root / "data").exists() or PASSPHRASE.encode() not in b"".join(
        p.read_bytes() for p in (layout.root / "data").rglob("*") if p.is_file()
    )
