"""An ordinary user of a fresh Debian: nginx runs in his own folder, and refuses a file of his with a remedy."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.services import Instance, InstanceContext, ServiceError, load_service, render
from ordinary_user import OrdinaryUsersHost, find_ordinary_user, ordinary_user_command

ROOT = Path(__file__).parents[3]
NGINX = load_service("nginx")
OWN_FILE = """user root;
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log access.log;
    client_body_temp_path temp-client;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;
    server { listen {{ address }}:{{ port }}; root html; }
}
"""
TEMP_PATHS = re.findall(r".*_temp_path .*;\n", OWN_FILE)


@pytest.fixture
def users_host(tmp_path: Path) -> Iterator[OrdinaryUsersHost]:
    host = OrdinaryUsersHost(tmp_path / "work")
    yield host
    host.close()


def own_file_instance(host: OrdinaryUsersHost, text: str) -> Instance:
    place = InstanceContext.for_instance(host, "t0001-a1-nginx", 18_480)
    return Instance(host, NGINX, render(NGINX, {}, place, main=text.encode()), name="t0001-a1-nginx", lease_s=60.0)


def test_nginx_services_run_for_an_ordinary_user(tmp_path: Path) -> None:
    """Their tests are run by such a user, whatever this machine's root has done before.

    Where that is impossible, they are run without sbin folders in PATH, and the test counts as skipped.
    """
    if not Path("/usr/sbin/nginx").is_file():
        pytest.skip("nginx is not there: apt-get install nginx-light")
    as_user, problem = find_ordinary_user()
    own = tmp_path / "own"
    own.mkdir()
    own.chmod(0o777)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    env |= {"HYPOTHESIS_STORAGE_DIRECTORY": f"{own}/hypothesis", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(own)}
    tests = [f"tests/live/services/test_nginx_{name}_live.py" for name in ("tuned", "upstream")]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-rs"]
    command = [*as_user, sys.executable, "-m", "pytest", *options, "--basetemp", f"{own}/t", *tests]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "nginx is not there" not in done.stdout
    if problem:
        pytest.skip(problem)


def test_ordinary_user_of_the_tests_can_write_neither_nginx_folder_nor_etc() -> None:
    shell = "id -u; for folder in /var/lib/nginx /etc; do [ -w $folder ] && echo $folder; done; ls -A /var/lib/nginx; "
    command = [*ordinary_user_command(), "sh", "-c", f'{shell}echo "$PATH"']
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    uid, path = done.stdout.splitlines()
    assert uid != "0" and "sbin" not in path


def test_own_configuration_file_with_its_own_temp_paths_is_accepted(users_host: OrdinaryUsersHost) -> None:
    web = own_file_instance(users_host, OWN_FILE)
    web.check()
    assert b"client_body_temp_path temp-client;" in web.effective_config


def without(text: str, *lines: str) -> str:
    for line in lines:
        assert line in text
        text = text.replace(line, "")
    return text


@pytest.mark.parametrize(
    "text, error, remedy",
    [
        (without(OWN_FILE, *TEMP_PATHS), 'mkdir() "/var/lib/nginx/body" failed (13', [p.strip() for p in TEMP_PATHS]),
        (without(OWN_FILE, "pid nginx.pid;\n"), 'open() "/run/nginx.pid" failed (13', ["pid nginx.pid;"]),
        (
            without(OWN_FILE, "access_log access.log;\n"),
            'open() "/var/log/nginx/access.log" failed (13',
            ["access.log;"],
        ),
        (
            OWN_FILE.replace("{{ address }}:{{ port }}", "127.0.0.1:80"),
            "bind() to 127.0.0.1:80 failed (13",
            ["listen {{ endpoint }};"],
        ),
    ],
    ids=["temp-paths", "pid", "log", "port"],
)
def test_refusal_of_an_own_file_begins_with_the_error_and_names_the_directive(
    users_host: OrdinaryUsersHost, text: str, error: str, remedy: list[str]
) -> None:
    with pytest.raises(ServiceError) as caught:
        own_file_instance(users_host, text).check()
    before, _, message = caught.value.message.partition("(exit code 1): ")
    first = message.splitlines()[0]
    assert before.endswith("nginx refuses its configuration ")
    assert "[emerg]" in first and error in first
    assert "[warn]" not in message, "only the error"
    assert caught.value.hint and all(directive in caught.value.hint for directive in remedy)
