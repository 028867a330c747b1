"""The Go application: the page of a static file over HTTP and FastCGI, at a known cost, counted."""

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loadbook.services import Instance, InstanceContext, ServiceError, load_service, render, version
from local_host import LocalHost
from ports import kept_port
from shared_builds import Running, needs_go, placed, share_built
from waiting import PATIENCE_S

pytestmark = needs_go
NGINX = load_service("nginx")
FASTCGI = """
daemon off; pid nginx.pid; error_log stderr warn; user root;
events {{}}
http {{
client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
access_log off;
upstream app {{ server {server}; keepalive 4; }}
server {{ listen 127.0.0.1:{port};
location / {{ fastcgi_pass app; fastcgi_keep_conn on;
fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SERVER_PROTOCOL $server_protocol;
fastcgi_param REQUEST_URI $request_uri; }} }} }}
"""


def body(here: LocalHost, app: Instance, path: str = "/") -> bytes:
    return here.http_get(app.address, app.port, path, timeout_s=PATIENCE_S).body


@pytest.mark.parametrize("size", [0, 5, 13, 70_000])
def test_go_app_serves_the_same_page_as_a_static_file(here: LocalHost, running: Running, size: int) -> None:
    app = running("go-app", page_bytes=size)
    static = render(NGINX, {"page_bytes": size}, InstanceContext.for_instance(here, "static", 80)).files[
        "html/index.html"
    ]
    answer = here.http_get(app.address, app.port, "/index.html", timeout_s=PATIENCE_S)
    assert answer.body == static and answer.headers["content-type"] == "text/html"
    assert answer.headers["content-length"] == str(size)


def test_go_app_counters_exclude_check_requests(here: LocalHost, running: Running) -> None:
    app = running("go-app")
    before = app.counters(here)
    line = http.client.HTTPConnection(app.address, app.port)
    for path in ("/", "/api", "/.loadbook/config-id"):
        line.request("GET", path)
        last = line.getresponse().read()
    line.close()
    body(here, app)
    after = app.counters(here)
    assert last.decode() == app.rendered.config_id
    assert {name: after[name] - before[name] for name in after} == {"requests": 3.0, "connections": 2.0}


def test_go_app_page_with_node_name_keeps_its_length(here: LocalHost, running: Running) -> None:
    pages = [body(here, running("go-app", {"node": node}, page="node", page_bytes=40)) for node in ("a", "node-b")]
    assert [page.split(b"\n")[0] for page in pages] == [b"node a", b"node node-b"]
    assert [len(page) for page in pages] == [40, 40]


def test_go_app_page_too_short_for_node_name_is_refused(here: LocalHost, built: Path) -> None:
    share_built(here, built)
    app = placed(here, load_service("go-app"), {}, {"page": "node", "page_bytes": 8})
    with pytest.raises(ServiceError, match=r"refuses its configuration .*page_bytes = 8: naming the node takes 10"):
        app.check()
    app.stop()


@pytest.mark.parametrize("socket", ["tcp", "unix"])
def test_go_app_serves_fastcgi(here: LocalHost, running: Running, tmp_path: Path, socket: str) -> None:
    app = running("go-app", protocol="fastcgi", socket=socket, page_bytes=30)
    port, place = kept_port(), app.rendered.context
    server = f"unix:{place.dir}/app.sock" if socket == "unix" else f"{app.address}:{app.port}"
    folder = tmp_path / "services" / "front"
    folder.mkdir(parents=True)
    (folder / "nginx.conf.j2").write_text(FASTCGI.format(server=server, port=port))
    (folder / "service.toml").write_text(
        'name = "front"\nabout = "x"\nbinary = "nginx"\npackage = "nginx-light"\n'
        "[version]\nargv = ['nginx', '-v']\npattern = '([0-9.]+)'\n"
        '[files]\n"nginx.conf" = "nginx.conf.j2"\n'
        "[commands]\nstart = ['nginx', '-p', '{{ dir }}/', '-c', 'nginx.conf']\n"
    )
    spec = load_service("front", [tmp_path / "services"])
    front = Instance(
        here, spec, render(spec, {}, InstanceContext.for_instance(here, "front", port)), name="front", lease_s=30.0
    )
    front.check()
    front.start()
    try:
        page = front.ready(here).body
        before = app.counters(here)
        pages = _pages(port, 5)
    finally:
        front.stop()
    assert pages == {page} and page == b"hello, world\nhello, world\nhell"
    after = app.counters(here)
    assert after["requests"] - before["requests"] == 5 and after["connections"] - before["connections"] <= 1


def _pages(port: int, count: int) -> set[bytes]:
    """Return the different pages of `count` requests over one connection, as load generators ask that keep theirs.

    Go ends an answer over FastCGI in a record of its own, after its last byte. nginx gives up the connection behind it
    when the client closes its own between the two, so that clients which close at the last byte empty the pool.
    """
    line, found = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S), set()
    for _ in range(count):
        line.request("GET", "/index.html")
        found.add(line.getresponse().read())
    line.close()
    return found


def test_go_app_slots_and_hold_time_set_a_known_maximum_request_rate(here: LocalHost, running: Running) -> None:
    app = running("go-app", hold_ms=20, slots=2)
    begun = time.monotonic()
    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(lambda _: body(here, app), range(12))) == {b"hello"}
    assert time.monotonic() - begun >= 12 * 0.020 / 2 - 0.001


def test_go_app_work_costs_cpu_time(here: LocalHost, running: Running) -> None:
    app = running("go-app", work=100_000)
    pid = app.pids()[0]
    before = _ticks(pid)
    threads = [threading.Thread(target=body, args=(here, app)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _ticks(pid) - before >= 4


def _ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def test_go_app_reports_a_port_in_use(here: LocalHost, running: Running, built: Path) -> None:
    first = running("go-app")
    spec = load_service("go-app")
    place = InstanceContext.for_instance(here, "second", first.port, {"node": "web1", "cpus": [0]})
    second = Instance(here, spec, render(spec, {}, place), name="second", lease_s=30.0)
    second.check()
    second.start()
    try:
        with pytest.raises(ServiceError, match=r"(?s)go-app ended with exit code 1: .*address already in use"):
            second.ready(here)
        assert second.prove(here).live is False
    finally:
        second.stop()


def test_go_app_reports_cpus_and_version(here: LocalHost, running: Running) -> None:
    app = running("go-app", {"cpus": [1]})
    assert b'"cpus": 1' in app.effective_config
    assert version(here, app.spec).partition(" ")[2].startswith("(go 1.")
