"""Sentences about resources: what was full by treatment and host, whether it was the driver, enough memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, format_bytes, join_words
from loadbook.stats.saturation import (
    BOTTLENECK_NAMES,
    BOTTLENECK_TIME_SHARE,
    FULL_SHARE,
    MIN_OWN_CPU_SHARE,
    bottleneck_by_treatment,
)

if TYPE_CHECKING:
    import pandas as pd

RESOURCE_NOUNS = {"cpu": "CPU", "network": "network", "memory": "memory"}
HEADROOM = 1 / FULL_SHARE  # what is used must not fill the host
GIB = 1024**3
MEMORY_SIZES_B = tuple(GIB * n for n in (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512))


def share_text(share: float) -> str:
    """Return a share as whole percent."""
    return f"{100 * share:.0f}{NBSP}%"


def headline(usage: pd.DataFrame) -> str:
    """Return the answer: the full resources, in how many treatments, and whether the driver was full."""
    if usage.empty:
        return "Not known: no monitor recorded anything while trials that count were measured."
    bottlenecks, parts = bottleneck_by_treatment(usage), []
    for letter in BOTTLENECK_NAMES:
        number = sum(own == letter for own in bottlenecks.values())
        roles = join_words(sorted(set(usage.loc[usage["bottleneck"] == letter, "role"])))
        resource = "the network" if letter == "N" else f"the {RESOURCE_NOUNS['cpu']} of the {roles}"
        parts += [f"{resource} in {_treatment_count_text(number, len(bottlenecks))}"] if number else []
    foreign = usage[(usage["share_full"] >= BOTTLENECK_TIME_SHARE) & (usage["own"] < MIN_OWN_CPU_SHARE)]
    if parts:
        start = f"At its limit: {join_words(parts)}"
    elif len(foreign):
        start = f"The CPU of the {join_words(sorted(set(foreign['role'])))} was full, mostly of other processes’ work"
    else:
        start = "Nothing that was watched was at its limit"
    return f"{start}; {_driver_phrase(usage)}."


def _treatment_count_text(number: int, total: int) -> str:
    if total == 1:
        return "the one treatment"
    return f"all {total} treatments" if number == total else f"{number} of {total} treatments"


def _driver_phrase(usage: pd.DataFrame) -> str:
    rows = usage[usage["role"].str.contains("driver") & (usage["resource"] == "cpu")]
    shares = rows["share_full"].dropna()
    if shares.empty:
        return "the driver was not watched"
    full = shares.max() >= BOTTLENECK_TIME_SHARE
    if full and (rows["own"] < MIN_OWN_CPU_SHARE).any() and not rows["bottleneck"].notna().any():
        return "nobody’s own limit was seen there"
    if full:
        return "so the tool, not only the server, may have set the numbers"
    seldom = f" except in {max(1, round(100 * shares.max()))}{NBSP}% of the time at most" if shares.max() else ""
    return f"the driver had room{seldom}"


def host_sentences(usage: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return a sentence per host that was full: "balancer: 98 % of its CPU in every trial of small8"."""
    full = usage[(usage["share_full"] >= BOTTLENECK_TIME_SHARE) & usage["resource"].isin(list(RESOURCE_NOUNS))]
    total = usage["treatment"].nunique()
    order = ["role", "host", "resource", "mean"]
    texts_by_host: dict[tuple[str, str], list[str]] = {}
    for (role, host), rows in full.sort_values(order, ascending=[True, True, True, False]).groupby(["role", "host"]):
        is_foreign = rows["own"] < MIN_OWN_CPU_SHARE
        treatments_by_use: dict[str, list[str]] = {}
        for _, row in rows[~is_foreign].iterrows():
            trials = f"{row['trials_full']} of {row['trials']} trials"
            when = "every trial" if row["trials_full"] == row["trials"] else trials
            use = f"{share_text(row['mean'])} of its {RESOURCE_NOUNS[str(row['resource'])]} in {when}"
            treatments_by_use.setdefault(use, []).append(labels.get(str(row["treatment"]), str(row["treatment"])))
        texts = [_use_with_treatments(use, names, total) for use, names in treatments_by_use.items()]
        if is_foreign.any():
            means, own = (_range_text(rows.loc[is_foreign, column]) for column in ("mean", "own"))
            treatments = _treatment_count_text(int(is_foreign.sum()), total)
            texts.append(f"{means} of its CPU in {treatments}, but only {own} of that by its own processes")
        texts_by_host[str(role), str(host)] = texts
    roles = [role for role, _ in texts_by_host]
    return [
        f"{role if roles.count(role) == 1 else f'{role} ({host})'}: {join_words(texts)}."
        for (role, host), texts in texts_by_host.items()
    ]


def _range_text(shares: pd.Series) -> str:
    low, high = (share_text(share) for share in (shares.min(), shares.max()))
    return low if low == high else f"{low.removesuffix(f'{NBSP}%')} to {high}"


def _use_with_treatments(use: str, treatments: list[str], total: int) -> str:
    if len(treatments) == total > 1:
        return f"{use} of all {total} treatments" if "every trial" not in use else use
    return f"{use} of {join_words([f'“{name}”' if ',' in name else name for name in treatments])}"


def memory_size_text(used: float, installed: float | None) -> str:
    """Return the smallest usual size that would hold the highest use, with some memory left free (both in bytes)."""
    enough = next((s for s in MEMORY_SIZES_B if used * HEADROOM <= s), None)
    text = f"a host of {enough / GIB:g}{NBSP}GiB would have held it" if enough else "no usual size would have held it"
    if installed and enough and enough > installed:
        text = "nearly all that is installed"
    return f"{format_bytes(used)}: {text}"
