"""Pages of hostile data in a real browser without a network: nothing runs, nothing is asked for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from chromium import Chrome
from counting_server import Counter
from hostile_texts import CANARY


@contextlib.contextmanager
def chrome_without_network(profile: Path) -> Iterator[Chrome]:
    """Yield a browser that has no network."""
    with Chrome(profile) as one:
        one.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        yield one


def is_inert(chrome: Chrome, page: Path, counter: Counter) -> None:
    """Assert that a page executes nothing, and asks nobody."""
    chrome.open(page, 1280, 720)
    time.sleep(0.1)
    assert chrome.complaints() == []
    assert chrome.requests() == [page.as_uri()]
    assert chrome.value("document.title") != CANARY
    assert chrome.value("document.scripts.length") == 0
    assert chrome.value("location.href") == page.as_uri()
    assert chrome.value("document.querySelectorAll('iframe,object,embed,link,base,form').length") == 0
    assert counter.requested == []
