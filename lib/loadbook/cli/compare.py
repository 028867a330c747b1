"""`loadbook compare`: the statistics on any table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from loadbook.cli.progress import cell, echo
from loadbook.core.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.core.metrics import Direction
    from loadbook.stats.family import BestArm
    from loadbook.stats.results import Contrasts, Hypothesis, Verdict

# columns of a table that goes to a file or pipe
WIDE = 200
# below, a terminal breaks the lines: cut numbers would be worse
NARROWEST = 76


@click.command()
@click.argument("csv", metavar="CSV", type=click.Path(path_type=Path))
@click.option("--by", default="treatment", show_default=True, help="Column that names the treatment.")
@click.option("--block", default="block", show_default=True, help="Column that names the block.")
@click.option("--metric", default="ok_per_s", show_default=True, help="Column of numbers, one per trial.")
@click.option("--baseline", required=True, help="The treatment that the others are compared with.")
@click.option("--margin", type=float, help="Smallest difference that matters, 0.02 for 2 %, decided beforehand.")
@click.option(
    "--contrasts",
    type=click.Choice(["baseline", "adjacent", "best"]),
    default="baseline",
    show_default=True,
    help="Compare each with the baseline, with the one before it (a ladder: the baseline, then the others as the file "
    "first names them), or with the one observed best.",
)
@click.option("--no-loss", is_flag=True, help="Ask one thing only: is a loss beyond --margin excluded?")
@click.option("--lower-is-better/--higher-is-better", default=None, help="Default: what the name of the metric says.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; effects and intervals are ratios minus 1.")
def compare(
    csv: Path,
    by: str,
    block: str,
    metric: str,
    baseline: str,
    margin: float | None,
    contrasts: Contrasts,
    no_loss: bool,
    lower_is_better: bool | None,
    as_json: bool,
) -> None:
    """Compare the treatments in a CSV file of trials: one row per trial, in blocks that hold each treatment once.

    Without --margin nothing is called equivalent, or too small to matter.
    """
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if no_loss and margin is None:
        raise UsageError("--no-loss needs --margin", "say how large a loss is accepted: --margin 0.02 for 2 %")
    if no_loss and contrasts == "best":
        raise UsageError("--no-loss goes without --contrasts best", "against the best, everything loses")
    from loadbook.stats.table import read_trials

    values = read_trials(csv, treatment=by, block=block, value=metric, baseline=baseline)
    asks: Hypothesis = "non-inferiority" if no_loss else "difference"
    found = _answer(values, baseline, metric, margin or 0.0, contrasts, asks, lower_is_better)
    if as_json:
        echo(json.dumps(_document(found, baseline, metric, margin), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, baseline, metric)


class Answer(NamedTuple):
    """The verdicts, what was compared with what, and what may be said of the best arm where that was asked."""

    verdicts: list[Verdict]
    contrasts: Contrasts
    leader: BestArm | None

    def against(self, verdict: Verdict) -> str | None:
        """Return what was compared with, None where it is the baseline of the whole table."""
        return None if self.contrasts == "baseline" else verdict.comparison.baseline


def _answer(
    values: pd.DataFrame,
    baseline: str,
    metric: str,
    margin: float,
    contrasts: Contrasts,
    asks: Hypothesis,
    lower_is_better: bool | None,
) -> Answer:
    from loadbook.stats.family import compare_declared
    from loadbook.stats.text import common_decimals, direction
    from loadbook.stats.verdict import decide_verdict

    told: Direction | None = None if lower_is_better is None else ("lower" if lower_is_better else "higher")
    better = direction(metric, told)
    others = [name for name in dict.fromkeys(values["treatment"]) if name != baseline]
    found = compare_declared(values, baseline, others, contrasts, better=better, metric=metric)
    verdicts = [decide_verdict(c, margin, better, hypothesis=asks) for c in found.comparisons]
    digits = common_decimals(v.comparison for v in verdicts if v.kind != "invalid")
    return Answer([replace(v, decimals=digits) for v in verdicts], contrasts, found.best_arm)


def _document(found: Answer, baseline: str, metric: str, margin: float | None) -> dict[str, Any]:
    """Return the JSON; what was not asked for by an option has no key."""
    comparisons = [_comparison(verdict, found.against(verdict)) for verdict in found.verdicts]
    document: dict[str, Any] = {"baseline": baseline, "metric": metric, "margin": margin, "comparisons": comparisons}
    if found.contrasts == "best":
        leader = found.leader
        document |= {"best": leader.best if leader else None, "tied_with_best": list(leader.tied) if leader else []}
    return document


def _comparison(verdict: Verdict, against: str | None) -> dict[str, Any]:
    from loadbook.stats.text import verdict_line

    found, forecast = verdict.comparison, verdict.forecast
    more = [forecast.low, forecast.high] if forecast and forecast.about is not None else None
    return {
        "treatment": found.treatment,
        **({"against": against} if against else {}),
        "blocks": found.blocks,
        "method": found.method,
        "effect": _finite(found.effect),
        "ci95": found.ci95,
        "ci90": found.ci90,
        "p": found.p,
        "p_adjusted": found.p_adjusted,
        "verdict": verdict.kind,
        "more_blocks": more,
        "sentence": verdict_line(verdict, against),
        "flags": list(found.flags),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _show(found: Answer, baseline: str, metric: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from loadbook.stats.text import best_sentence, comparison_texts, verdict_line

    named = found.contrasts != "baseline"
    title = metric if named else f"{metric} against {baseline}"
    table = Table(title=cell(title), title_justify="left", box=None, pad_edge=False)
    table.add_column("treatment against" if named else "treatment", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for heading in ("change", "95 % interval", "blocks", "p", "adjusted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for verdict in found.verdicts:
        texts, against = comparison_texts(verdict), found.against(verdict)
        cells = (texts.change, texts.interval, texts.blocks, texts.p, texts.p_adjusted)
        names = f"{verdict.comparison.treatment}{f' against {against}' if against else ''}"
        table.add_row(cell(names), verdict.kind, *cells)
    console = Console(highlight=False)
    console.width = max(console.width, NARROWEST) if console.is_terminal else WIDE
    console.print(table)
    console.print()
    best = (
        best_sentence(list(found.leader.tied), found.leader.best, found.leader.ties_beat_rest) if found.leader else None
    )
    if best:
        console.print(cell(best), soft_wrap=True)
    for verdict in found.verdicts:
        said = verdict_line(verdict, found.against(verdict))
        console.print(cell(f"{verdict.comparison.treatment}: {said}"), soft_wrap=True)
        for flag in verdict.comparison.flags:
            console.print(cell(f"  {flag}"), soft_wrap=True)
