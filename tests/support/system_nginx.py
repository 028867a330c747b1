"""An installed nginx with its own configuration folder, for the tests of services that loadbook does not install."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from loadbook.core.errors import HostError
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import RemoteHost, connect
from loadbook.services import InstanceContext, ServiceSpec, SystemInstance, load_service, render
from waiting import PATIENCE_S, wait_until

NEEDS_NGINX = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="nginx is not there: apt-get install nginx-light"
)
SHELLS = [["dash"], ["bash"], ["busybox", "sh"]]
NAME = "own-nginx"
SERVICE = """
name = "own-nginx"
about = "nginx with a tree of its own"
binary = "nginx"
package = "nginx-light"
[version]
argv = ["nginx", "-v"]
pattern = 'nginx/([0-9.]+)'
[commands]
start = ["false"]
[system]
tree = "{tree}"
files = {{ "nginx.conf" = "main.j2", "loadbook/id.conf" = "id.j2" }}
main = "nginx.conf"
check = ["nginx", "-t", "-q", "-p", "{tree}/", "-c", "{tree}/nginx.conf"]
effective = ["nginx", "-T", "-q", "-p", "{tree}/", "-c", "{tree}/nginx.conf"]
start = ["nginx", "-p", "{tree}/", "-c", "{tree}/nginx.conf"]
pid_file = "{run}/nginx.pid"
log = "{run}/error.log"
drain_s = 1
[ready]
path = "/.loadbook/config-id"
[prove]
path = "/.loadbook/config-id"
[vars.workers]
type = "int"
min = 1
max = 8
default = 1
about = "worker processes"
[vars.listen]
type = "text"
pattern = '[0-9.:]+'
unset = true
default = "unset"
about = "where it listens; unset: where it did"
[vars.broken]
type = "switch"
default = "off"
about = "a directive that there is not"
"""
HEAD = """
pid {run}/nginx.pid; error_log {run}/error.log;
events {{ }}
http {{ access_log off; client_body_temp_path {run}/a; proxy_temp_path {run}/b; fastcgi_temp_path {run}/c;
uwsgi_temp_path {run}/d; scgi_temp_path {run}/e;
"""
OWN = 'worker_processes 2;{head} server {{ listen {at}; location / {{ return 200 "their own"; }}\n{slow} }} }}\n'
MAIN = """worker_processes {{{{ workers }}}};{head} include {{{{ tree }}}}/loadbook/*.conf; }}
{{{{ "nonsense;" if broken == "on" }}}}
"""
ID = """server { listen {{ listen or address ~ ":" ~ port }};
location = /.loadbook/config-id { return 200 "{{ config_id }}"; } location / { return 200 "loadbook"; } }
"""
SLOW = 'location /slow { limit_rate 10; root "%s"; }'

_number = count()


@dataclass
class OwnServer:
    """The server, its host, and the state of its configuration before the test."""

    hosts_file: Path
    host: RemoteHost
    spec: ServiceSpec
    tree: Path
    run: Path
    port: int
    before: str = ""

    def instance(self, name: str = "own-web", main: bytes | None = None, **values: str | int) -> SystemInstance:
        """Return the server as a service of a trial, under a unique name."""
        name = f"{name}-{next(_number)}"
        place = InstanceContext.for_instance(self.host, name, self.port)
        return SystemInstance(self.host, self.spec, render(self.spec, values, place, main=main), name=name, lease_s=60)

    def page(self) -> str:
        """Return the body of the server's response; "" if it does not respond."""
        with contextlib.suppress(HostError):
            return self.host.http_get(self.host.address, self.port, "/", timeout_s=PATIENCE_S).body.decode()
        return ""

    def pid(self) -> int:
        return int((self.run / "nginx.pid").read_text())

    def workers(self) -> int:
        """Return the number of worker processes; 0 while the master has not written its pid file."""
        with contextlib.suppress(OSError, ValueError):
            main = self.pid()
            return len(Path(f"/proc/{main}/task/{main}/children").read_text().split())
        return 0

    @property
    def state(self) -> Path:
        return self.run / "state"

    def left(self) -> list[str]:
        """Return the names of files that are still to be restored or are stored for it."""
        found = [*(self.state / "undo").glob("*"), *(self.state / "kept").glob("*")]
        return sorted(path.name for path in found)

    def must_be_as_before(self) -> None:
        assert digest(self.tree) == self.before
        assert self.left() == []
        wait_until(lambda: self.page() == "their own")


def digest(tree: Path) -> str:
    """Return a digest of a folder tree: names, kinds, modes, owners, links and contents."""
    lines = []
    for path in sorted([tree, *tree.rglob("*")]):
        about = path.lstat()
        if path.is_symlink():
            content = str(path.readlink())
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        lines.append(f"{path.relative_to(tree)} {about.st_mode:o} {about.st_uid}:{about.st_gid} {content}")
    return "\n".join(lines)


@contextlib.contextmanager
def own_server(lab: Lab, folder: Path, port: int, alias: str = "web") -> Iterator[OwnServer]:
    """Yield an nginx with its configuration below `folder`, on a host of the loopback lab, with loadbook's state."""
    folder.chmod(0o755)
    tree, run = folder / "etc", folder / "run"
    for made in (tree, run, tree / "empty"):
        made.mkdir()
    hosts_file = _hosts_file(lab, folder, alias, run / "state")
    with contextlib.closing(connect(hosts_file, alias, "own")) as host:
        _write(folder, tree, run, f"{host.address}:{port}")
        server = OwnServer(hosts_file, host, load_service(NAME, [folder]).as_system(), tree, run, port)
        subprocess.run(["nginx", "-p", f"{tree}/", "-c", tree / "nginx.conf"], check=True, timeout=PATIENCE_S)
        server.before = digest(tree)
        try:
            wait_until(lambda: server.workers() == 2)  # it has said that it runs before it has them
            yield server
        finally:
            end(run / "nginx.pid")


@contextlib.contextmanager
def deployed(
    own: OwnServer, name: str = "own-web", main: bytes | None = None, **values: str | int
) -> Iterator[SystemInstance]:
    """Yield the proven instance; it is stopped if the block does not."""
    instance = own.instance(name, main, **values)
    try:
        instance.check()
        instance.start()
        instance.ready(own.host)
        yield instance
    finally:
        instance.stop()


def left_by_a_crash(own: OwnServer) -> None:
    """Leave the server as a host does that crashes in the middle of a trial."""
    instance = own.instance("crashed")
    instance.check()
    instance.start()
    pid = int(own.host.script(f"read -r pid rest <jobs/{instance.name}/pid; echo $pid", timeout_s=PATIENCE_S).stdout)
    os.killpg(pid, signal.SIGKILL)
    assert own.left()


def _hosts_file(lab: Lab, folder: Path, alias: str, state: Path) -> Path:
    """Return the lab's hosts file, extended by the files that loadbook may change on this host."""
    text = lab.hosts_file.read_text()
    head = f'[hosts."{alias}"]\n'
    assert head in text
    (folder / "hosts.toml").write_text(text.replace(head, f'{head}allow = ["system"]\nstate = "{state}"\n'))
    shutil.copyfile(lab.hosts_file.with_name("known_hosts"), folder / "known_hosts")
    return folder / "hosts.toml"


def _write(folder: Path, tree: Path, run: Path, at: str) -> None:
    head, service = HEAD.format(run=run), folder / NAME
    service.mkdir()
    (service / "service.toml").write_text(SERVICE.format(tree=tree, run=run))
    (service / "main.j2").write_text(MAIN.format(head=head))
    (service / "id.j2").write_text(ID)
    (run / "slow").write_text("x" * 100_000)
    (tree / "nginx.conf").write_text(OWN.format(head=head, at=at, slow=SLOW % run))
    (tree / "nginx.conf").chmod(0o640)
    (tree / "link").symlink_to("nginx.conf")


@contextlib.contextmanager
def process(argv: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that is killed with its process group at the end, even if the test fails."""
    with subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL, **options) as running:
        try:
            yield running
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def end(pid_file: Path) -> None:
    """Stop the server whose process id is in a pid file, if it runs."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
