"""What was full, in sentences: by treatment and host, whether it was the driver's, and how much memory is enough."""

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


def headline(frame: pd.DataFrame) -> str:
    """Return the answer: what was full, in how many treatments, and whether the driver was."""
    if frame.empty:
        return "Not known: no monitor recorded anything while trials that count were measured."
    bottleneck_of = bottleneck_by_treatment(frame)
    treatments_by_letter = {
        letter: [t for t, own in bottleneck_of.items() if own == letter] for letter in BOTTLENECK_NAMES
    }
    parts = [
        f"{_resource_phrase(frame, letter)} in {_treatment_count_text(len(names), len(bottleneck_of))}"
        for letter, names in treatments_by_letter.items()
        if names
    ]
    foreign = frame[(frame["share_full"] >= BOTTLENECK_TIME_SHARE) & (frame["own"] < MIN_OWN_CPU_SHARE)]
    if parts:
        start = f"At its limit: {join_words(parts)}"
    elif len(foreign):
        start = f"The CPU of the {join_words(sorted(set(foreign['role'])))} was full, mostly of other processes’ work"
    else:
        start = "Nothing that was watched was at its limit"
    return f"{start}; {_driver_phrase(frame)}."


def _resource_phrase(frame: pd.DataFrame, letter: str) -> str:
    """Return the resource of a letter by the roles that it was full for."""
    if letter == "N":
        return "the network"
    roles = sorted(set(frame.loc[frame["bottleneck"] == letter, "role"]))
    return f"the {RESOURCE_NOUNS['cpu']} of the {join_words(roles)}"


def _treatment_count_text(number: int, total: int) -> str:
    if total == 1:
        return "the one treatment"
    return f"all {total} treatments" if number == total else f"{number} of {total} treatments"


def _driver_phrase(frame: pd.DataFrame) -> str:
    driver_rows = frame[frame["role"].str.contains("driver") & (frame["resource"] == "cpu")]
    shares = driver_rows["share_full"].dropna()
    if shares.empty:
        return "the driver was not watched"
    if (
        (driver_rows["own"] < MIN_OWN_CPU_SHARE).any()
        and not driver_rows["bottleneck"].notna().any()
        and shares.max() >= BOTTLENECK_TIME_SHARE
    ):
        return "nobody’s own limit was seen there"
    if shares.max() >= BOTTLENECK_TIME_SHARE:
        return "so the tool, not only the server, may have set the numbers"
    seldom = f" except in {max(1, round(100 * shares.max()))}{NBSP}% of the time at most" if shares.max() else ""
    return f"the driver had room{seldom}"


def host_sentences(frame: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return a sentence per host that was full: "balancer: 98 % of its CPU in every trial of small8"."""
    full = frame[(frame["share_full"] >= BOTTLENECK_TIME_SHARE) & frame["resource"].isin(list(RESOURCE_NOUNS))]
    treatments = frame["treatment"].nunique()
    order = ["role", "host", "resource", "mean"]
    texts_by_host: dict[tuple[str, str], list[str]] = {}
    for (role, host), rows in full.sort_values(order, ascending=[True, True, True, False]).groupby(["role", "host"]):
        foreign = rows["own"] < MIN_OWN_CPU_SHARE
        treatments_by_usage: dict[str, list[str]] = {}
        for _, row in rows[~foreign].iterrows():
            treatments_by_usage.setdefault(_usage_text(row), []).append(
                labels.get(str(row["treatment"]), str(row["treatment"]))
            )
        texts = [_usage_with_treatments(used, names, treatments) for used, names in treatments_by_usage.items()]
        texts_by_host[str(role), str(host)] = [
            *texts,
            *([_foreign_load_text(rows[foreign], treatments)] if foreign.any() else []),
        ]
    roles = [role for role, _ in texts_by_host]
    return [
        f"{role if roles.count(role) == 1 else f'{role} ({host})'}: {join_words(texts)}."
        for (role, host), texts in texts_by_host.items()
    ]


def _foreign_load_text(rows: pd.DataFrame, treatments: int) -> str:
    """Return how far a CPU was full that other processes filled, for all treatments in which they did."""
    means, own = (_range_text(rows[column]) for column in ("mean", "own"))
    return (
        f"{means} of its CPU in {_treatment_count_text(len(rows), treatments)}, but only {own} of that "
        "by its own processes"
    )


def _range_text(shares: pd.Series) -> str:
    texts = [share_text(share) for share in (shares.min(), shares.max())]
    return texts[0] if texts[0] == texts[1] else f"{texts[0].removesuffix(f'{NBSP}%')} to {texts[1]}"


def _usage_text(row: pd.Series) -> str:
    """Return how much of a resource one treatment used, and in how many trials it was full."""
    trials = "every trial" if row["trials_full"] == row["trials"] else f"{row['trials_full']} of {row['trials']} trials"
    return f"{share_text(row['mean'])} of its {RESOURCE_NOUNS[str(row['resource'])]} in {trials}"


def _usage_with_treatments(used: str, treatments: list[str], total: int) -> str:
    if len(treatments) == total > 1:
        return f"{used} of all {total} treatments" if "every trial" not in used else used
    return f"{used} of {join_words([f'“{name}”' if ',' in name else name for name in treatments])}"


def memory_size_text(used: float, installed: float | None) -> str:
    """Return which size would have held what was used at most, in bytes; SPARE is left free."""
    enough = next((s for s in MEMORY_SIZES_B if used * HEADROOM <= s), None)
    text = f"a host of {enough / GIB:g}{NBSP}GiB would have held it" if enough else "no usual size would have held it"
    if installed and enough and enough > installed:
        text = "nearly all that is installed"
    return f"{format_bytes(used)}: {text}"
