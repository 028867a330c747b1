"""Apache httpd by processes and by threads, as whoever runs the tests; real processes."""

from loadbook.services import InstanceContext, load_service, render


def conf(**values: str | int) -> str:
    place = InstanceContext("/w/t1", "127.0.0.1", 18080)
    return render(load_service("httpd"), values, place).files["httpd.conf"].decode()


def test_httpd_accepts_the_limits_in_the_published_article() -> None:
    text = conf(mpm="prefork", server_limit=3840, max_request_workers=3840, keepalive_timeout=15)
    assert text.index("\nServerLimit 3840\n") < text.index("\nMaxRequestWorkers 3840\n")
    assert "\nKeepAliveTimeout 15\n" in text and "ThreadsPerChild" not in text
    assert "\nMinSpareServers 8\n" in conf(mpm="prefork", min_spare=8) and "\nMinSpareThreads 8\n" in conf(min_spare=8)
