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
from loadbook.tools.base import Captured, Parsed, Target
from loadbook.tools.jmeter_results import RESULTS

PLAN, LOG = "plan.jmx", "jmeter.log"
OWNED = (
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
COLUMNS = (
    *("time", "label", "response_code", "response_message", "thread_name", "successful", "bytes", "thread_counts"),
    *("latency", "connect_time", "assertion_results_failure_message", "subresults"),
)
LEFT_OUT = ("data_type", "sent_bytes", "url", "filename", "hostname", "encoding", "idle_time", "sample_count")
SAVED = {
    "output_format": "csv",
    "default_delimiter": ",",
    "print_field_names": "true",
    "timestamp_format": "ms",
    "autoflush": "false",
    **dict.fromkeys(COLUMNS, "true"),
    **dict.fromkeys(LEFT_OUT, "false"),
}
PINNED = {
    **{f"jmeter.save.saveservice.{name}": value for name, value in SAVED.items()},
    "sampleresult.timestamp.start": "true",
    "summariser.name": "summary",
    "httpclient.reset_state_on_thread_group_iteration": "false",
}
OLDEST = 5  # of older ones, the plans' timers and -f are not known to work
DEBIAN = "Debian's package jmeter 2.13 cannot load any plan (its xstream forbids JMeter's own classes), and ends with 0"


class JMeter:
    """The tool jmeter; see the module's first lines for what its numbers mean."""

    name = "jmeter"
    binary = "jmeter"
    get = "unpack Apache JMeter 5.6.3 and set JMETER_HOME or PATH for ssh logins; in the lab: make jmeter"
    streams = ("stdout", "files")
    load_models = frozenset({"closed", "open"})
    known = ("5",)
    version_argv: tuple[str, ...] = ("jmeter", "-v", "-j", "/dev/null")
    spare_s = 30.0  # a JVM on one busy CPU

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, ``5.6.3``; ToolError for one too old to be used, such as Debian's."""
        said = (stdout + stderr).decode(errors="replace")
        match = re.search(r"^(?:Version|.*\\_\\) +(\d+\.\d+\S*)", said, re.MULTILINE)
        if not match:
            raise ToolError(f"jmeter: no version in {said[:80]!r}", self.get)
        if int(match[1].partition(".")[0]) < OLDEST:
            broken = f": {DEBIAN}" if match[1].startswith("2.") else ""
            raise ToolError(f"jmeter {match[1]} is too old{broken}", self.get)
        return match[1]

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return JMeter's argument list; its load stands in properties, which the plan reads.

        -f, since JMeter appends to results of a warm-up. `extra` may hold properties (``-Jramp=5``) and what a plan of
        your own reads.
        """
        plan.check(self, workload, OWNED, able=("requests", "think_time_s", "plan"))
        if workload.threads not in (1, workload.connections):
            raise ToolError("jmeter has a thread for each connection", "leave threads out")
        jmeter_plan.text(workload)
        seconds = plan.whole_seconds(self, "duration", duration_s)
        own = jmeter_plan.properties(workload, target, seconds)
        for word in workload.extra:
            name = word.removeprefix("-J").partition("=")[0]
            if word.startswith("-J") and name in own.keys() | PINNED.keys():
                raise ToolError(f"workload.extra has {word!r}, but {name} is set by loadbook", "drop it")
        argv = ["jmeter", "-n", "-f", "-t", PLAN, "-l", RESULTS, "-j", LOG]
        return [*argv, *(f"-J{name}={value}" for name, value in (PINNED | own).items()), *workload.extra]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the plan: the user's own, or one of a single request."""
        return {PLAN: jmeter_plan.text(workload)}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the results and JMeter's own log."""
        return (RESULTS, LOG)

    def parse(self, captured: Captured) -> Parsed:
        """Return the rows of one run from its file of samples, CSV or XML, of 2.13 to 5.6."""
        from loadbook.requests.api import summarise

        file, data = jmeter_results.find(captured)
        asked = jmeter_results.properties(captured)
        figures = summarise(data, self.name, file=file, properties=asked)
        jmeter_results.check(file, figures, jmeter_results.totals(captured))
        rate = (asked or {}).get("rate", "")
        offered = float(rate) if re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", rate) else None
        return Parsed(
            tuple(jmeter_results.rows(figures, offered)),
            tuple(per_second.ended(figures)),
            tuple(jmeter_results.doubts(file, figures, captured)),
            jmeter_results.times_us(figures),
            jmeter_results.span(figures),
            {name: n for name, n in figures.damaged.items() if name in jmeter_results.REJECTED},
        )


TOOL = JMeter()
