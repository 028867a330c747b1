"""What was full, in sentences: by treatment and host, whether it was the driver's, and how much memory is enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, joined, size
from loadbook.stats.saturation import FULL, LETTERS, MOSTLY, OWN, bottlenecks

if TYPE_CHECKING:
    import pandas as pd

NOUNS = {"cpu": "CPU", "network": "network", "memory": "memory"}
SPARE = 1 / FULL  # what is used must not fill the host
GIB = 1024**3
SIZES = tuple(GIB * n for n in (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512))


def percent_of(share: float) -> str:
    """Return a share as whole percent."""
    return f"{100 * share:.0f}{NBSP}%"


def headline(frame: pd.DataFrame) -> str:
    """Return the answer: what was full, in how many treatments, and whether the driver was."""
    if frame.empty:
        return "Not known: no monitor recorded anything while trials that count were measured."
    found = bottlenecks(frame)
    named = {letter: [t for t, own in found.items() if own == letter] for letter in LETTERS}
    said = [
        f"{_the(frame, letter)} in {_of_treatments(len(names), len(found))}" for letter, names in named.items() if names
    ]
    foreign = frame[(frame["share_full"] >= MOSTLY) & (frame["own"] < OWN)]
    if said:
        start = f"At its limit: {joined(said)}"
    elif len(foreign):
        start = f"The CPU of the {joined(sorted(set(foreign['role'])))} was full, mostly of other processes’ work"
    else:
        start = "Nothing that was watched was at its limit"
    return f"{start}; {_driver(frame)}."


def _the(frame: pd.DataFrame, letter: str) -> str:
    """Return the resource of a letter by the roles that it was full for."""
    if letter == "N":
        return "the network"
    roles = sorted(set(frame.loc[frame["bottleneck"] == letter, "role"]))
    return f"the {NOUNS['cpu']} of the {joined(roles)}"


def _of_treatments(number: int, every: int) -> str:
    if every == 1:
        return "the one treatment"
    return f"all {every} treatments" if number == every else f"{number} of {every} treatments"


def _driver(frame: pd.DataFrame) -> str:
    own = frame[frame["role"].str.contains("driver") & (frame["resource"] == "cpu")]
    shares = own["share_full"].dropna()
    if shares.empty:
        return "the driver was not watched"
    if (own["own"] < OWN).any() and not own["bottleneck"].notna().any() and shares.max() >= MOSTLY:
        return "nobody’s own limit was seen there"
    if shares.max() >= MOSTLY:
        return "so the tool, not only the server, may have set the numbers"
    seldom = f" except in {max(1, round(100 * shares.max()))}{NBSP}% of the time at most" if shares.max() else ""
    return f"the driver had room{seldom}"


def sentences(frame: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return a sentence per host that was full: "balancer: 98 % of its CPU in every trial of small8"."""
    full = frame[(frame["share_full"] >= MOSTLY) & frame["resource"].isin(list(NOUNS))]
    every = frame["treatment"].nunique()
    order = ["role", "host", "resource", "mean"]
    said: dict[tuple[str, str], list[str]] = {}
    for (role, host), rows in full.sort_values(order, ascending=[True, True, True, False]).groupby(["role", "host"]):
        foreign = rows["own"] < OWN
        known: dict[str, list[str]] = {}
        for _, row in rows[~foreign].iterrows():
            known.setdefault(_used(row), []).append(labels.get(str(row["treatment"]), str(row["treatment"])))
        texts = [_where(used, names, every) for used, names in known.items()]
        said[str(role), str(host)] = [*texts, *([_foreign(rows[foreign], every)] if foreign.any() else [])]
    roles = [role for role, _ in said]
    return [
        f"{role if roles.count(role) == 1 else f'{role} ({host})'}: {joined(texts)}."
        for (role, host), texts in said.items()
    ]


def _foreign(rows: pd.DataFrame, every: int) -> str:
    """Return how far a CPU was full that other processes filled, for all treatments in which they did."""
    means, own = (_range(rows[column]) for column in ("mean", "own"))
    return f"{means} of its CPU in {_of_treatments(len(rows), every)}, but only {own} of that by its own processes"


def _range(shares: pd.Series) -> str:
    texts = [percent_of(share) for share in (shares.min(), shares.max())]
    return texts[0] if texts[0] == texts[1] else f"{texts[0].removesuffix(f'{NBSP}%')} to {texts[1]}"


def _used(row: pd.Series) -> str:
    """Return how much of a resource one treatment used, and in how many trials it was full."""
    trials = "every trial" if row["trials_full"] == row["trials"] else f"{row['trials_full']} of {row['trials']} trials"
    return f"{percent_of(row['mean'])} of its {NOUNS[str(row['resource'])]} in {trials}"


def _where(used: str, treatments: list[str], every: int) -> str:
    if len(treatments) == every > 1:
        return f"{used} of all {every} treatments" if "every trial" not in used else used
    return f"{used} of {joined([f'“{name}”' if ',' in name else name for name in treatments])}"


def memory(used: float, installed: float | None) -> str:
    """Return which size would have held what was used at most, in bytes; SPARE is left free."""
    enough = next((s for s in SIZES if used * SPARE <= s), None)
    held = f"a host of {enough / GIB:g}{NBSP}GiB would have held it" if enough else "no usual size would have held it"
    if installed and enough and enough > installed:
        held = "nearly all that is installed"
    return f"{size(used)}: {held}"
