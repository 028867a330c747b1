"""JMeter 5: closed loop, or open at a mean rate, a thread a connection (apache/jmeter, formats.md section 4).

`requests` are samples with an answer of any status; `ok` those of 2xx or 3xx that JMeter calls a success. `latency` is
JMeter's elapsed (from the start of the request, connecting included, to the last byte), of every sample, failed ones
included, in whole milliseconds; `ttfb` is its Latency. `duration` is first start to last end of the samples, so that
the start of the JVM is not load. Transaction rows and sub-results are in no total.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from loadbook.core.errors import ToolError
from loadbook.design.workload import Workload
from loadbook.tools import jmeter_plan, jmeter_results, per_second, plan
from loadbook.tools.base import ToolOutput, ParsedReport, Target
from loadbook.tools.jmeter_results import RESULTS_FILE

PLAN_FILE, LOG_FILE = "plan.jmx", "jmeter.log"
RESERVED_OPTIONS = (
    *(
        "-n",
        "--nongui",
        "-t",
        "--testfile",
        "-l",
        "--logfile",
        "-j",
        "--jmeterlogfile",
        "-f",
        "--forceDeleteResultFile",
    ),
    *("-e", "--reportatendofloadtests", "-o", "--reportoutputfolder", "-g", "--reportonly", "-v", "--version"),
    *("-H", "--proxyHost", "-P", "--proxyPort", "-E", "--proxyScheme"),
    *("-Dhttp.proxy", "-Dhttps.proxy", "-DsocksProxy"),
    *("-h", "--help", "-?", "-r", "--runremote", "-R", "--remotestart", "-s", "--server"),
)
# of jmeter.save.saveservice: what every results file of ours has, whatever user.properties of a host says
SAVED_COLUMNS = (
    *("time", "label", "response_code", "response_message", "thread_name", "successful", "bytes", "thread_counts"),
    *("latency", "connect_time", "assertion_results_failure_message", "subresults"),
)
UNSAVED_COLUMNS = ("data_type", "sent_bytes", "url", "filename", "hostname", "encoding", "idle_time", "sample_count")
SAVE_SETTINGS = {
    "output_format": "csv",
    "default_delimiter": ",",
    "print_field_names": "true",
    "timestamp_format": "ms",
    "autoflush": "false",
    **dict.fromkeys(SAVED_COLUMNS, "true"),
    **dict.fromkeys(UNSAVED_COLUMNS, "false"),
}
PINNED_PROPERTIES = {
    **{f"jmeter.save.saveservice.{name}": value for name, value in SAVE_SETTINGS.items()},
    "sampleresult.timestamp.start": "true",
    "summariser.name": "summary",
    "httpclient.reset_state_on_thread_group_iteration": "false",
}
OLDEST_MAJOR_VERSION = 5  # of older ones, the plans' timers and -f are not known to work
DEBIAN_NOTE = "Debian's package jmeter 2.13 cannot load any plan (its xstream forbids JMeter's own classes), and ends with 0"


class JMeter:
    """The tool jmeter; see the module's first lines for what its numbers mean."""

    name = "jmeter"
    binary = "jmeter"
    install_hint = "unpack Apache JMeter 5.6.3 and set JMETER_HOME or PATH for ssh logins; in the lab: make jmeter"
    streamed_inputs = ("stdout", "files")
    load_models = frozenset({"closed", "open"})
    known_versions = ("5",)
    version_argv: tuple[str, ...] = ("jmeter", "-v", "-j", "/dev/null")
    extra_timeout_s = 30.0  # a JVM on one busy CPU

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``5.6.3``; ToolError for one too old to be used, such as Debian's."""
        output = (stdout + stderr).decode(errors="replace")
        match = re.search(r"^(?:Version|.*\\_\\) +(\d+\.\d+\S*)", output, re.MULTILINE)
        if not match:
            raise ToolError(f"jmeter: no version in {output[:80]!r}", self.install_hint)
        if int(match[1].partition(".")[0]) < OLDEST_MAJOR_VERSION:
            broken = f": {DEBIAN_NOTE}" if match[1].startswith("2.") else ""
            raise ToolError(f"jmeter {match[1]} is too old{broken}", self.install_hint)
        return match[1]

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return JMeter's argument list; its load stands in properties, which the plan reads.

        -f, since JMeter appends to results of a warm-up. `extra` may hold properties (``-Jramp=5``) and what a plan of
        your own reads.
        """
        plan.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests", "think_time_s", "plan"))
        if workload.threads not in (1, workload.connections):
            raise ToolError("jmeter has a thread for each connection", "leave threads out")
        jmeter_plan.plan_xml(workload)
        seconds = plan.whole_seconds(self, "duration", duration_s)
        properties = jmeter_plan.load_properties(workload, target, seconds)
        for word in workload.extra:
            name = word.removeprefix("-J").partition("=")[0]
            if word.startswith("-J") and name in properties.keys() | PINNED_PROPERTIES.keys():
                raise ToolError(f"workload.extra has {word!r}, but {name} is set by loadbook", "drop it")
        argv = ["jmeter", "-n", "-f", "-t", PLAN_FILE, "-l", RESULTS_FILE, "-j", LOG_FILE]
        return [*argv, *(f"-J{name}={value}" for name, value in (PINNED_PROPERTIES | properties).items()), *workload.extra]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the plan: the user's own, or one of a single request."""
        return {PLAN_FILE: jmeter_plan.plan_xml(workload)}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the results and JMeter's own log."""
        return (RESULTS_FILE, LOG_FILE)

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one run from its file of samples, CSV or XML, of 2.13 to 5.6."""
        from loadbook.requests.api import summarise

        file, data = jmeter_results.find_results(output)
        properties = jmeter_results.command_properties(output)
        figures = summarise(data, self.name, file=file, properties=properties)
        jmeter_results.check_against_summary(file, figures, jmeter_results.summary_totals(output))
        rate = (properties or {}).get("rate", "")
        offered = float(rate) if re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", rate) else None
        return ParsedReport(
            tuple(jmeter_results.measurements(figures, offered)),
            tuple(per_second.per_second_samples(figures)),
            tuple(jmeter_results.result_doubts(file, figures, output)),
            jmeter_results.times_us(figures),
            jmeter_results.sample_span(figures),
            {name: n for name, n in figures.damage_counts.items() if name in jmeter_results.REJECTED_DAMAGE},
        )


TOOL = JMeter()
