"""What an attempt that was cut off left on the hosts: found by the names of its jobs, stopped, removed."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.trials.bench import Testbed
from loadbook.trials.load import remove_job_folder
from loadbook.trials.names import job_names, service_job_name
from loadbook.trials.stage import DELAY_ROLE

STALE_JOB_GRACE_S = 1.0


def remove_stale_jobs(testbed: Testbed, stems: Sequence[str]) -> None:
    """Stop the jobs of attempts and remove what they left, on every host; HostError for one that cannot be reached.

    Parameters
    ----------
    stems : what the names of an attempt's jobs begin with.
    """
    testbed.map(lambda alias: _remove_stale_jobs_on(testbed, alias, stems), testbed.hosts)


def _remove_stale_jobs_on(testbed: Testbed, alias: str, stems: Sequence[str]) -> None:
    host, roles = testbed.hosts[alias], (*testbed.plan.study.roles, DELAY_ROLE)
    for stem in stems:
        for name in job_names(stem, roles):
            host.stop(name, grace_s=STALE_JOB_GRACE_S)
            remove_job_folder(host, name)
        for role in roles:
            host.remove(f"{host.workdir}/services/{service_job_name(stem, role)}")
