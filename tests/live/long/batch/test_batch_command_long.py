"""`loadbook batch`: real workers, kernels and a recorded run; what is kept, said and returned, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from batch_projects import BOTH, REPLAY, batch_file, kept, project_of_replays, write
from controller_processes import loadbook
from loadbook.batch.index import HOME_LINK
from loadbook.report import notebooks
from loadbook.report.html import forbidden_content
from loadbook.store.paths import Layout
from recorded_run import INCLUDED, STUDY
from waiting import wait_until

PATIENCE_S = 200  # kernels of a machine that is busy come up slowly
# says who it is, and waits to be killed, the first time that it is executed
WAITS = """import os, time, pathlib
where = pathlib.Path(r'{}')
if not where.exists(): where.write_text(str(os.getpid())); time.sleep(60)"""


@pytest.fixture
def layout(tmp_path):
    return project_of_replays(tmp_path / "home")


def runs(layout: Layout) -> dict[str, int]:
    return {name: len(layout.runs(name)) for name in ("first", "second")}


def test_batch_runs_and_reports_every_entry(layout):
    done = loadbook(layout, "batch", str(batch_file(layout, *BOTH)))
    out, err = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, err
    folder = layout.batch("nightly")
    names = ("first-1-blocks-hosts", "second-1-blocks-ok_per_s-hosts", "second-1-blocks-latency-hosts")
    made = {f"{name}{end}" for name in names for end in (".html", ".ipynb")}
    assert {path.name for path in folder.iterdir()} == made | {"batch.json", "index.html", ".lock"}
    assert all(notebooks.read_sentinel(folder / name) for name in made if name.endswith("ipynb"))
    assert runs(layout) == {"first": 1, "second": 1}
    assert "4 of 4" in out and "▲ one is faster by 6 %." in out and "3 of 3 done; exit code 0" in out
    assert f"page: {folder / 'index.html'}" in out
    page = (folder / "index.html").read_text()
    assert forbidden_content(page, [HOME_LINK]) == []
    assert 'href="second-1-blocks-latency-hosts.html"' in page and 'href="second-1-blocks-latency-hosts.ipynb"' in page
    assert 'href="batch/nightly/index.html"' in (layout.reports / "index.html").read_text()
    assert [row["run"] for row in kept(layout)["entries"][1:]] == layout.runs("second") * 2


def test_batch_interrupted_is_resumed_by_the_same_command(layout, tmp_path):
    write(layout, WAITS.format(tmp_path / "pid"))
    words = ("batch", str(batch_file(layout, *BOTH)), "--jobs", "1")
    first = loadbook(layout, *words)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), PATIENCE_S)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 130, err
    assert "stopped; the same command goes on where it was" in err and "Traceback" not in err
    assert [row["state"] for row in kept(layout)["entries"]] == ["stopped", "waiting", "waiting"]
    second = loadbook(layout, *words)
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, err
    assert "going on with the round of" in err and "0 of 3 entries are done" in err
    assert "is complete already" in err
    assert runs(layout) == {"first": 1, "second": 1}


def test_batch_with_killed_jupyter_kernel_repeats_only_that_report(layout, tmp_path):
    write(layout, WAITS.format(tmp_path / "pid"))
    path = batch_file(layout, *BOTH)
    first = loadbook(layout, "batch", str(path), "--jobs", "1")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), PATIENCE_S)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    out, err = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 3, err
    assert "notebook swift: cell 3 lost its kernel" in out
    folder = layout.batch("nightly")
    assert (folder / "first-1-blocks-hosts.failed.ipynb").is_file() and not (
        folder / "first-1-blocks-hosts.ipynb"
    ).exists()
    page = (folder / "index.html").read_text()
    assert "cell 3 lost its kernel" in page and 'href="first-1-blocks-hosts.failed.ipynb"' in page
    assert [row["state"] for row in kept(layout)["entries"]] == ["failed", "done", "done"]
    again = loadbook(layout, "batch", str(path), "--failed")
    _, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, err
    assert "2 of 3 entries are done" in err
    assert runs(layout) == {"first": 1, "second": 1}
    assert not (folder / "first-1-blocks-hosts.failed.ipynb").exists()


def test_batch_killed_leaves_no_process_and_is_resumed(layout, tmp_path):
    write(layout, WAITS.format(tmp_path / "pid"))
    words = ("batch", str(batch_file(layout, *BOTH)), "--jobs", "1")
    first = loadbook(layout, *words)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), PATIENCE_S)
    kernel, workers = int((tmp_path / "pid").read_text()), children(first.pid)
    assert workers
    first.kill()
    first.wait(timeout=20)
    wait_until(lambda: not any(map(alive, [*workers, kernel])))
    second = loadbook(layout, *words)
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, err
    assert "going on with the round of" in err
    assert runs(layout) == {"first": 1, "second": 1}


def test_batch_refuses_a_second_concurrent_call(layout, tmp_path):
    write(layout, WAITS.format(tmp_path / "pid"))
    words = ("batch", str(batch_file(layout, *BOTH)))
    first = loadbook(layout, *words)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), PATIENCE_S)
    second = loadbook(layout, *words)
    _, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, f"is in use by process {first.pid}" in err) == (2, True), err
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=PATIENCE_S) == 130


def test_batch_with_failed_ci_policy_exits_with_1(layout):
    path = layout.studies / INCLUDED
    path.write_text(path.read_text().replace('["swift"]', '["config_effects"]'))
    gate = '\n[ci]\nundecided = "fail"\nfail_on = ["faster", "slower"]\n'
    (layout.studies / "first.toml").write_text((layout.studies / "first.toml").read_text() + gate)
    file = layout.root / "nightly.toml"
    file.write_text(f'[[entry]]\nstudy = "first"\nhosts = "{REPLAY}"\n')
    done = loadbook(layout, "batch", str(file))
    out, err = done.communicate(timeout=PATIENCE_S)
    assert done.returncode == 1, out + err
    assert "✕ unacceptable" in out and "Build gate: failed." in out
    (row,) = kept(layout)["entries"]
    assert (row["state"], row["exit_code"], row["summary"]["gate"]["outcome"]) == ("done", 1, "failed")


def children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for thread in threads for one in thread.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


RECORDED = [
    ["config_effects", "-p", "metric", "latency", "-p", "level", "0.9"], ["run_quality"], ["resource_traces"],
]  # fmt: skip


@pytest.mark.parametrize("words", RECORDED, ids=lambda words: words[0])
def test_plain_papermill_executes_notebooks_on_recorded_data(tmp_path, words):
    from recorded_run import ingested_run

    home = ingested_run(tmp_path)
    name, *given = words
    command = [
        sys.executable,
        "-m",
        "papermill",
        "--no-progress-bar",
        f"notebooks/{name}.ipynb",
        str(tmp_path / "o.ipynb"),
    ]
    environment = {key: value for key, value in os.environ.items() if key != "LOADBOOK_HOME"}
    done = subprocess.run(
        [*command, "-p", "study", STUDY, *given],
        cwd=home.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert notebooks.read_sentinel(tmp_path / "o.ipynb")["study"] == STUDY
