"""What an attempt that was cut off left on the hosts: found by the names of its jobs, stopped, removed."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.trials.bench import Bench
from loadbook.trials.load import forget_job
from loadbook.trials.names import job_names, service_name
from loadbook.trials.stage import LINE

GRACE_S = 1.0


def clear(bench: Bench, stems: Sequence[str]) -> None:
    """Stop the jobs of attempts and remove what they left, on every host; HostError for one that cannot be reached.

    Parameters
    ----------
    stems : what the names of an attempt's jobs begin with.
    """
    bench.each(lambda alias: _clear(bench, alias, stems), bench.hosts)


def _clear(bench: Bench, alias: str, stems: Sequence[str]) -> None:
    host, roles = bench.hosts[alias], (*bench.plan.study.roles, LINE)
    for stem in stems:
        for name in job_names(stem, roles):
            host.stop(name, grace_s=GRACE_S)
            forget_job(host, name)
        for role in roles:
            host.remove(f"{host.workdir}/services/{service_name(stem, role)}")
