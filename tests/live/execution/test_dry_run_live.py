"""`loadbook run --dry-run`: nothing is touched, every study is shown, and a real run asks what was shown."""

from __future__ import annotations

from dry_run_transcripts import run_held_to_dry_run
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from recorded_run import with_studies

SMALL = """
include = "aa.toml"
name = "small"
execution = "plain"
blocks = 1

[workload]
warmup_s = 0.2

[reset]
time_wait_sockets = 1000000
"""


def test_dry_run_lists_the_commands_of_the_real_run(lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    (layout.studies / "small.toml").write_text(SMALL)
    run_held_to_dry_run(layout, "small", layout.run("small", run_study(layout, RunRequest("small", lab.hosts_file))))


def test_dry_run_lists_the_commands_of_a_real_interleaved_block(lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    (layout.studies / "small.toml").write_text(SMALL.replace('"plain"', '"interleaved"'))
    run_held_to_dry_run(layout, "small", layout.run("small", run_study(layout, RunRequest("small", lab.hosts_file))))
