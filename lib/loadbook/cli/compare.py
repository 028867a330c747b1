"""`loadbook compare`: the statistics on any table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.terminal import echo, print_table
from loadbook.core.errors import UsageError

if TYPE_CHECKING:
    from loadbook.stats.compare import BestArm
    from loadbook.stats.results import Contrasts, Verdict

# columns; below, a terminal breaks the lines, as cut numbers would be worse
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
@click.option("--lower-is-better/--higher-is-better", default=None, help="Default: by the name of the metric.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; effects and intervals are ratios minus 1.")
def compare(
    csv: Path, by: str, block: str, metric: str, baseline: str, margin: float | None, contrasts: Contrasts,
    no_loss: bool, lower_is_better: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare the treatments in a CSV file of trials: one row per trial, in blocks that hold each treatment once.

    Without --margin nothing is called equivalent, or too small to matter.
    """
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if no_loss and margin is None:
        raise UsageError("--no-loss needs --margin", "say how large a loss is accepted: --margin 0.02 for 2 %")
    if no_loss and contrasts == "best":
        raise UsageError("--no-loss goes without --contrasts best", "against the best, everything loses")
    from loadbook.stats.compare import compare_declared
    from loadbook.stats.table import read_trials
    from loadbook.stats.text import common_decimals, direction
    from loadbook.stats.verdict import decide_verdict

    values = read_trials(csv, treatment=by, block=block, value=metric, baseline=baseline)
    better = direction(metric, None if lower_is_better is None else "lower" if lower_is_better else "higher")
    others = [name for name in dict.fromkeys(values["treatment"]) if name != baseline]
    family = compare_declared(values, baseline, others, contrasts, better=better, metric=metric)
    verdicts = [
        decide_verdict(c, margin or 0.0, better, hypothesis="non-inferiority" if no_loss else "difference")
        for c in family.comparisons
    ]
    decimals = common_decimals(v.comparison for v in verdicts if v.kind != "invalid")
    verdicts = [replace(v, decimals=decimals) for v in verdicts]
    if not as_json:
        _print_comparison(verdicts, baseline, metric, contrasts, family.best_arm)
        return
    document: dict[str, Any] = {"baseline": baseline, "metric": metric, "margin": margin}
    document["comparisons"] = [_comparison(verdict, contrasts) for verdict in verdicts]
    if contrasts == "best":
        best = family.best_arm
        document |= {"best": best.best if best else None, "tied_with_best": list(best.tied) if best else []}
    echo(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


def _against(verdict: Verdict, contrasts: Contrasts) -> str | None:
    """Return the other side of a comparison; None if it is the baseline of the whole table."""
    return None if contrasts == "baseline" else verdict.comparison.baseline


def _comparison(verdict: Verdict, contrasts: Contrasts) -> dict[str, Any]:
    from loadbook.stats.text import ascii_verdict

    against = _against(verdict, contrasts)
    comparison, forecast = verdict.comparison, verdict.forecast
    return {
        "treatment": comparison.treatment, **({"against": against} if against else {}),
        "blocks": comparison.blocks, "method": comparison.method,
        "effect": comparison.effect if comparison.effect is not None and math.isfinite(comparison.effect) else None,
        "ci95": comparison.ci95, "ci90": comparison.ci90, "p": comparison.p, "p_adjusted": comparison.p_adjusted,
        "verdict": verdict.kind,
        "more_blocks": [forecast.low, forecast.high] if forecast and forecast.about is not None else None,
        "sentence": ascii_verdict(verdict, against), "flags": list(comparison.flags),
    }  # fmt: skip


def _print_comparison(
    verdicts: list[Verdict], baseline: str, metric: str, contrasts: Contrasts, best: BestArm | None
) -> None:
    from loadbook.stats.text import ascii_verdict, best_sentence, comparison_texts

    named = contrasts != "baseline"
    first = "treatment against" if named else "treatment"
    numbers = ("change", "95 % interval", "blocks", "p", "adjusted")
    rows = []
    for verdict in verdicts:
        texts, against = comparison_texts(verdict), _against(verdict, contrasts)
        name = f"{verdict.comparison.treatment}{f' against {against}' if against else ''}"
        rows.append((name, verdict.kind, texts.change, texts.interval, texts.blocks, texts.p, texts.p_adjusted))
    title = metric if named else f"{metric} against {baseline}"
    print_table((first, "verdict", *numbers), rows, right=numbers, fold=(first,), title=title, min_width=NARROWEST)
    echo()
    if best and (sentence := best_sentence(list(best.tied), best.best, best.ties_beat_rest)):
        echo(sentence)
    for verdict in verdicts:
        echo(f"{verdict.comparison.treatment}: {ascii_verdict(verdict, _against(verdict, contrasts))}")
        for flag in verdict.comparison.flags:
            echo(f"  {flag}")
