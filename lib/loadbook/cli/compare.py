"""`loadbook compare`: the statistics on any table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.core.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.core.metrics import Direction
    from loadbook.stats.result import Verdict


# columns of a table that goes to a file or pipe
WIDE = 200


@click.command()
@click.argument("csv", metavar="CSV", type=click.Path(path_type=Path))
@click.option("--by", default="treatment", show_default=True, help="Column that names the treatment.")
@click.option("--block", default="block", show_default=True, help="Column that names the block.")
@click.option("--metric", default="ok_per_s", show_default=True, help="Column of numbers, one per trial.")
@click.option("--baseline", required=True, help="The treatment that the others are compared with.")
@click.option("--margin", type=float, help="Smallest difference that matters, 0.02 for 2 %, decided beforehand.")
@click.option("--lower-is-better/--higher-is-better", default=None, help="Default: what the metric is known for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; effects and intervals are ratios minus 1.")
def compare(
    csv: Path,
    by: str,
    block: str,
    metric: str,
    baseline: str,
    margin: float | None,
    lower_is_better: bool | None,
    as_json: bool,
) -> None:
    """Compare the treatments in a CSV file of trials: one row per trial, in blocks that hold each treatment once.

    Without --margin nothing is called equivalent, or too small to matter.
    """
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    from loadbook.stats.table import read_trials

    values = read_trials(csv, treatment=by, block=block, value=metric, baseline=baseline)
    verdicts = _verdicts(values, baseline, metric, margin or 0.0, lower_is_better)
    if as_json:
        click.echo(json.dumps(_document(verdicts, baseline, metric, margin), indent=1, ensure_ascii=False))
    else:
        _show(verdicts, baseline, metric)


def _verdicts(
    values: pd.DataFrame, baseline: str, metric: str, margin: float, lower_is_better: bool | None
) -> list[Verdict]:
    from loadbook.stats.family import compare_all
    from loadbook.stats.shown import common_decimals
    from loadbook.stats.verdict import decide
    from loadbook.stats.words import direction

    better: Direction | None = None if lower_is_better is None else ("lower" if lower_is_better else "higher")
    others = [name for name in dict.fromkeys(values["treatment"]) if name != baseline]
    found = compare_all(values, others, baseline, metric=metric)
    verdicts = [decide(c, margin, direction(metric, better)) for c in found]
    digits = common_decimals(v.comparison for v in verdicts if v.kind != "invalid")
    return [replace(v, decimals=digits) for v in verdicts]


def _document(verdicts: list[Verdict], baseline: str, metric: str, margin: float | None) -> dict[str, Any]:
    comparisons = [_comparison(verdict) for verdict in verdicts]
    return {"baseline": baseline, "metric": metric, "margin": margin, "comparisons": comparisons}


def _comparison(verdict: Verdict) -> dict[str, Any]:
    from loadbook.stats.sentences import short

    found, forecast = verdict.comparison, verdict.forecast
    more = [forecast.low, forecast.high] if forecast and forecast.about is not None else None
    return {
        "treatment": found.treatment,
        "blocks": found.blocks,
        "method": found.method,
        "effect": _finite(found.effect),
        "ci95": found.ci95,
        "ci90": found.ci90,
        "p": found.p,
        "p_adjusted": found.p_adjusted,
        "verdict": verdict.kind,
        "more_blocks": more,
        "sentence": short(verdict),
        "flags": list(found.flags),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _show(verdicts: list[Verdict], baseline: str, metric: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from loadbook.stats.sentences import short
    from loadbook.stats.shown import comparison_texts

    table = Table(title=Text(f"{metric} against {baseline}"), title_justify="left", box=None, pad_edge=False)
    for heading in ("treatment", "verdict", "change", "95 % interval", "blocks", "p", "p adjusted"):
        table.add_column(heading, justify="left" if heading in ("treatment", "verdict") else "right")
    for verdict in verdicts:
        texts = comparison_texts(verdict)
        cells = (texts.change, texts.interval, texts.blocks, texts.p, texts.p_adjusted)
        table.add_row(Text(verdict.comparison.treatment), verdict.kind, *cells)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table)
    console.print()
    for verdict in verdicts:
        console.print(Text(f"{verdict.comparison.treatment}: {short(verdict)}"), soft_wrap=True)
        for flag in verdict.comparison.flags:
            console.print(Text(f"  {flag}"), soft_wrap=True)
