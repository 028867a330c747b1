"""Time and memory to read large logs of single requests: loadbook, data-frame libraries, and JMeter's own dashboard.

Usage: .venv/bin/python benchmarks/request_logs.py [jtl|vegeta|k6] [rows, default 5000000] [repeats, default 5] [folder]
       .venv/bin/python benchmarks/request_logs.py memory [FORMAT] ROWS [folder]      loadbook alone, once

Every reader runs in a separate process, in turn; medians of wall-clock and CPU time, imports included, are printed.
loadbook reads and checks every row, writes parquet and summarises exactly by label; the libraries only summarise
(count, error share, mean, p50, p90, p99; pyarrow has approximate quantiles). duckdb_parquet and polars_parquet do
loadbook's work but the checks: they read the columns that it uses, and write parquet. The libraries are installed by
`pip install -e .[bench]`; JMeter runs if JMETER_HOME is set. A file repeats recorded rows with shifted times (and
sequence numbers); it is written to the folder and removed afterwards.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
QUANTILES = (0.5, 0.9, 0.99)
URL = "http://127.0.0.1:18190/ok"
K6_METRICS = (
    "reqs",
    "duration",
    "blocked",
    "connecting",
    "tls_handshaking",
    "sending",
    "waiting",
    "receiving",
    "failed",
)


class Format(NamedTuple):
    """A log: the tool that reads it, and how the libraries select label, error and time from it."""

    tool: str
    columns: tuple[str, ...] | None  # None: the file has a header
    label: str
    failed: str  # SQL
    time: str
    used: tuple[str, ...]  # columns that loadbook reads and checks
    rows: str = "true"  # SQL that selects the rows of requests


FORMATS = {
    "jtl": Format(
        "jmeter",
        None,
        "label",
        "not success",
        "elapsed",
        ("timeStamp", "elapsed", "label", "responseCode", "threadName", "success", "bytes", "Latency", "Connect"),
    ),
    "vegeta": Format(
        "vegeta",
        ("timestamp", "code", "latency", "sent", "received", "error", "body", "attack", "seq", "method", "url"),
        "url",
        "code not between 200 and 399",
        "latency",
        ("timestamp", "code", "latency", "received", "error", "seq", "url"),
    ),
    "k6": Format(
        "k6",
        None,
        "url",
        "status not between 200 and 399",
        "metric_value",
        ("metric_name", "timestamp", "metric_value", "error_code", "name", "status", "url"),
        "metric_name = 'http_req_duration'",
    ),
}


def write_jtl(path: Path, rows: int) -> None:
    """Write a JTL of `rows` rows by repeating the recorded rows, in order of start, with increasing times."""
    digits = 13
    head, *lines = (FIXTURES / "jmeter" / "5.6.3--locale_de.out.jtl").read_bytes().splitlines(keepends=True)
    lines.sort()
    stamps = np.array([int(line[:digits]) for line in lines])
    ends = np.cumsum([len(line) for line in lines])
    text = np.frombuffer(b"".join(lines), np.uint8).copy()
    places = (ends - [len(line) for line in lines])[:, None] + np.arange(digits)
    tens = 10 ** np.arange(digits - 1, -1, -1)
    with path.open("wb", buffering=1 << 20) as out:
        out.write(head)
        for start in range(0, rows, len(lines)):
            shifted = stamps + start // len(lines) * int(stamps[-1] - stamps[0] + 1)
            text[places] = shifted[:, None] // tens % 10 + ord("0")
            out.write(text.tobytes()[: ends[min(rows - start, len(lines)) - 1]])


def write_vegeta(path: Path, rows: int) -> None:
    """Write vegeta's results as loadbook's command leaves them: without the response headers, 20,000 a second."""
    numbers = np.arange(rows)
    latencies = 1_000_000 + numbers * 7919 % 999_983  # ns
    with path.open("w", buffering=1 << 20) as out:
        for number, latency in zip(numbers.tolist(), latencies.tolist(), strict=True):
            start = 1795383688000000000 + number * 50_000
            out.write(f"{start},200,{latency},0,12,,aGVsbG8sIGxvYWQK,,{number},GET,{URL},\n")


def write_k6(path: Path, rows: int) -> None:
    """Write points of k6: nine rows a request, times in microseconds."""
    header = (FIXTURES / "k6" / "1.8.1--points_csv.points.csv").read_text().splitlines()[0]
    with path.open("w", buffering=1 << 20) as out:
        out.write(f"{header}\n")
        for number in range(rows // len(K6_METRICS)):
            duration, stamp = 1 + number * 7919 % 999_983 / 1e6, 1795383847000000 + number * 50
            tail = f",,,,true,,GET,{URL},HTTP/1.1,default,,200,,,{URL},,\n"
            for metric in K6_METRICS:
                value = {"reqs": 1.0, "failed": 0.0, "duration": duration, "waiting": duration}.get(metric, 0.0)
                out.write(f"http_req_{metric},{stamp},{value:.6f}{tail}".replace("http_req_reqs", "http_reqs"))


WRITERS = {"jtl": write_jtl, "vegeta": write_vegeta, "k6": write_k6}


def loadbook(path: Path) -> dict[str, list[float]]:
    """Read, check, write parquet and summarise."""
    from loadbook.request_logs.read import RequestWriter, summarise

    with RequestWriter(path.with_suffix(".parquet")) as store:
        summary = summarise(path, FORMATS[path.suffix[1:]].tool, store=store)
    return {
        label: [t.attempts, t.error_share or 0, t.latency.mean_s() * 1000]
        + [t.latency.percentile_s(q * 100) * 1000 for q in QUANTILES]
        for label, t in summary.labels.items()
    }


def duckdb(path: Path) -> dict[str, list[float]]:
    """Summarise by DuckDB."""
    import duckdb

    form = FORMATS[path.suffix[1:]]
    header = f", header=false, names={[*form.columns, 'rest']}" if form.columns else ""
    found = duckdb.sql(
        f"select {form.label}, count(*), avg(case when {form.failed} then 1 else 0 end), avg({form.time}), "
        f"quantile_disc({form.time}, {list(QUANTILES)}) from read_csv('{path}'{header}) where {form.rows} "
        f"group by {form.label}"
    )
    assert found is not None
    rows = found.fetchall()
    return {label: [n, errors, mean, *quantiles] for label, n, errors, mean, quantiles in rows}


def polars(path: Path) -> dict[str, list[float]]:
    """Summarise by polars, lazily."""
    import polars as pl

    form = FORMATS[path.suffix[1:]]
    frame = pl.scan_csv(
        path, has_header=form.columns is None, new_columns=[*form.columns, "rest"] if form.columns else None
    )
    times = pl.col(form.time)
    quantiles = [times.quantile(q, "lower").alias(f"q{q}") for q in QUANTILES]
    failed = pl.sql_expr(form.failed).cast(pl.Float64).mean().alias("failed")
    found = frame.filter(pl.sql_expr(form.rows)).group_by(form.label).agg(pl.len(), failed, times.mean(), *quantiles)
    return {label: list(values) for label, *values in found.collect().rows()}


def duckdb_parquet(path: Path) -> dict[str, list[float]]:
    """Do loadbook's work by DuckDB: read the columns that it uses, summarise, and write them as parquet."""
    import duckdb

    form = FORMATS[path.suffix[1:]]
    header = f", header=false, names={[*form.columns, 'rest']}" if form.columns else ""
    duckdb.sql(f"create temp table used as select {', '.join(form.used)} from read_csv('{path}'{header})")
    duckdb.sql(f"copy (from used where {form.rows}) to '{path.with_suffix('.duckdb.parquet')}' (format parquet)")
    found = duckdb.sql(
        f"select {form.label}, count(*), avg(case when {form.failed} then 1 else 0 end), avg({form.time}), "
        f"quantile_disc({form.time}, {list(QUANTILES)}) from used where {form.rows} group by {form.label}"
    )
    assert found is not None
    return {label: [n, errors, mean, *quantiles] for label, n, errors, mean, quantiles in found.fetchall()}


def polars_parquet(path: Path) -> dict[str, list[float]]:
    """Do loadbook's work by polars: read the columns that it uses, summarise, and write them as parquet."""
    import polars as pl

    form = FORMATS[path.suffix[1:]]
    frame = pl.scan_csv(
        path, has_header=form.columns is None, new_columns=[*form.columns, "rest"] if form.columns else None
    )
    frame = frame.select(form.used)
    requests, times = frame.filter(pl.sql_expr(form.rows)), pl.col(form.time)
    quantiles = [times.quantile(q, "lower").alias(f"q{q}") for q in QUANTILES]
    failed = pl.sql_expr(form.failed).cast(pl.Float64).mean().alias("failed")
    summary = requests.group_by(form.label).agg(pl.len(), failed, times.mean(), *quantiles)
    stored = requests.sink_parquet(path.with_suffix(".polars.parquet"), compression="snappy", lazy=True)
    found, _ = pl.collect_all([summary, stored], engine="streaming")
    return {label: list(values) for label, *values in found.rows()}


def pyarrow(path: Path) -> dict[str, list[float]]:
    """Summarise by pyarrow, only the columns needed; its quantiles by group are approximate (t-digest)."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    form = FORMATS[path.suffix[1:]]
    column = next(name for name in ("success", "code", "status") if name in form.failed)
    texts = dict.fromkeys((form.label, "metric_name"), pa.dictionary(pa.int32(), pa.string()))
    wanted = [form.label, form.time, column, *["metric_name"] * (form.rows != "true")]
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=[*form.columns, "rest"] if form.columns else None),
        convert_options=csv.ConvertOptions(include_columns=wanted, column_types=texts),
    ).unify_dictionaries()
    if form.rows != "true":
        table = table.filter(pc.equal(table["metric_name"].cast(pa.string()), form.rows.split("'")[1]))
    codes = table[column]
    ok = codes if column == "success" else pc.and_(pc.greater_equal(codes, 200), pc.less(codes, 400))
    table = pa.table({"label": table[form.label], "time": table[form.time], "failed": pc.invert(ok)})
    digest = pc.TDigestOptions(q=list(QUANTILES))
    found = table.group_by("label").aggregate(
        [("time", "count"), ("failed", "mean"), ("time", "mean"), ("time", "tdigest", digest)]
    )
    return {
        row["label"]: [row["time_count"], row["failed_mean"], row["time_mean"], *row["time_tdigest"]]
        for row in found.to_pylist()
    }


def jmeter(path: Path) -> dict[str, list[float]]:
    """Run JMeter's dashboard generator, whose percentiles cover only the last 20,000 rows of each label."""
    home, out = Path(os.environ["JMETER_HOME"]).resolve(), path.with_suffix(".report")
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "text", "lang.invoke")]
    java = ["java", "-Xms1g", "-Xmx1g", *opens, "-Djava.awt.headless=true", "-jar", str(home / "bin/ApacheJMeter.jar")]
    log = ["-j", str(path.with_suffix(".log"))]
    shutil.rmtree(out, ignore_errors=True)
    command = [*java, "-g", str(path), "-o", str(out), *log]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=path.parent)  # it leaves a folder temp/ there
    told = json.loads((out / "statistics.json").read_text())
    keys = ("sampleCount", "errorPct", "meanResTime", "medianResTime", "pct1ResTime", "pct3ResTime")
    return {label: [row[key] / (100 if key == "errorPct" else 1) for key in keys] for label, row in told.items()}


READERS: dict[str, Callable[[Path], dict[str, list[float]]]] = {
    reader.__name__: reader for reader in (loadbook, duckdb, polars, pyarrow, duckdb_parquet, polars_parquet, jmeter)
}


def found(name: str, form: str) -> bool:
    """Return whether a reader is installed and reads this format."""
    if name == "jmeter" and form != "jtl":
        return False
    package = name.partition("_")[0]
    return "JMETER_HOME" in os.environ if name == "jmeter" else importlib.util.find_spec(package) is not None


class Cost(NamedTuple):
    """Wall-clock seconds, CPU seconds and peak memory in MB of one execution."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def measure(name: str, path: Path) -> tuple[Cost, dict[str, list[float]]]:
    """Return (cost, statistics by label) of one execution."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, __file__, "read", name, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    told = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{name} failed on {path}")
    wall_s = time.perf_counter() - started
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), json.loads(told)


def compare(rows: int, repeats: int, path: Path) -> None:
    """Time every reader in turn, check that counts, errors and means agree, and print medians."""
    names = [name for name in READERS if found(name, path.suffix[1:])]
    taken: dict[str, list[Cost]] = {name: [] for name in names}
    for repeat in range(repeats):
        figures = {}
        for name in names:
            cost, figures[name] = measure(name, path)
            taken[name].append(cost)
            print(f"{repeat + 1}/{repeats} {name} {cost.wall_s:.2f} s", file=sys.stderr)
        for label, (n, errors, mean, *_) in figures["loadbook"].items():
            for name in names:
                theirs = figures[name][label if len(figures[name]) > 1 else next(iter(figures[name]))]
                # milliseconds of k6 and JMeter, nanoseconds of vegeta
                unit = 1e-6 if path.suffix == ".vegeta" and name != "loadbook" else 1
                assert np.allclose([*theirs[:2], theirs[2] * unit], [n, errors, mean], rtol=1e-3), (name, label)
    medians = {name: [*map(statistics.median, zip(*costs, strict=True))] for name, costs in taken.items()}
    our_wall_s, our_cpu_s, _ = medians["loadbook"]
    print(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB, medians of {repeats}")
    for name, (wall_s, cpu_s, _) in medians.items():
        peak_mb = max(cost.peak_mb for cost in taken[name])
        shares = f"loadbook takes {our_wall_s / wall_s:.2f} of the wall time, {our_cpu_s / cpu_s:.2f} of the CPU time"
        print(f"{name:14} {wall_s:7.2f} s   CPU {cpu_s:7.2f} s   peak {peak_mb:6.0f} MB   {shares}")
    print("not here:", ", ".join(sorted(READERS.keys() - names)) or "none")


def main(*words: str) -> None:
    """Run the mode given on the command line."""
    if words[:1] == ("read",):
        print(json.dumps(READERS[words[1]](Path(words[2]))))
        return
    if words[:1] == ("write",):
        WRITERS[words[1]](Path(words[2]), int(words[3]))
        return
    alone, numbers = words[:1] == ("memory",), [word for word in words if word.isdigit()]
    form = next((word for word in words if word in FORMATS), "jtl")
    rows = int(numbers[0]) if numbers else 5_000_000
    folders = [word for word in words if not word.isdigit() and word not in (*FORMATS, "memory")]
    with tempfile.TemporaryDirectory(dir=folders[-1] if folders else None) as folder:
        path = Path(folder) / f"big.{form}"
        # in a process of its own, since the peak memory of a child is at least that of its parent
        subprocess.run([sys.executable, __file__, "write", form, str(path), str(rows)], check=True)
        if alone:
            cost, _ = measure("loadbook", path)
            print(f"{rows:,} rows, {path.stat().st_size / 1e9:.2f} GB: {cost.wall_s:.1f} s, peak {cost.peak_mb:.0f} MB")
        else:
            compare(rows, int(numbers[1]) if len(numbers) > 1 else 5, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
