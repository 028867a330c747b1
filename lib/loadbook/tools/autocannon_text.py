"""Table that autocannon prints without ``--json`` (`lib/printResult.js`, `lib/format.js` of 4.6 to 9.0).

- Times are the whole milliseconds of its JSON. The rate is over the run's duration, as there.
- "Req/Sec" has three digits of each second's responses: exact below 2,048, else up to 0.05 % off. So `requests` and
  `ok` are there for small rates, and where the table counts statuses. Rates are always there.
- "2xx" and "non 2xx" are exact, and without them all responses are 2xx. Redirects and errors are told apart by
  ``--renderStatusCodes`` only (doubt `non_2xx`).
- "N requests in" counts what was sent. It and the errors are thousands from 1,000 on (doubt `rounded_counts`).
- A table does not tell a rate (``-R``), whose correction adds times: loadbook must know the command.
- A table without a line of errors has none. One that was cut before that line looks the same: note `errors_unseen`,
  unless another line, or an empty one, is behind "N requests in", or all requests have a response.
- Every sample covers one second, or what ``-L`` sets; a busy driver takes them late. The duration must fit to them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadbook.tools.base import Measurement
from loadbook.tools.line_patterns import LinePattern, TextReport, printed_load, read_report

EXACT_BELOW = 2048  # its histogram of responses per second has steps of 1 below it
MEAN_STEP_S = 1e-5  # of mean and deviation, whose zeros at the end are left out: "10.5 ms"
LATE_SHARE = 0.1  # of the duration, by which samples may come late or be lost
STEP_SHARE = 1 / 2000  # of a number of responses above that, and of bytes
HEAD = r"Running (?:(?P<asked>\d+(?:\.\d+)?)s|(?P<amount>\d+) requests) test @ "
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
# column of the table -> statistic
TIMES = {"p50": "p50", "p97_5": "p97.5", "p99": "p99", "avg": "mean", "sd": "sd", "max": "max"}
MORE_TIMES = {"75": "p75", "90": "p90", "99.9": "p99.9"}  # of -l
SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_MS, _MEAN, _BYTES = r"\d+(?:\.\d{1,2})? ms", _NUMBER + r"(?:\.\d{1,2})?", r"\d+(?:\.\d+)? [kMGTP]?B"


def _cells(content: Sequence[tuple[str, str]]) -> str:
    """Return the regular expression of the cells of a row, by (name, regular expression) of each."""
    return "".join(rf" (?P<{name}>{regex}) *│" for name, regex in content)


PATTERNS = (
    LinePattern("head", "Running 2s test @ http://127.0.0.1:8080/", HEAD, r"(?P<url>\S.*)"),
    LinePattern(
        "load",
        "10 connections",
        r"(?P<connections>\d+) connections",
        r"(?: with (?P<pipelining>\d+) pipelining factor)?",
    ),
    LinePattern("threads", "2 workers", r"(?P<workers>\d+) workers", optional=True),
    LinePattern(
        "latency_head",
        "│ Stat    │ 2.5% │ 50%  │ 97.5% │ 99%   │ Avg    │ Stdev   │ Max   │",
        r"│ Stat +│ 2\.5%",
        r" +│ 50% +│ 97\.5% +│ 99% +│ Avg +│ Stdev +│ Max +│",
    ),
    LinePattern(
        "latency",
        "│ Latency │ 0 ms │ 1 ms │ 19 ms │ 25 ms │ 3.6 ms │ 6.02 ms │ 93 ms │",
        r"│ Latency +│",
        _cells([(name, _MS) for name in ("p2_5", *TIMES)]),
    ),
    LinePattern(
        "rate_head",
        "│ Stat      │ 1%     │ 2.5%   │ 50%    │ 97.5%  │ Avg    │ Stdev  │ Min    │",
        r"│ Stat +│ 1%",
        r" +│ 2\.5% +│ 50% +│ 97\.5% +│ Avg +│ Stdev +│ Min +│",
    ),
    LinePattern(
        "rate",
        "│ Req/Sec   │ 1,105  │ 1,105  │ 1,105  │ 3,761  │ 2,433  │ 1,328  │ 1,105  │",
        r"│ Req/Sec +│",
        _cells(
            [(f"rate_{name}", _NUMBER) for name in ("p1", "p2_5", "p50", "p97_5")]
            + [("rate_avg", _MEAN), ("rate_sd", _MEAN), ("rate_min", _NUMBER)]
        ),
    ),
    LinePattern(
        "bytes",
        "│ Bytes/Sec │ 137 kB │ 137 kB │ 137 kB │ 466 kB │ 302 kB │ 165 kB │ 137 kB │",
        r"│ Bytes/Sec +│",
        _cells([(f"bytes_{name}", _BYTES) for name in ("p1", "p2_5", "p50", "p97_5", "avg", "sd", "min")]),
    ),
    LinePattern("codes", "│ Code │ Count │", r"│ Code +│", r" Count +│", optional=True),
    LinePattern(
        "sampled",
        "Req/Bytes counts sampled once per second.",
        r"Req/Bytes counts sampled ",
        r"(?:once per second|every (?P<interval>\d+(?:\.\d+)?) seconds)\.",
    ),
    LinePattern("samples_", "# of samples: 2", r"# of samples:", r" (?P<samples>\d+)", optional=True),
    LinePattern(
        "percentiles", "│ Percentile │ Latency (ms) │", r"│ Percentile +│", r" Latency \(ms\) +│", optional=True
    ),
    LinePattern(
        "non_2xx",
        "160 2xx responses, 40 non 2xx responses",
        r"(?P<good>\d+) (?=\dxx responses)",
        r"2xx responses, (?P<bad>\d+) non 2xx responses",
        optional=True,
    ),
    LinePattern(
        "total",
        "5k requests in 2.05s, 603 kB read",
        r"(?P<sent>\d+k?) requests in",
        rf" (?P<duration>\d+(?:\.\d+)?)s, (?P<read>{_BYTES}) read",
    ),
    LinePattern(
        "errors",
        "21 errors (0 timeouts)",
        r"(?P<failed>\d+k?) e",
        r"rrors \((?P<timeouts>\d+k?) timeouts\)",
        optional=True,
    ),
)
_CODE, _PERCENTILE = re.compile(r"│ ([1-5]\d\d) +│ (\d+) +│"), re.compile(r"│ (\d+(?:\.\d+)?) +│ (\d+(?:\.\d+)?) +│")


class Table(NamedTuple):
    """Numbers of a table.

    `answered` is None, and `responses` not whole, where the table rounds; both are None where it tells no number of
    samples. `sent` is None if rounded. `codes` has the responses by class of their status, None where that is not
    known. `good` is the number of 2xx if the table tells it. `failed`, `timeouts` and the texts of `times` are as
    printed, `read` is (bytes, text). `errors_seen` is false if a line of errors may have been cut. `load` has what
    is printed of the load.
    """

    asked_s: float | None
    limit: int
    seconds: float
    seconds_text: str
    answered: int | None
    responses: float | None
    codes: dict[str, int] | None
    good: int | None
    sent: int | None
    failed: str
    timeouts: str
    read: tuple[float, str]
    times: dict[str, str]
    errors_seen: bool
    load: dict[str, str]

    def rows(self, counted: bool, time_metric: str) -> Iterator[Measurement]:
        """Yield counts, rates and times; rates and duration unless a number of requests ended the run."""
        answered, codes, failed = self.answered, self.codes, _thousands(self.failed)
        all_good = codes == {} and self.good is None
        ok = codes.get("2xx", 0) + codes.get("3xx", 0) if codes else answered if all_good else None
        if answered is not None:
            yield Measurement("requests", "count", answered, "1", None)
        if ok is not None:
            yield Measurement("ok", "count", ok, "1", None)
        if not counted and self.responses is not None:
            yield Measurement("requests_per_s", "value", self.responses / self.seconds, "1/s", None)
            good = self.responses if all_good else ok
            if good is not None:
                yield Measurement("ok_per_s", "value", good / self.seconds, "1/s", None)
        if not counted:
            yield Measurement("duration", "value", self.seconds, "s", self.seconds_text)
        if codes is not None:
            bad = sum(codes.get(name, 0) for name in ("4xx", "5xx"))
            yield Measurement("errors", "count", failed + bad + codes.get("1xx", 0), "1", None)
            yield Measurement("errors_status", "count", bad, "1", None)
        yield Measurement("errors_timeout", "count", _thousands(self.timeouts), "1", self.timeouts)
        if self.timeouts == "0" or not self.is_rounded:
            others = failed - _thousands(self.timeouts) + (codes or {}).get("1xx", 0)
            yield Measurement("errors_other", "count", others, "1", None)
        yield from self._statuses()
        yield Measurement("bytes_read", "count", self.read[0], "B", self.read[1])
        if not counted:
            yield Measurement("bytes_per_s", "value", self.read[0] / self.seconds, "B/s", None)
        for statistic, text in self.times.items():
            step = MEAN_STEP_S if statistic in ("mean", "sd") else None
            yield Measurement(time_metric, statistic, float(text.removesuffix(" ms")) / 1000, "s", text, step)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts that only a table has, as (name, sentence)."""
        if self.codes is None:
            yield (
                "non_2xx",
                "autocannon's table has responses other than 2xx, and not their codes: errors are not known",
            )
        if not self.errors_seen:
            text = "the table ends without a line of errors, as autocannon prints it if there were none"
            yield "errors_unseen", f"{text}; a table cut before that line looks the same"
        if self.is_rounded:
            yield "rounded_counts", f"autocannon's table rounds errors to thousands: {self.failed} errors"

    @property
    def is_rounded(self) -> bool:
        """Whether the number of errors is rounded to thousands."""
        return self.failed.endswith("k")

    def _statuses(self) -> Iterator[Measurement]:
        """Yield the numbers of responses by class that are known."""
        if self.codes is None:
            yield Measurement("status_2xx", "count", self.good or 0, "1", str(self.good))
        elif self.answered is not None:
            for name, count in (dict.fromkeys(CLASSES, 0) | (self.codes or {"2xx": self.answered})).items():
                yield Measurement(f"status_{name}", "count", count, "1", None)


def has_table(lines: Sequence[str]) -> bool:
    """Return whether lines are of the tables that autocannon prints without ``--json``."""
    begins = re.compile(r"│ (?:Latency|Req/Sec|Bytes/Sec) +│|\d\S* requests in |Req/Bytes counts sampled")
    return any(begins.match(line) for line in lines)


def read_table(file: str, lines: Sequence[str]) -> Table:
    """Return the numbers of a table; ParseError if it is cut, occurs twice, or contradicts itself."""
    first = next((place for place, line in enumerate(lines) if re.match(HEAD, line)), 0)  # warm-ups are before it
    later = (place for place, line in enumerate(lines) if place > first and re.match(r"Running .* warmup @ ", line))
    lines = lines[: next(later, None)]
    text = read_report("autocannon", lines[first:], PATTERNS, file, first + 1)
    rest = lines[text.line_numbers["total"] :]
    is_last = not any(rest) and len(rest) < 2  # behind a whole last line, `rest` is one empty text
    if rest and re.fullmatch(r"\d+k?", rest[0]):
        raise text.error_at("total", "report is not complete: its line of errors is cut")
    seconds = float(text.text("duration"))
    if seconds <= 0:
        raise text.error_at("total", "a duration of 0 s")
    codes = _codes(text, lines)
    responses, answered = _responses(text, seconds, codes)
    sent, failed, timeouts = (text.text(name) if name in text else "0" for name in ("sent", "failed", "timeouts"))
    if _thousands(timeouts) > _thousands(failed):
        raise text.error_at("errors", "more time-outs than errors")
    return Table(
        asked_s=float(text.text("asked")) if "asked" in text.fields else None,
        limit=text.count("connections") * max(1, text.count("pipelining")),
        seconds=seconds,
        seconds_text=f"{text.text('duration')}s",
        answered=answered,
        responses=responses,
        codes=codes if codes or "good" not in text.fields else None,
        good=text.count("good") if "good" in text.fields else None,
        sent=None if sent.endswith("k") else int(sent),
        failed=failed,
        timeouts=timeouts,
        read=(_size(text.text("read"))[0], text.text("read")),
        times=_times(text, lines) if _decimal(text, "rate_avg") else {},
        errors_seen="errors" in text or not is_last or sent == str(answered),
        load=printed_load(text, "connections", "pipelining"),
    )


def _thousands(text: str) -> int:
    """Return a number of the last lines, which are thousands with a ``k``."""
    return 1000 * int(text[:-1]) if text.endswith("k") else int(text)


def _size(text: str) -> tuple[float, float]:
    """Return a printed number of bytes, and half a unit of its third digit."""
    number, unit = text.split()
    value = float(number)
    step = 10.0 ** (math.floor(math.log10(value)) - 2) if value >= 1 else 0.0
    return value * SIZES[unit], 0.5 * step * SIZES[unit]


def _rows(text: TextReport, lines: Sequence[str], name: str, row: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return the rows of the table below the heading `name`; [] if it is not there, ParseError if it is cut."""
    rows = []
    for line in lines[text.line_numbers[name] :] if name in text.line_numbers else ():
        if match := row.fullmatch(line):
            rows.append((match[1], match[2]))
        elif line.startswith("└"):
            break
        elif not re.fullmatch(r"├[─┼]+┤", line):
            raise text.error_at(name, f"line cut or changed: {line[:60]!r}")
    if len({key for key, _ in rows}) < len(rows):
        raise text.error_at(name, "a row is there twice")
    return rows


def _codes(text: TextReport, lines: Sequence[str]) -> dict[str, int]:
    """Return the responses by class of ``--renderStatusCodes``; {} without it, ParseError if it contradicts itself."""
    codes: dict[str, int] = {}
    for code, count in _rows(text, lines, "codes", _CODE):
        codes[f"{code[0]}xx"] = codes.get(f"{code[0]}xx", 0) + int(count)
    good, others = codes.get("2xx", 0), sum(codes.values()) - codes.get("2xx", 0)
    told = (text.count("good"), text.count("bad")) if "good" in text.fields else (good, 0)
    if codes and (good, others) != told:
        raise text.error_at("codes", f"{good} 2xx and {others} others are not those of the line below")
    return codes


def _responses(text: TextReport, seconds: float, codes: dict[str, int]) -> tuple[float | None, int | None]:
    """Return the number of responses, and the same if it is exact; ParseError if it contradicts other numbers."""
    mean, deviation = _decimal(text, "rate_avg"), _decimal(text, "rate_sd")
    told = sum(codes.values()) or (text.count("good") + text.count("bad") if "good" in text.fields else None)
    workers = text.count("workers") or 1
    samples = text.count("samples") if "samples" in text.fields else round(seconds)
    if samples % workers or not samples:
        return told, told
    samples //= workers
    _check_duration(text, samples, seconds)
    _check_rates(text, samples)
    value = mean * samples
    slack = STEP_SHARE * value + 0.011 * samples
    if told is not None and abs(told - value) > slack + 1:
        reason = f"{told} responses are not {text.text('rate_avg')} in each of {samples} samples"
        raise text.error_at("rate", f"{reason} (autocannon -x leaves some out)")
    sent = text.text("sent")
    if (told or value - slack) > _thousands(sent) + (500 if sent.endswith("k") else 0):
        raise text.error_at("total", f"{value:g} responses to {sent} requests")
    read, half = _size(text.text("read"))
    per_sample, half_per_sample = _size(text.text("bytes_avg"))
    if abs(read - per_sample * samples) > half + (half_per_sample + 0.01) * samples + STEP_SHARE * read:
        raise text.error_at("total", f"{text.text('read')} are not {text.text('bytes_avg')} in {samples} samples")
    if told is not None:
        return told, told
    most = mean + (deviation + 0.01) * math.sqrt(samples - 1)  # no value is further from a mean
    whole = math.floor(value + 1e-6)
    if most >= EXACT_BELOW or samples >= 99:
        return value, None
    if value - whole > 0.0101 * samples:
        raise text.error_at("rate", f"{text.text('rate_avg')} in each of {samples} samples is no whole number")
    return whole, whole


def _decimal(text: TextReport, name: str) -> float:
    return float(text.text(name).replace(",", ""))


def _check_duration(text: TextReport, samples: int, seconds: float) -> None:
    """Raise ParseError if the samples do not cover the duration."""
    interval = float(text.text("interval")) if "interval" in text.fields else 1.0
    if abs(seconds - samples * interval) > 0.5 * interval + LATE_SHARE * seconds:
        covered = f"{samples} samples of {interval:g} s"
        raise text.error_at("total", f"a duration of {seconds:g} s does not follow from {covered}")


def _check_rates(text: TextReport, samples: int) -> None:
    """Raise ParseError if the responses and the bytes of a sample do not ascend."""
    for kind in ("rate", "bytes"):
        read = (lambda name: _size(text.text(name))[0]) if kind == "bytes" else (lambda name: _decimal(text, name))
        inner = [read(f"{kind}_{name}") for name in ("p1", "p2_5", "p50", "p97_5")]
        mean, share = read(f"{kind}_avg"), 0.006 if kind == "bytes" else STEP_SHARE
        within = samples > 20 or inner[0] * (1 - share) - 1 <= mean <= inner[-1] * (1 + share) + 1
        if inner != sorted(inner) or not within:
            raise text.error_at(kind, f"percentiles and mean of {kind} do not ascend")


def _times(text: TextReport, lines: Sequence[str]) -> dict[str, str]:
    """Return {statistic: time as printed}; ParseError if they contradict each other."""
    times = {statistic: text.text(name) for name, statistic in TIMES.items()}
    ms = {name: float(text.text(name).removesuffix(" ms")) for name in ("p2_5", *TIMES)}
    ordered = [ms[name] for name in ("p2_5", "p50", "p97_5", "p99")]
    if ordered != sorted(ordered) or max(ordered[-1], ms["avg"]) > ms["max"] + 1:
        raise text.error_at("latency", "percentiles, mean and maximum of the latency do not ascend")
    if "percentiles" not in text:
        return times
    rows = _rows(text, lines, "percentiles", _PERCENTILE)
    more = dict(rows)
    ordered = [float(time) for _, time in rows]
    same = {"2.5": "p2_5", "50": "p50", "97.5": "p97_5", "99": "p99"}
    if not {*same, *MORE_TIMES} <= more.keys() or ordered != sorted(ordered) or ordered[-1] > ms["max"] + 1:
        raise text.error_at("percentiles", "percentiles are missing, or do not ascend to the maximum")
    if any(float(more[percent]) != ms[name] for percent, name in same.items()):
        raise text.error_at("percentiles", "percentiles are not those of the table above")
    return times | {statistic: f"{more[percent]} ms" for percent, statistic in MORE_TIMES.items()}
