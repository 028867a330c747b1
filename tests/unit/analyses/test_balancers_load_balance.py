"""Requests over nodes, from the nodes' own counters: the rule, its words, and counters that lie in the way."""

from __future__ import annotations

import pandas as pd
import pytest

from loadbook.analyses.balancers.compute import NodeShares, evenness_sentence, node_shares

LABELS = {"two": "two nodes", "other": "two others", "one": "one node"}


def traces(parts: dict[str, list[tuple[float, float]]], role: str = "web", metric: str = "served_requests"):
    """Counters of nodes: host -> (before, after) of each trial."""
    rows = [
        {"trial": f"t{k}", "host": host, "role": role, "t_s": t, "metric": metric, "item": "www", "value": value}
        for host, trials in parts.items()
        for k, pair in enumerate(trials)
        for t, value in zip((-0.5, 1.5), pair, strict=True)
    ]
    return pd.DataFrame(rows)


def trials(number: int, treatment: str = "two") -> pd.DataFrame:
    return pd.DataFrame({"trial": [f"t{k}" for k in range(number)], "treatment": treatment, "valid": True})


def one(parts: dict[str, list[tuple[float, float]]], **options) -> NodeShares:
    number = len(next(iter(parts.values())))
    (found,) = node_shares(traces(parts, **options), trials(number), "web", {"two": list(parts)})
    return found


def test_load_balance_uses_counter_increases_per_node() -> None:
    found = one({"a": [(1000, 5900), (9000, 14_000)], "b": [(3, 5103), (0, 5000)]})
    assert found.shares == {"a": pytest.approx(0.495), "b": pytest.approx(0.505)}
    assert (found.trials, found.max_deviation, found.is_even) == (2, pytest.approx(0.02), True)
    assert found.text == "even to within 2\u00a0%"
    assert evenness_sentence([found], LABELS) == (
        "All nodes had equal parts of the requests, even to within 2\u00a0% in each of 2 trials."
    )


def test_load_balance_flags_one_uneven_trial() -> None:
    found = one({"a": [(0, 5000), (0, 4000)], "b": [(0, 5000), (0, 6000)]})
    assert (found.is_even, found.text) == (False, "uneven by up to 20\u00a0%")
    good = node_shares(traces({"a": [(0, 5)], "b": [(0, 5)]}), trials(1, "other"), "web", {"other": ["a", "b"]})
    assert evenness_sentence([found, *good], LABELS).startswith(
        "In two nodes a node’s part of the requests is uneven by up to 20"
    )
    assert "1 of 2 treatments even to within 5" in evenness_sentence([found, *good], LABELS)


def test_load_balance_calls_a_node_idle_if_it_only_answered_counter_readings() -> None:
    found = one({"a": [(0, 50_000)], "b": [(7, 8)], "c": [(0, 50_000)]})
    assert (found.idle_nodes, found.is_even, found.text) == (("b",), False, "nothing reached b")
    assert evenness_sentence([found], LABELS) == "Not spread: in two nodes, nothing reached b in at least one trial."


def test_load_balance_reports_missing_counts() -> None:
    lacking = traces({"a": [(0, 10)], "b": [(0, 10)]})
    (found,) = node_shares(lacking[lacking["host"] == "a"], trials(1), "web", {"two": ["a", "b"]})
    assert (found.is_counted, found.is_even, found.text) == (False, False, "not counted")
    assert evenness_sentence([found], LABELS) == "Not counted: no service reported how many requests it answered."
    assert not one({"a": [(0, 10)], "b": [(0, 10)]}, metric="accepted_connections").is_counted
    assert not one({"a": [(0, 10)], "b": [(0, 10)]}, role="balancer").is_counted  # on the node's host, yet not the node
    assert not one({"a": [(0, 0)], "b": [(0, 0)]}).is_counted


def test_load_balance_ignores_invalid_trials() -> None:
    reported = trials(2)
    reported.loc[1, "valid"] = False
    (found,) = node_shares(traces({"a": [(0, 5), (0, 9)], "b": [(0, 5), (0, 1)]}), reported, "web", {"two": ["a", "b"]})
    assert (found.trials, found.max_deviation) == (1, 0)
    assert found.text == "even to within 1\u00a0%"


def test_load_balance_of_one_node_is_its_total() -> None:
    (found,) = node_shares(traces({"a": [(0, 10)]}), trials(1, "one"), "web", {"one": ["a"]})
    assert evenness_sentence([found], LABELS) == "One node only: no spread."
