"""Simulated runs of backend connections in two conditions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

import loadbook
from loadbook.analyses.balancers.page import BackendsPage
from loadbook.store.tables import RunData, load_run
from loadbook.study.reader import find_study
from mock_project import Arm, make_project

STUDIES = Path(loadbook.__file__).parents[2] / "studies"
NEAR = {"near-proxy": 0.0, "near-static": 2.0, "near-fastcgi": -0.6, "near-pooled": 0.9, "near-control": -0.7}
REMOTE = {"remote-proxy": -0.8, "remote-static": -0.8, "remote-fastcgi": -0.85, "remote-pooled": -0.75,
          "remote-control": -0.9}  # fmt: skip
TRUTH = NEAR | REMOTE | {"near-proxy-again": 0.0, "remote-proxy-again": -0.8}
PER_REQUEST = {"static": None, "pooled": 0.0003}


def counters(data: RunData) -> pd.DataFrame:
    """What the application would have counted: before and after the load of every trial."""
    rows = []
    for trial in data.trials.itertuples():
        share = PER_REQUEST.get(str(trial.treatment).split("-")[1], 1.0)
        requests = 0.0 if share is None else 9_000.0 + trial.slot
        counts = {"served_requests": requests, "accepted_connections": requests * (share or 0)}
        key = {"trial": trial.trial, "host": "app-1", "role": "app", "item": "go-app", "unit": "1"}
        for metric, value in counts.items():
            rows += [key | {"metric": metric, "t_s": t, "value": v} for t, v in ((-1.0, 7.0), (2.0, 7.0 + value))]
    return pd.DataFrame(rows)


def project(root: Path, truth: dict[str, float] | None = None, blocks: int = 10) -> BackendsPage:
    study = find_study(STUDIES, "backend-modes")
    arms = {name: Arm((truth or TRUTH)[name]) for name in study.treatments}
    more = study.model_dump(by_alias=True) | {"blocks": blocks}
    layout = make_project(root, arms, traces=False, doubt=None, **more)
    data = load_run(layout, "backend-modes")
    return BackendsPage(replace(data, traces=counters(data)))
