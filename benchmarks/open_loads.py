"""Open loads of several arms by one generator: what slices of which length tell, simulated and measured.

    python benchmarks/open_loads.py simulate --blocks 100   # servers and hosts whose truth is known; 5 minutes
    python benchmarks/open_loads.py measure --rates 1000,4000   # nginx and vegeta on this machine; 40 minutes

`measure` starts three nginx: a and b are equal, c writes four access logs. In every block each way of sharing vegeta's
requests gets an attack of 9 s on fresh servers, in random order. It prints tables as Markdown; `--rows` keeps the rows.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from loadbook.hosts.shell import search_path
from simulated.open_loads import PERCENTILES, SERVERS, SHARES, find_all

ARMS, BLOCK_S, FIRST_PORT = ("a", "b", "c"), 9, 8300
PLAIN, REQUEST = "plain", "1"
LENGTHS_MS = (5, 10, 20, 50, 100, 200)
LOGS = 4  # access logs of arm c
CONF = """worker_processes 1; worker_rlimit_nofile 10000; error_log stderr; pid {folder}/{arm}.pid; daemon off;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 10000000; {temp}
  server {{ listen 127.0.0.1:{port}; root {folder}/www; {logs} }}
}}
"""
NAMES = ("start_ns", "code", "latency_ns", "seq", "url")
COLUMNS = (0, 1, 2, 8, 10)


class Attack(NamedTuple):
    """Rows of an attack in the order of their places in its schedule, and CPU seconds of each arm's server.

    Columns of `rows`: `latency_s` from the place in the schedule, `arm` (0, 1, 2), `seq`.
    """

    way: str
    block: int
    rows: pd.DataFrame
    cpu_s: list[float]


@contextmanager
def servers(folder: Path) -> Iterator[list[int]]:
    """Run a server for each arm; yield the ids of their worker processes."""
    folder.chmod(0o755)  # workers of a root's nginx are another user
    (folder / "www").mkdir(exist_ok=True)
    (folder / "www" / "index.html").write_text("x" * 1024)
    nginx, masters = shutil.which("nginx", path=search_path()), []
    assert nginx, "nginx is not installed"
    temp = "".join(f"{name}_temp_path {folder}/temp; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    try:
        for number, arm in enumerate(ARMS):
            logs = "".join(f"access_log {folder}/{arm}{k}.log; " for k in range(LOGS)) if arm == "c" else ""
            text = CONF.format(folder=folder, arm=arm, port=FIRST_PORT + number, logs=logs, temp=temp)
            (folder / f"{arm}.conf").write_text(text)
            argv = [nginx, "-e", "stderr", "-p", str(folder), "-c", str(folder / f"{arm}.conf")]
            masters.append(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
        time.sleep(0.5)
        children = [Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split() for one in masters]
        yield [int(own[0]) for own in children]
    finally:
        for master in masters:
            master.send_signal(signal.SIGTERM)
            master.wait()


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split(maxsplit=1)[0]) / 1e9


def requests_of_slice(way: str, rate: int) -> int:
    """Return the number of requests in a slice of a length such as "50 ms"."""
    return max(1, round(int(way.split(maxsplit=1)[0]) * rate / 1000))


def arms_in_order(way: str, requests: int, rate: int, draw: random.Random) -> list[int]:
    """Return the arm of each request: "plain", "1" (every request) or a length such as "50 ms"."""
    count = {PLAIN: requests // len(ARMS), REQUEST: 1}.get(way) or max(
        1, round(int(way.split(maxsplit=1)[0]) * rate / 1000)
    )
    order: list[int] = []
    while len(order) < requests:
        for arm in draw.sample(range(len(ARMS)), len(ARMS)):
            order += [arm] * count
    return order[:requests]


def attack(folder: Path, workers: Sequence[int], way: str, block: int, rate: int, draw: random.Random) -> Attack:
    """Run one attack of BLOCK_S seconds after a warm-up of a second, and return its rows."""
    targets, results = folder / "targets", folder / "results.bin"
    vegeta = shutil.which("vegeta", path=search_path())
    assert vegeta, "vegeta is not installed"

    def run(seconds: int, name: str) -> list[int]:
        order = arms_in_order(name, rate * seconds, rate, draw)
        targets.write_text("".join(f"GET http://127.0.0.1:{FIRST_PORT + arm}/\n" for arm in order))
        argv = [vegeta, "attack", f"-rate={rate}/1s", f"-duration={seconds}s", "-max-body=0", "-http2=false"]
        subprocess.run([*argv, f"-targets={targets}", f"-output={results}"], check=True)
        return order

    run(1, REQUEST)
    before = [_cpu_s(pid) for pid in workers]
    run(BLOCK_S, way)
    cpu_s = [_cpu_s(pid) - cpu for pid, cpu in zip(workers, before, strict=True)]
    encoded = subprocess.run([vegeta, "encode", "-to", "csv", str(results)], check=True, stdout=subprocess.PIPE)
    (folder / "rows.csv").write_bytes(encoded.stdout)
    raw = pd.read_csv(folder / "rows.csv", header=None, usecols=list(COLUMNS))
    raw.columns = pd.Index(NAMES)
    assert (raw["code"] == 200).all(), "a request failed"
    due_ns = raw["seq"] * (1_000_000_000 // rate)
    due_ns += (raw["start_ns"] - due_ns).min()
    rows = pd.DataFrame({
        "seq": raw["seq"],
        "arm": raw["url"].str.extract(r":(\d+)/")[0].astype(int) - FIRST_PORT,
        "latency_s": (raw["start_ns"] + raw["latency_ns"] - due_ns) / 1e9,
    })  # fmt: skip
    return Attack(way, block, rows.sort_values("seq", ignore_index=True), cpu_s)


def ways_at(rate: int) -> list[str]:
    """Return the ways that a rate allows: a slice has two requests or more."""
    return [PLAIN, REQUEST, *(f"{ms} ms" for ms in LENGTHS_MS if ms * rate >= 2000)]


def measure(rate: int, blocks: int, keep: Path | None) -> list[Attack]:
    """Return the attacks of every way in every block."""
    draw, attacks = random.Random(rate), []
    for block in range(blocks):
        for way in draw.sample(ways_at(rate), len(ways_at(rate))):
            with tempfile.TemporaryDirectory() as name, servers(Path(name)) as workers:
                attacks.append(attack(Path(name), workers, way, block, rate, draw))
                if keep:
                    file = keep / f"{rate}-{way.replace(' ', '')}-{block}.parquet"
                    attacks[-1].rows.assign(cpu_s=attacks[-1].rows["arm"].map(dict(enumerate(attacks[-1].cpu_s)))
                    ).to_parquet(file)  # fmt: skip
        print(f"{rate}/s: block {block + 1} of {blocks}", flush=True)
    return attacks


def values_of(one: Attack) -> pd.DataFrame:
    """Return a row for each arm of an attack: its percentiles (s), and CPU seconds for each response."""
    rows = []
    for arm in range(len(ARMS)):
        own = one.rows.loc[one.rows["arm"] == arm, "latency_s"]
        values = dict(zip((f"p{p:g}" for p in PERCENTILES), np.percentile(own, PERCENTILES), strict=True))
        rows.append({"way": one.way, "block": one.block, "arm": arm, **values, "cpu": one.cpu_s[arm] / len(own)})
    return pd.DataFrame(rows)


def print_measured(attacks: Sequence[Attack], rate: int) -> None:
    """Print the scatter of log ratios in a block, the known cost, and how the start of a slice differs."""
    table = pd.concat([values_of(one) for one in attacks])
    metrics = [*(f"p{p:g}" for p in PERCENTILES), "cpu"]
    print(f"\n{rate}/s: SD of a block's log ratio, b to a | c to b, and c to b with its 95 % interval\n")
    print(f"| way | {' | '.join(metrics)} | p50, cpu of a (us) |\n|---|{'---|' * (len(metrics) + 1)}")
    for way in ways_at(rate):
        logs = np.log(table[table["way"] == way].pivot(index="block", columns="arm", values=metrics))
        cells = []
        for metric in metrics:
            same, cost = logs[metric][1] - logs[metric][0], logs[metric][2] - logs[metric][1]
            half = 2.26 * cost.std() / len(cost) ** 0.5
            cells.append(f"{same.std():.1%} / {cost.std():.1%}; {cost.mean():+.1%} ± {half:.1%}")
        level = ", ".join(f"{1e6 * np.exp(logs[metric][0].mean()):.0f}" for metric in ("p50", "cpu"))
        print(f"| {way} | {' | '.join(cells)} | {level} |")
    _print_starts(attacks, rate)


def _print_starts(attacks: Sequence[Attack], rate: int) -> None:
    """Print the median latency at places in a slice, beside that of its second half, and by the arm before."""
    print("\nmedian latency at a place of a slice to that in its second half (after arm c to after others)\n")
    places = (0, 1, 2, 4, 8, 16, 32)
    print(f"| slice | {' | '.join(f'{place}' for place in places)} |\n|---|{'---|' * len(places)}")
    for way in [own for own in ways_at(rate) if own.endswith("ms")]:
        count = requests_of_slice(way, rate)
        rows = pd.concat([_with_places(one.rows, count) for one in attacks if one.way == way])
        rows = rows[rows["arm"] < 2]
        late = rows.loc[rows["place"] >= count // 2, "latency_s"].median()
        cells = []
        for place in [own for own in places if own < count]:
            here = rows[rows["place"] == place]
            after = [here.loc[(here["before"] == 2) == is_c, "latency_s"].median() for is_c in (True, False)]
            cells.append(f"{here['latency_s'].median() / late:.2f} ({after[0] / after[1]:.2f})")
        print(f"| {way} | {' | '.join(cells)} |")


def _with_places(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return rows with their `place` in the slice and the arm `before`; those at the wrong side of an edge are out."""
    number = rows["seq"] // count
    arm_of = rows["arm"].groupby(number).median()
    rows = rows.assign(place=rows["seq"] % count, before=number.sub(1).map(arm_of), slice_arm=number.map(arm_of))
    return rows[(rows["arm"] == rows["slice_arm"]) & (rows["before"] != rows["arm"]) & rows["before"].notna()]


def print_simulated(blocks: int) -> None:
    """Print what each way tells about servers at shares of their capacity."""
    names = [f"p{percent:g}" for percent in PERCENTILES]
    print("Which percentile of the server alone is told as p50 ...; SD of a block to that of plain trials; overruns\n")
    columns = [*names, *(f"SD {own}" for own in names), "overrun", "doubted"]
    print(f"| server | load | turns | {' | '.join(columns)} |")
    print(f"|---|---|---|{'---|' * (2 * len(names) + 2)}")
    for server in SERVERS:
        for share in SHARES:
            for own in find_all(server, share, blocks, seed=1):
                told = " | ".join(f"{percent:.4g}" for percent in own.percent)
                sd = " | ".join(f"{ratio:.2f}" for ratio in own.sd)
                print(
                    f"| {server} | {share:.0%} | {own.way} | {told} | {sd} | {own.overrun:.3f} | {own.doubted:.0%} |",
                    flush=True,
                )


def main() -> None:
    """Run the command of the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "measure"))
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--rates", default="1000")
    parser.add_argument("--rows", type=Path)
    args = parser.parse_args()
    if args.what == "simulate":
        print_simulated(args.blocks)
    if args.what == "measure":
        for rate in map(int, args.rates.split(",")):
            print_measured(measure(rate, args.blocks, args.rows), rate)


if __name__ == "__main__":
    main()
