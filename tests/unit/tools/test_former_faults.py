"""Outputs whose numbers were once wrong, lost or refused: each gives its right values and doubts.

The values were read from the captures, or from the server that was measured, and never from loadbook's own answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from loadbook.ingestion.recognise import find_reports
from tool_captures import FIXTURES, check_sane, table

CASES = FIXTURES / "cases"


class Case(NamedTuple):
    """What an output says.

    Parameters
    ----------
    path : file or folder of outputs, below tests/fixtures/cases.
    values : "metric=value" or "metric.statistic=value" of each number, in base units. A metric without a statistic has
        `count` or `value`. A value of "-" is one that must not be there.
    doubts : names of doubts that must be there; "" for those that do not matter here.
    absent : names of doubts that must not be there.
    """

    path: str
    values: str
    doubts: str = ""
    absent: str = ""


WRK_IN_LOG = "requests=60000 ok=60000 requests_per_s=6000 duration=10 latency.mean=0.0062 latency.p50=0.00558"
CUT_WRK = "requests=7100 requests_per_s=70.86 duration=100.2 errors_timeout=498"
BY_D_OR_S = "requests=600 ok=600 requests_per_s=200 duration=3 latency.mean=0.020 latency.max=0.091 latency.p90=-"
READ = (
    Case("ab_variable_length", "requests=50 errors_length=-", "unchecked_answers"),
    Case("ab_variable_length_cut", "requests=50 bytes_read=6980", "unchecked_answers"),
    Case("ab_first_answer_lost", "requests=50 ok=- ok_per_s=- errors=-", "first_answer"),
    Case(
        "unserved_connections/wrk.txt",
        "requests=10734 latency.mean=0.00277 latency.p50=0.00182",
        "unserved_connections",
    ),
    Case("k6_points_bytes/points.csv", "requests=10 duration=0.91 bytes_read=1050 bytes_per_s=1153.846153846"),
    Case(
        "ab_2_0_whole_kib/ab.txt",
        "requests=250 ok=250 requests_per_s=25.44 duration=9.8254 latency.mean=0.393 latency.p50=0.391 "
        "latency.p99=0.64 latency.max=0.712 bytes_per_s=20843.833330",
    ),
    Case("ab_without_percentiles/d.txt", f"{BY_D_OR_S} latency.p50=0.020"),
    Case("ab_without_percentiles/S_d.txt", f"{BY_D_OR_S} latency.p50=-"),
    Case("share_of_failures_ab_length/cache-off-3.txt", "requests=2000", absent="first_answer"),
    Case(
        "one_failure/report.json",
        "requests=99999 errors_timeout=1 attempt_time.p50=0.002 attempt_time.p99=0.004 attempt_time.mean=0.0021 "
        "service_time.mean=- service_time.p50=0.002 service_time.p95=0.0028 service_time.p99=0.004 service_time.max=-",
        "unanswered",
    ),
    Case("k6_two_definitions/points.csv", "requests=10 ok=4 errors_status=6 latency.mean=0.0046 latency.p50=0.001"),
    Case(
        "k6_two_definitions/summary.json", "ok=4 requests=- latency.mean=0.01 attempt_time.mean=0.0046", "expected_only"
    ),
    Case("k6_csv_whole_seconds_remedy/k.csv", "requests=1 ok=1 latency.mean=0.0125 requests_per_s=-", "no_times"),
    Case("only_redirects/result.json", "requests=20 ok=20 status_3xx=20", "redirects"),
    Case(
        "autocannon_excluded/result.json",
        "requests=1000 ok=900 latency.mean=0.02 latency.sd=0.001 latency.p50=0.02 latency.p90=0.025 latency.p99=0.03",
        "good_only",
        "added_times",
    ),
    Case(
        "autocannon_null_latencies/a.json",
        "requests=20000 ok=0 errors_status=20000 requests_per_s=2000 duration=10 latency.mean=- latency.p50=-",
    ),
    Case("autocannon_reconnect/nginx_default.json", "latency.mean=- latency.p50=- latency.p99=-", "stale_times"),
    Case("autocannon_reconnect/resets.json", "latency.mean=- latency.p50=- latency.p99=-", "stale_times"),
    Case(
        "fortio_bucket_begins_below_minimum/f.json",
        "requests=300 ok=300 requests_per_s=60 duration=5 service_time.mean=0.2511 service_time.sd=0.0006 "
        "service_time.min=0.2504 service_time.max=0.2531 service_time.p50=- service_time.p75=- service_time.p90=-",
        "coarse_times",
    ),
    Case(
        "fortio_errors_apart/result.json",
        "requests=98 ok=98 errors=2 latency.mean=0.0102 latency.max=0.0104",
        "unanswered",
    ),
    Case("h2load_status_without_done/h.txt", "requests=20 ok=20 errors=20 status_2xx=38", "counts_differ"),
    Case("locust_first_start/result.json", "requests=10 requests_per_s=1 duration=10"),
    Case(
        "locust_error_report",
        "requests=200 ok=180 errors_status=20 status_5xx=20 latency.mean=0.02 latency.p50=0.02 latency.max=0.04",
    ),
    Case(
        "oha_output_file",
        "requests=10 ok=10 duration=2 requests_per_s=5 latency.p50=0.01 latency.p90=0.03 bytes_read=120",
    ),
    Case("bombardier_cut_bodies/result.json", "requests=50 ok=40 errors=10 errors_read=10", "cut_answers"),
    Case("artillery_errors_do_not_add_up/a.json", "requests=2000 errors=1010", "errors_unclassed"),
    Case(
        "wrk_latency_without_units/w.txt",
        "requests=16800 requests_per_s=280 duration=60 errors_connect=12 errors_timeout=3100 latency.mean=-",
        "latency_without_unit",
    ),
    Case("jtl_one_zero_timestamp/results.jtl", "requests=20 ok=20 errors=1", "not_begun"),
    Case(
        "jtl_two_runs_appended/results.jtl", "requests=80 ok=80 requests_per_s=- ok_per_s=- duration=-", "runs_appended"
    ),
    Case("jtl_xml_files_joined/all.xml", "requests=20 ok=20", "header"),
    Case("gatling_decimal_comma/comma.txt", "requests=17010 requests_per_s=42.525 latency.mean=0.035 latency.p99=0.11"),
    Case("gatling_decimal_comma/point.txt", "requests=17010 requests_per_s=42.525 latency.mean=0.035 latency.p99=0.11"),
    Case("gatling_simulation_log/simulation.log", "requests=5 ok=5 latency.mean=0.04"),
    Case(
        "indent_lost_wrk2/indented.txt",
        "requests=10000 ok=10000 requests_per_s=999.95 duration=10 latency_intended.mean=0.0014",
    ),
    Case(
        "json_indented_autocannon/auto.json",
        "requests=16000 requests_per_s=1600 duration=10 latency.mean=0.0124 latency.p90=0.015 latency.max=0.061",
    ),
    Case("json_inside_a_log_locust/robot.log", "requests=300 latency.mean=0.021"),
    Case(
        "json_one_line_fortio/fortio.json",
        "requests=1000 ok=1000 requests_per_s=199.8 service_time.mean=0.0044 service_time.min=0.0021 "
        "service_time.max=0.0148",
    ),
    Case("no_break_spaces_h2load/h2.txt", "requests=1000 requests_per_s=2000"),
    Case("prefix_of_ci_wrk/job.log", f"{WRK_IN_LOG} latency.p99=0.0186 latency.max=0.033"),
    Case("prefix_of_compose_wrk/wrk.log", f"{WRK_IN_LOG} latency.p99=0.0186 latency.max=0.033"),
    Case(
        "vegeta_json_of_version_5/v.json",
        "requests=300 ok=300 duration=2.994 service_time.mean=0.0041 service_time.p50=0.0039 service_time.p99=0.012 "
        "service_time.max=0.03",
    ),
    Case(
        "vegeta_results/results.bin",
        "requests=20 ok=20 status_2xx=20 duration=0.191372 bytes_read=12240 service_time.mean=0.0006272 "
        "service_time.min=0.000483 service_time.p50=0.000599 service_time.p99=0.001267 service_time.max=0.001267",
    ),
    Case(
        "texts/wrk_1.txt",
        "requests=100000 requests_per_s=13793.10 errors_timeout=50 latency.mean=0.0079 latency.max=0.0265",
    ),
    Case("texts/wrk_markdown.txt", "requests=300 duration=30.1 errors_timeout=40 requests_per_s=9.97"),
    Case("texts/wrk_ci_prefix.txt", CUT_WRK),
    Case("texts/wrk_quoted.txt", CUT_WRK),
    Case(
        "texts/siege_text.txt", "requests=1000 duration=6.58 requests_per_s=151.98 latency.mean=0.93 latency.max=3.51"
    ),
    Case("texts/siege_4.0.7.json", "requests=9797 requests_per_s=6085.09", "coarse_times"),
    Case("texts/k6_old.txt", "attempts=43000 attempts_per_s=1433.3 attempt_time.p90=0.06734", "failed_unknown"),
    Case("texts/k6_summary_1.8.1.txt", "requests=50 latency.mean=0.00072742 latency.max=0.00811 latency.p95=0.00222"),
    Case(
        "texts/vegeta_report.txt",
        "requests=200 status_2xx=200 service_time.mean=0.000669113 service_time.p99=0.004314 service_time.max=0.005026 "
        "duration=1.991",
    ),
    Case("texts/bombardier_report.txt", "status_2xx=200 latency.mean=0.00022666 latency.max=0.000736"),
    Case("texts/fortio_report.txt", "requests=200 duration=2.00139682 service_time.p99=0.00457921"),
    Case(
        "texts/jtl_noheader.jtl", "requests=3 ok=3 latency.min=0.011 latency.p50=0.012 latency.max=0.015 duration=0.211"
    ),
    Case("texts/jtl_newline_bare.jtl", "requests=3 errors_status=1", "line_end"),
)
SEVERAL = {"ten_runs_in_one_log_wrk/all.log": 10, "texts/wrk_three.txt": 3}
TWINS = {"json_indented_autocannon/as_printed.json", "json_one_line_fortio/as_written.json",
         "indent_lost_wrk2/wrk2.txt",
         "share_of_failures_ab_length/cache-on-3.txt"}  # fmt: skip
# inputs that are no outputs of a load generator: tests/unit/host_metrics, tests/unit/stats and tests/unit/imported
ELSEWHERE = {"compare_average_rows", "compare_direction_jmeter_columns", "compare_semicolon_decimal_comma",
             "compare_thousands_dot", "import_two_generators", "sadf_decimal_comma", "sadf_horizontal",
             "sadf_json_decimal_commas"}  # fmt: skip


@pytest.mark.parametrize("case", READ, ids=[case.path for case in READ])
def test_case_gives_its_right_values_and_doubts(case: Case) -> None:
    (report,) = find_reports(CASES / case.path)
    assert report.parsed, report.error
    check_sane(report.parsed)
    rows = table(report.parsed.measurements)
    for word in case.values.split():
        name, _, printed = word.partition("=")
        metric, _, statistic = name.partition(".")
        found = [
            row.value for key, row in rows.items() if key == (metric, statistic) or (not statistic and key[0] == metric)
        ]
        assert found == ([] if printed == "-" else [pytest.approx(float(printed), rel=1e-6)]), name
    doubts = {name for name, _ in report.parsed.doubts}
    assert set(case.doubts.split()) <= doubts and not set(case.absent.split()) & doubts


@pytest.mark.parametrize("path", SEVERAL)
def test_log_of_several_runs_gives_a_report_for_each(path: str) -> None:
    reports = find_reports(CASES / path)
    assert len(reports) == SEVERAL[path] and all(report.parsed for report in reports)


def test_every_case_is_held_by_a_test() -> None:
    named = {CASES / path for path in (*(case.path for case in READ), *SEVERAL, *TWINS, *ELSEWHERE)}
    captures = [path for path in CASES.rglob("*") if path.is_file()]
    assert captures and not [str(path) for path in captures if not {path, path.parent} & named]
    assert all(Path(path).exists() for path in named)
