"""Claims about what hosts used, judged by a recorded run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from claim_runs import run_of
from loadbook.analyses.claims.checks import check_claims
from loadbook.store.tables import RunData, load_run
from loadbook.study.model import Claim, Published
from recorded_run import STUDY, ingested_run

GIB = 1024**3


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> RunData:
    return load_run(ingested_run(tmp_path_factory.mktemp("claims")), STUDY)


def assessed(data, **changes):
    arm = "baseline-auto"
    claim = Claim(**{"claim": "c", "kind": "resource", "treatment": arm, "against": arm, "role": "web"} | changes)
    study = data.study.model_copy(update={"published": Published(source="s", claims=(claim,))})
    return check_claims(study, data)[0]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"resource": "cpu", "used": (0.9, 1.0)}, "holds"),
        ({"resource": "cpu", "used": (0.0, 0.5)}, "contradicted"),
        ({"resource": "cpu", "used": (0.985, 1.0)}, "undecided"),
        ({"resource": "cpu", "used": (0.95, 1.0), "role": "driver"}, "contradicted"),
        ({"resource": "cpu", "used": (0.9, 1.0), "role": "balancer"}, "unchecked"),
        ({"resource": "network", "used": (0.9, 1.0)}, "unchecked"),
        ({"resource": "memory", "used": (0.0, 2.0 * GIB)}, "holds"),
        ({"resource": "memory", "used": (0.0, 0.1 * GIB)}, "contradicted"),
    ],
)
def test_resource_claim_is_decided_by_measured_use(data, changes, outcome):
    found = assessed(data, **changes)
    assert found.finding.outcome == outcome, found.finding.evidence
    assert found.check.startswith("holds if the ") and found.finding.evidence
    assert bool(found.finding.short_evidence) == (outcome != "unchecked")


def test_resource_claim_sentence_states_the_amount(data):
    printed = assessed(data, resource="memory", used=(0.0, 2.0 * GIB))
    assert (
        "the web used at most 5" in printed.finding.evidence
        and "MiB of its memory, 8 trials." in printed.finding.evidence
    )
    assert printed.check == "holds if the web uses 0\xa0B to 2.0\xa0GiB of its memory in every trial"
    assert printed.article.could_show == "not known"


def test_resource_claim_without_host_metrics_is_not_checked(data):
    assert (
        assessed(replace(data, traces=data.traces.iloc[:0]), resource="cpu", used=(0.9, 1.0)).finding.outcome
        == "unchecked"
    )
    bare = run_of(data.study, {"baseline-auto": {}, "auto-nopush": {}})
    assert assessed(bare, resource="cpu", used=(0.9, 1.0)).finding.outcome == "unchecked"


@pytest.mark.parametrize("changes", [{}, {"resource": "cpu"}, {"resource": "cpu", "used": (1.0, 0.5)}])
def test_resource_claim_requires_its_keys_in_the_study_file(changes):
    with pytest.raises(ValidationError, match=r"needs|range"):
        Claim(**{"claim": "c", "kind": "resource", "treatment": "a", "against": "a", "role": "web"} | changes)
