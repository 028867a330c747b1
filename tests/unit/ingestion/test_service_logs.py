"""Reasons of failed requests come from the logs of services that are kept with a trial."""

import pytest

from loadbook.ingestion.service_logs import add_failure_reasons
from loadbook.ingestion.trial_rows import TrialRows
from loadbook.store.trial_record import FileRecord
from valid_trial import record, rows

LOG = """\
2026/11/27 13:09:11 [notice] 12#12: start worker processes
2026/11/27 13:09:12 [error] 12#12: *5 open() "/x" failed (2: No such file or directory), client: 127.0.0.1, server:
2026/11/27 13:09:12 [error] 12#12: *6 limiting connections by zone "addr", client: 127.0.0.1, server: , request: "GET /"
2026/11/27 13:09:12 [error] 12#12: *7 limiting connections by zone "addr", client: 127.0.0.1, server: , request: "GET /"
"""


def reasons(tmp_path, totals, *, service="nginx", changed=()):
    """Return the notes on a trial with these totals, in whose folder the log of its service is."""
    (tmp_path / "log-web-1-web").write_text(LOG)
    services = [{"host": "web-1", "role": "web", "service": service, "config_sha256": "0" * 64}]
    trial = record(files={"log-web-1-web": FileRecord(size=1, sha256="a")}, services=services)
    read = TrialRows(trial, measurements=rows(totals))
    add_failure_reasons(read, tmp_path, changed)
    return [(p["name"], p["level"], p["host"], p["file"], p["message"]) for p in read.problems]


@pytest.mark.parametrize(
    "totals", [{("errors_status", "count"): 712}, {("errors_status", "count"): None, ("status_2xx", "count"): 156}]
)
def test_most_frequent_reason_in_the_log_is_noted_if_requests_failed(tmp_path, totals):
    note = ("error_log", "note", "web-1", "log-web-1-web", 'limiting connections by zone "addr"')
    assert reasons(tmp_path, totals) == [note]


def test_log_is_not_used_if_no_request_failed_if_it_changed_or_if_its_service_is_unknown(tmp_path):
    failed = {("errors_status", "count"): 712}
    assert reasons(tmp_path, {}) == []
    assert reasons(tmp_path, failed, changed=["log-web-1-web"]) == []
    assert reasons(tmp_path, failed, service="of-the-user") == []
