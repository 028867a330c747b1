"""Every rule on a trial: what trips it, what does not, and what it says without evidence."""

import pytest

from loadbook.core.validity_rules import RULE_INFO, exclusion_cause
from loadbook.study.limits import ValidityLimits
from loadbook.validity.rules import check_trial
from valid_trial import CLEAN, LOAD, check, named, record, rows, traces


def only(hits, name: str):
    """The single hit of a rule; nothing else may have spoken."""
    assert [hit.name for hit in hits] == [name], hits
    return hits[0]


def test_clean_trial_has_no_hits() -> None:
    assert check() == []


def test_trial_without_measurements_is_not_judged() -> None:
    lost = record(status="lost", window=None)
    assert check_trial(lost, [], [], [], ValidityLimits()) == []


def test_error_responses_are_judged_by_their_share() -> None:
    hit = only(check({("errors_status", "count"): 50}), "error_responses")
    assert (hit.level, hit.trial, hit.treatment) == ("invalid", "t0001", "base")
    assert hit.message.startswith("50 of 100,000 responses were errors (0.05\u00a0%): an error page is answered faster")
    assert hit.message.endswith(".")
    lenient = {"max_error_share": 0.01, "doubt_error_share": 0.0001}
    assert only(check({("errors_status", "count"): 50}, gates=lenient), "error_responses").level == "doubt"
    assert only(check({("errors_status", "count"): 5}, gates=lenient), "error_responses").level == "note"


def test_share_of_errors_that_is_just_allowed_leaves_the_trial_valid() -> None:
    hit = only(check({("errors_status", "count"): 50}, gates={"max_error_share": 0.0005}), "error_responses")
    assert hit.level == "doubt"


def test_errors_that_the_tool_does_not_count_as_requests_are_no_more_than_all_responses() -> None:
    found = check({("errors_status", "count"): 150_000}, gates={"max_error_share": 1.0})
    hit = only(found, "error_responses")
    assert (hit.level, "150,000 of 150,000 responses" in hit.message) == ("doubt", True)


def test_socket_errors_are_judged_by_their_share_of_attempts() -> None:
    hit = only(check({("errors_timeout", "count"): 3, ("errors_read", "count"): 2}), "socket_errors")
    assert hit.level == "invalid"
    assert hit.message.startswith("5 of 100,005 attempts failed")


def test_failures_of_ab_are_among_its_requests_and_a_wrong_length_has_its_own_remedy() -> None:
    counts = {("requests", "count"): 2000.0, ("ok", "count"): 1497.0, ("errors_length", "count"): 503.0}
    measured = [{"driver": "*", "metric": m, "statistic": s, "value": v} for (m, s), v in counts.items()]
    (hit,) = named(check_trial(record(tool="ab"), measured, [], [], ValidityLimits()), "socket_errors")
    assert hit.message.startswith("503 of 2,000 attempts failed (25.15\u00a0%), 503 of them as their length")
    assert exclusion_cause("socket_errors", hit.message).remedy.startswith(
        "let ab accept pages of variable length (-l)"
    )
    counts = {("requests", "count"): 2000.0, ("errors_read", "count"): 500.0}
    measured = [{"driver": "*", "metric": m, "statistic": s, "value": v} for (m, s), v in counts.items()]
    (hit,) = named(check_trial(record(tool="ab"), measured, [], [], ValidityLimits()), "socket_errors")
    assert hit.message.startswith("500 of 2,000 attempts failed (25.00\u00a0%): the service received less load")


def test_failures_at_the_driver_limits_are_always_invalid() -> None:
    found = check({("errors_driver", "count"): 12}, gates={"max_error_share": 1.0})
    assert only(found, "driver_limits").level == "invalid"


def test_trial_without_any_request_is_invalid() -> None:
    none = check({("requests", "count"): 0, ("ok", "count"): 0})
    assert named(none, "zero_work")[0].level == "invalid"
    assert named(check({("ok", "count"): 0}), "zero_work")[0].message.startswith("none of 100,000 responses")


@pytest.mark.parametrize(
    ("lacking", "name"),
    [
        ([("requests", "count"), ("ok", "count")], "zero_work"),
        ([("errors_status", "count")], "error_responses"),
        ([("errors_connect", "count"), ("errors_timeout", "count")], "socket_errors"),
    ],
)
def test_rules_on_counts_that_a_tool_does_not_report_are_unchecked(lacking, name: str) -> None:
    hits = named(check(dict.fromkeys(lacking)), name)
    assert [hit.level for hit in hits] == ["unchecked"]
    assert hits[0].message.startswith("not checked: ")


@pytest.mark.parametrize(
    ("changes", "level", "printed"),
    [
        ({"response_before": {"status": 500, "bytes": 5, "sha256": "a"}}, "invalid", "status 500, not 200"),
        ({"response_after": {"status": 200, "bytes": 24, "sha256": "a"}}, "invalid", "after the load: 24 bytes, not 5"),
        ({"response_after": {"status": 200, "bytes": 5, "sha256": "b"}}, "note", "content changed"),
    ],
)
def test_wrong_response_is_invalid(changes, level: str, printed: str) -> None:
    hit = only(check(**changes), "wrong_response")
    assert hit.level == level
    assert printed in hit.message


def test_page_of_changing_size_is_a_doubt_unless_expected() -> None:
    found = check(workload={"model": "closed"}, response_after={"status": 200, "bytes": 9, "sha256": "b"})
    assert only(found, "wrong_response").level == "doubt"
    unasked = check(response_before=None, response_after=None)
    assert [(hit.name, hit.level) for hit in unasked] == [
        (n, "unchecked") for n in ("wrong_response", "server_identity")
    ]


def test_changed_server_header_is_a_doubt() -> None:
    first, last = (CLEAN["response_after"] | {"server": name} for name in ("nginx/1.22.1", "Apache"))
    hit = only(check(response_before=first, response_after=last), "server_identity")
    assert hit.level == "doubt"
    assert "called itself nginx/1.22.1 before the load and Apache after" in hit.message
    assert check(response_before=first, response_after=first) == []


@pytest.mark.parametrize(
    ("got", "level"), [(499_000, None), (480_000, "doubt"), (103_000_000, None), (106_000_000, "doubt")]
)
def test_bytes_per_response_must_lie_between_page_and_page_with_headers(got: int, level: str | None) -> None:
    hits = named(check({("bytes_read", "count"): got}), "bytes_per_response")
    assert [hit.level for hit in hits] == ([level] if level else [])


def test_bytes_of_unfinished_responses_are_tolerated() -> None:
    page = {"status": 200, "bytes": 1_000_000, "sha256": "a"}
    big = {"workload": CLEAN["workload"] | {"expect_bytes": None}, "response_before": page, "response_after": page}
    few = {("requests", "count"): 100, ("ok", "count"): 100}
    assert not named(check(few | {("bytes_read", "count"): 125_000_000}, **big), "bytes_per_response")
    (hit,) = named(check(few | {("bytes_read", "count"): 50_000_000}, **big), "bytes_per_response")
    assert hit.message.startswith("500,000 bytes came per response; the page has 1,000,000: ")


@pytest.mark.parametrize("sizes", [(1_000_000, 500_000), (500_000, 1_000_000)])
def test_bytes_of_a_page_that_changed_its_size_lie_between_its_sizes(sizes: tuple[int, int]) -> None:
    pages = [{"status": 200, "bytes": size, "sha256": "a"} for size in sizes]
    load = {"workload": CLEAN["workload"] | {"expect_bytes": None, "connections": 1}}
    few = {("requests", "count"): 100, ("ok", "count"): 100}
    for received, count in ((60_000_000, 0), (90_000_000, 0), (40_000_000, 1), (120_000_000, 1)):
        hits = check(
            few | {("bytes_read", "count"): received}, response_before=pages[0], response_after=pages[1], **load
        )
        assert len(named(hits, "bytes_per_response")) == count, received


def test_bytes_without_count_or_expectation_are_unchecked() -> None:
    assert only(check({("bytes_read", "count"): None}), "bytes_per_response").level == "unchecked"
    unknown = check(workload={"model": "closed"}, response_before=None, response_after=None)
    assert named(unknown, "bytes_per_response")[0].level == "unchecked"


@pytest.mark.parametrize(("live", "level"), [(False, "invalid"), (None, "unchecked")])
def test_configuration_that_is_not_live_is_invalid(live, level: str) -> None:
    hit = only(check(services=[CLEAN["services"][0] | {"live": live}]), "config_not_live")
    assert (hit.level, hit.host) == (level, "web-1")


def test_another_server_on_the_port_is_named_with_its_place_and_remedy() -> None:
    answered = "http://127.0.0.1:18083/.loadbook/config-id answered 200 'x', not 'a1': another server, or an older"
    other = CLEAN["services"][0] | {"live": False, "live_evidence": f"{answered}; no process nginx of ours is running"}
    hit = only(check(services=[other]), "config_not_live")
    remedy = "free the port, or set service_port in the hosts file"
    assert (hit.level, hit.message) == ("invalid", f"another server answered on web-1:18083; {remedy}.")
    assert exclusion_cause(hit.name, hit.message) == ("another server answered on web-1:18083", remedy)
    system = only(check(services=[other | {"mode": "system"}]), "config_not_live")
    assert system.message.startswith("nginx did not run the treatment's configuration")
    assert exclusion_cause(system.name, system.message).text == "configuration not live"


@pytest.mark.parametrize(("busy", "level"), [(0.97, "invalid"), (0.92, "doubt")])
def test_driver_saturation_uses_only_driver_cpus_and_the_measurement_window(busy: float, level: str) -> None:
    load = {("driver-1", "cpu_busy", "cpu1"): busy, ("driver-1", "process_cpu", "wrk:100"): busy - 0.02}
    hit = only(check(traced=load), "driver_saturated")
    assert (hit.level, hit.host) == (level, "driver-1")
    assert hit.message.startswith(f"cpu1 of the driver was {busy * 100:.0f}\u00a0% busy")


def test_driver_cpu_filled_by_other_programs_is_one_doubt_about_them() -> None:
    hit = only(
        check(traced={("driver-1", "cpu_busy", "cpu1"): 1.0, ("driver-1", "process_cpu", "wrk:100"): 0.18}),
        "foreign_cpu",
    )
    assert (hit.level, hit.host) == ("doubt", "driver-1")
    assert hit.message.startswith("other programs used 82\u00a0% of the driver's CPU: ")


def test_driver_cpu_filled_by_neither_load_nor_other_programs_is_a_doubt() -> None:
    stolen = {("driver-1", "cpu_busy", "cpu1"): 1.0, ("driver-1", "cpu_steal", "cpu1"): 0.75}
    hits = check(traced=stolen | {("driver-1", "process_cpu", "wrk:100"): 0.25})
    (hit,) = named(hits, "driver_saturated")
    assert (hit.level, "25\u00a0% of that with the load" in hit.message) == ("doubt", True)
    assert not named(hits, "foreign_cpu")


def test_cpu_time_of_other_programs_on_several_cpus_is_told_in_cpus() -> None:
    monitors = [CLEAN["monitors"][0], CLEAN["monitors"][1] | {"cpus": [0, 2]}]
    hit = only(check(monitors=monitors, traced={("web-1", "cpu_busy", "cpu2"): 0.5}), "foreign_cpu")
    assert hit.message.startswith("other programs used 0.53 of web-1's 2 CPUs: ")


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"scheme": "https", "keepalive": False}, "unchecked"),
        ({"scheme": "https", "keepalive": True}, "invalid"),
        ({"scheme": "http", "keepalive": False}, "invalid"),
    ],
)
def test_cpu_of_wrk_tells_nothing_during_tls_handshakes(changes: dict[str, object], level: str) -> None:
    load = {("driver-1", "cpu_busy", "cpu1"): 1.0, ("driver-1", "process_cpu", "wrk:100"): 0.98}
    hit = only(check(traced=load, workload=CLEAN["workload"] | changes), "driver_saturated")
    assert hit.level == level


@pytest.mark.parametrize(("used", "names"), [(0.25, ["shared_cores"]), (0.97, ["driver_saturated", "shared_cores"])])
def test_driver_cpu_filled_by_services_that_share_it_is_not_its_limit(used: float, names: list[str]) -> None:
    """Only the generator's own use of a CPU that it shares tells its limit."""
    load = {("driver-1", "cpu_busy", "cpu1"): 1.0, ("driver-1", "process_cpu", "wrk:100"): used}
    hits = check(traced=load, services=[CLEAN["services"][0] | {"cpus": [1, 2]}])
    assert sorted({hit.name for hit in hits} & {"driver_saturated", "shared_cores"}) == names


def test_driver_without_cpu_mask_is_judged_on_every_cpu() -> None:
    monitors = [CLEAN["monitors"][0] | {"cpus": []}]
    load = {("driver-1", "process_cpu", "wrk:100"): 1.5}
    found = check(monitors=monitors, boot_ids={"driver-1": "b1", "web-1": "b2"}, traced=load)
    assert named(found, "driver_saturated")[0].message.startswith("cpu0 of the driver was 97\u00a0% busy")


@pytest.mark.parametrize(("used", "threads", "level"), [(0.97, 1, "invalid"), (0.92, 1, "doubt"), (1.94, 2, "invalid")])
def test_driver_threads_moving_between_cpus_are_saturated(used: float, threads: int, level: str) -> None:
    workload = CLEAN["workload"] | {"threads": threads}
    spread = {("driver-1", "cpu_busy", f"cpu{n}"): 0.3 for n in range(4)}
    monitors = [m | {"cpus": []} for m in CLEAN["monitors"]]
    (hit,) = named(
        check(traced=spread | {("driver-1", "process_cpu", "wrk:100"): used}, workload=workload, monitors=monitors),
        "driver_saturated",
    )
    assert (hit.level, hit.host) == (level, "driver-1")
    assert "thread" in hit.message


def test_full_thread_of_a_load_generator_under_study_is_only_a_doubt() -> None:
    """A CPU that may be full to the last per cent; sampled CPU time can exceed the time that has passed."""
    spread = {("driver-1", "cpu_busy", f"cpu{n}"): 0.3 for n in range(4)}
    monitors = [m | {"cpus": []} for m in CLEAN["monitors"]]
    full = spread | {("driver-1", "process_cpu", "wrk:100"): 1.02}
    (hit,) = named(check(traced=full, monitors=monitors, gates={"driver_cpu": 1.0}), "driver_saturated")
    assert hit.level == "doubt"


def test_driver_threads_with_idle_time_are_not_saturated() -> None:
    busy = {("driver-1", "process_cpu", "wrk:100"): 0.97}
    assert not named(check(traced=busy, workload=CLEAN["workload"] | {"threads": 2}), "driver_saturated")


def test_host_not_at_rest_is_a_doubt() -> None:
    state = {"at_rest": 0.0, "waited_s": 10.02, "time_wait": 28_000.0}
    (hit,) = named(check(reset={"driver-1": CLEAN["reset"]["driver-1"], "web-1": state}), "not_at_rest")
    assert (hit.level, hit.host) == ("doubt", "web-1")
    assert "28,000 sockets in TIME-WAIT after 10 s" in hit.message
    assert named(check(reset={}), "not_at_rest")[0].level == "unchecked"


def test_busy_polling_of_httperf_does_not_count_as_saturation() -> None:
    full = {("driver-1", "cpu_busy", "cpu1"): 1.0, ("driver-1", "process_cpu", "wrk:100"): 1.0}
    hit = only(check(traced=full, tool="httperf"), "driver_saturated")
    assert (hit.level, "by design" in hit.message) == ("unchecked", True)


def test_missing_host_metrics_leave_rules_unchecked() -> None:
    found = check_trial(record(monitors=[]), rows(), [], [], ValidityLimits())
    assert {hit.level for hit in found} == {"unchecked"}
    assert {hit.name for hit in found} >= {"driver_saturated", "monitor_gaps"}


@pytest.mark.parametrize(
    "changes",
    [
        {"services": [CLEAN["services"][0] | {"cpus": [0, 1]}]},
        {"monitors": [CLEAN["monitors"][0] | {"cpus": []}, CLEAN["monitors"][1]]},
    ],
)
def test_driver_and_server_on_shared_cores_are_a_doubt(changes) -> None:
    assert named(check(**changes), "shared_cores")[0].level == "doubt"


def test_shared_cores_need_one_machine_with_a_known_boot_id() -> None:
    everywhere = [CLEAN["services"][0] | {"cpus": [0, 1]}]
    assert not named(check(services=everywhere, boot_ids={"driver-1": "b1", "web-1": "b2"}), "shared_cores")
    assert only(check(boot_ids={}), "shared_cores").level == "unchecked"


OPEN = {"model": "open", "rate_per_s": 25_000, "expect_bytes": 5}


@pytest.mark.parametrize(
    ("achieved", "errors", "names"),
    [(24_900, 0, ["offered_ceiling"]), (24_900, 5, []), (24_000, 0, []), (20_000, 0, ["offered_shortfall"])],
)
def test_open_load_at_or_below_its_offered_rate_is_flagged(achieved: float, errors: int, names: list[str]) -> None:
    found = check({("requests_per_s", "value"): achieved, ("errors", "count"): errors}, workload=OPEN)
    assert [hit.name for hit in found] == names
    assert all(hit.level == "doubt" for hit in found)


def test_closed_load_is_not_judged_by_an_offered_rate() -> None:
    assert check({("requests_per_s", "value"): 1.0}) == []


def test_stolen_cpu_time_counts_only_on_the_host_own_cpus() -> None:
    hit = only(check(traced={("web-1", "cpu_steal", "cpu0"): 0.05, ("web-1", "cpu_busy", "cpu0"): 1.0}), "stolen_cpu")
    assert (hit.level, hit.host) == ("doubt", "web-1")
    assert hit.message.startswith("5.0\u00a0% of cpu0 was stolen")
    assert check(traced={("web-1", "cpu_steal", "cpu1"): 0.05}) == []


def test_foreign_cpu_time_is_that_of_unmonitored_processes() -> None:
    hit = only(check(traced={("web-1", "process_cpu", "nginx:201"): 0.70}), "foreign_cpu")
    assert (hit.level, hit.host) == ("doubt", "web-1")
    assert "used 25\u00a0% of web-1's CPU" in hit.message


def test_foreign_cpu_time_names_the_other_runs_on_the_machine() -> None:
    others = {"web-1": ["run 1 of lb (user bob)", "run 2 of lb (user eve)"]}
    assert check(other_runs=others) == []  # only the CPU time that they use is a doubt
    hit = only(check(traced={("web-1", "process_cpu", "nginx:201"): 0.70}, other_runs=others), "foreign_cpu")
    assert "CPU; on this machine was run 1 of lb (user bob), run 2 of lb (user eve)" in hit.message


def test_foreign_cpu_excludes_roles_on_the_same_cpus() -> None:
    monitors = [m | {"cpus": [0, 1]} for m in CLEAN["monitors"]]
    assert not named(check(monitors=monitors), "foreign_cpu")
    apart = check(monitors=monitors, boot_ids={"driver-1": "b1", "web-1": "b2"})
    assert len(named(apart, "foreign_cpu")) == 2


def test_foreign_cpu_of_a_host_without_mask_excludes_other_roles_on_its_machine() -> None:
    monitors = [CLEAN["monitors"][0] | {"cpus": []}, CLEAN["monitors"][1]]
    assert not named(check(monitors=monitors), "foreign_cpu")


def test_foreign_cpu_needs_monitored_processes() -> None:
    without = {key: None for key in LOAD if key[1] == "process_cpu"}
    assert {hit.level for hit in named(check(traced=without), "foreign_cpu")} == {"unchecked"}


def test_gaps_in_host_metrics_are_a_doubt() -> None:
    half = [k * 0.25 for k in range(-4, 20) if not 1.0 < k * 0.25 < 3.0]
    found = named(check(times=half), "monitor_gaps")
    assert [(hit.level, hit.host) for hit in found] == [("doubt", "driver-1"), ("doubt", "web-1")]
    assert found[0].message.startswith("samples cover 56\u00a0% of the measurement")
    late = [k * 0.25 + 0.1 for k in range(-4, 20)]
    assert not named(check(times=late), "monitor_gaps")


@pytest.mark.parametrize("side", [slice(12), slice(12, None)], ids=["sampler ended early", "sampler began late"])
def test_host_metrics_of_one_part_of_the_measurement_are_a_doubt(side: slice) -> None:
    found = named(check(times=[k * 0.25 for k in range(-4, 20)][side]), "monitor_gaps")
    assert [hit.level for hit in found] == ["doubt", "doubt"]


def test_clock_problems_are_a_doubt() -> None:
    assert only(check({("duration", "value"): -1.0}), "clock").level == "invalid"
    assert only(check({("duration", "value"): 4000.0}), "clock").level == "invalid"
    step = {"web-1": {"offset_before_s": 0.0, "rtt_before_s": 0.001, "offset_after_s": 1.5, "rtt_after_s": 0.001}}
    hit = only(check(clocks=step), "clock")
    assert (hit.level, hit.host) == ("doubt", "web-1")
    assert only(check(clocks={}), "clock").level == "unchecked"


@pytest.mark.parametrize(("offset_after_s", "levels"), [(0.25, []), (0.35, ["doubt"])])
def test_clock_step_within_the_time_of_a_slow_comparison_is_no_doubt(offset_after_s: float, levels: list[str]) -> None:
    slow = {"offset_before_s": 0.0, "rtt_before_s": 0.001, "offset_after_s": offset_after_s, "rtt_after_s": 0.2}
    assert [hit.level for hit in named(check(clocks={"web-1": slow}), "clock")] == levels


def test_duration_is_not_absurd_against_a_window_of_less_than_a_second() -> None:
    assert not named(check({("duration", "value"): 4.0}, window=(1000.0, 1000.2)), "clock")
    assert named(check({("duration", "value"): 11.0}, window=(1000.0, 1000.2)), "clock")[0].level == "invalid"


def test_doubts_of_a_tool_are_reported_once_with_advice() -> None:
    hit = only(check(doubts=[("connections", "49 of 50 connections were opened")]), "connections")
    advice = "make connections a multiple of threads, and look for refused connects."
    assert (hit.level, hit.message) == ("doubt", f"49 of 50 connections were opened; {advice}")
    assert only(check(doubts=[("never_heard", "x")]), "tool_doubt").message == "x; read its output."
    both = check({("errors_driver", "count"): 3}, doubts=[("driver_limits", "again")])
    assert only(both, "driver_limits").level == "invalid"


def test_every_rule_has_title_reason_and_remedy() -> None:
    assert traces()
    for name, info in RULE_INFO.items():
        assert name == info.name
        assert info.title[0].isupper()
        assert info.why
        assert not info.why.endswith(".")
        assert info.remedy
        assert not info.remedy.endswith(".")
