"""`loadbook compare`: outputs of load generators, or a CSV file with one row per trial; errors name line and column."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.data import count_progress
from loadbook.cli.terminal import echo, json_option, print_json, print_table
from loadbook.core.csv_file import read_csv_rows
from loadbook.core.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.analyses.compare_files.compute import FilesComparison, Pairing
    from loadbook.core.metrics import Direction
    from loadbook.stats.compare import BestArm
    from loadbook.stats.results import Contrasts, Hypothesis, Verdict

# columns: on a narrower terminal, lines of the table are wrapped, so that no number is cut
NARROWEST = 76


@click.command()
@click.argument("paths", metavar="BEFORE AFTER... | CSV", nargs=-1, required=True)
@click.option("--metric", help="The one that decides, as in 'latency p99'; default: the rate (open loads: p99).")
@click.option("--margin", type=float, help="Smallest difference that matters, 0.02 for 2 %, decided beforehand.")
@click.option("--baseline", help="What the others are compared with; default: the first. CSV: a treatment, required.")
@click.option("--no-loss", is_flag=True, help="Ask one thing only: is a loss beyond --margin excluded?")
@click.option("--lower-is-better/--higher-is-better", default=None, help="Default: by the metric's name, if it tells.")
@click.option("--tool", default="", help="Tool that wrote the outputs; default: detected.")
@click.option(
    "--pair", "pairing", type=click.Choice(["name", "order"]),
    help="Runs were made in pairs: those with the same numbers in their names, or the same place in order.",
)  # fmt: skip
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write an HTML page, too.")
@click.option("--by", default="treatment", show_default=True, help="CSV: column that names the treatment.")
@click.option("--block", default="block", show_default=True, help="CSV: column that names the block.")
@click.option(
    "--contrasts",
    type=click.Choice(["baseline", "adjacent", "best"]),
    default="baseline",
    show_default=True,
    help="CSV: compare each with the baseline, with the one before it (a ladder: the baseline, then the others as the "
    "file first names them), or with the one observed best.",
)
@json_option("every comparison; effects and intervals are ratios minus 1")
def compare(
    paths: tuple[str, ...], metric: str | None, margin: float | None, baseline: str | None, no_loss: bool,
    lower_is_better: bool | None, tool: str, pairing: Pairing | None, as_markdown: bool, page: Path | None, by: str,
    block: str, contrasts: Contrasts, as_json: bool,
) -> None:  # fmt: skip
    """Compare outputs of load generators, or the treatments in a CSV file of trials.

    BEFORE, AFTER: a file, a folder, or a quoted pattern ('before-*.txt'), with one run or many, of any tool that is
    read. At least 5 runs of each side give a verdict.

    CSV alone: numbers of your own, one row per trial, in blocks that hold each treatment once.

    Without --margin nothing is called equivalent, or too small to matter.
    """
    if margin is not None and not 0 < margin < 1:
        raise UsageError(f"--margin {margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if no_loss and margin is None:
        raise UsageError("--no-loss needs --margin", "say how large a loss is accepted: --margin 0.02 for 2 %")
    better: Direction | None = None if lower_is_better is None else "lower" if lower_is_better else "higher"
    if len(paths) > 1:
        if (by, block, contrasts) != ("treatment", "block", "baseline"):
            raise UsageError("--by, --block and --contrasts are for a CSV", "loadbook compare FILE.csv --baseline NAME")
        hypothesis: Hypothesis = "non-inferiority" if no_loss else "difference"
        result = _compare_files(paths, baseline, tool, metric or "", margin or 0.0, better, hypothesis, pairing or "")
        _print_files(result, page, as_json=as_json, as_markdown=as_markdown)
        return
    if tool or pairing or as_markdown or page:
        problem = "one path is a CSV of numbers, for which there is no --tool, --pair, --markdown and --html"
        raise UsageError(problem, "two sides of outputs: loadbook compare BEFORE AFTER")
    _compare_csv(Path(paths[0]), by, block, metric or "ok_per_s", baseline, margin, contrasts, better, no_loss, as_json)


def _compare_files(
    paths: tuple[str, ...], baseline: str | None, tool: str, metric: str, margin: float, better: Direction | None,
    hypothesis: Hypothesis, pairing: Pairing,
) -> FilesComparison:  # fmt: skip
    from loadbook.analyses.compare_files.compute import compare_sides
    from loadbook.analyses.compare_files.sides import read_sides

    sides = read_sides(paths, tool, count_progress("files read"))
    if baseline is not None:
        named = dict(zip(dict.fromkeys(paths), sides, strict=True)) | {side.name: side for side in sides}
        first = named.get(baseline)
        if first is None:
            raise UsageError(f"no side {baseline!r}", f"there: {', '.join(side.name for side in sides)}")
        sides = [first, *(side for side in sides if side is not first)]
    return compare_sides(sides, metric=metric, margin=margin, better=better, hypothesis=hypothesis, pairing=pairing)


def _print_files(result: FilesComparison, page: Path | None, *, as_json: bool, as_markdown: bool) -> None:
    """Print the result as text, Markdown or JSON, and write the HTML page."""
    from loadbook.analyses.compare_files.page import build_block, to_json, write_page
    from loadbook.report.nodes import to_markdown

    if page is not None:
        if not page.absolute().parent.is_dir():
            raise UsageError(f"{page}: there is no folder {str(page.parent)!r}", "make it, or name another file")
        write_page(result, page)
        echo(f"page {page}", err=True)
    if as_json:
        print_json(to_json(result))
        return
    echo(to_markdown(build_block(result)) if as_markdown else build_block(result).text)


def _compare_csv(
    table: Path, by: str, block: str, metric: str, baseline: str | None, margin: float | None, contrasts: Contrasts,
    chosen: Direction | None, no_loss: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare the treatments of a CSV file."""
    if table.is_dir():
        raise UsageError(f"{table} is a folder: one side only", "loadbook compare BEFORE AFTER")
    if baseline is None:
        raise UsageError(
            "--baseline is missing: what are the others compared with?", f"loadbook compare {table} --baseline NAME"
        )
    if no_loss and contrasts == "best":
        raise UsageError("--no-loss goes without --contrasts best", "against the best, everything loses")
    from loadbook.stats.compare import compare_declared
    from loadbook.stats.text import common_decimals, direction, tells_direction
    from loadbook.stats.verdict import decide_verdict

    values = read_trials(table, treatment=by, block=block, value=metric, baseline=baseline)
    if chosen is None and not tells_direction(metric):
        problem = f"the name {metric!r} does not tell whether more is better"
        raise UsageError(problem, "say --lower-is-better (times, errors, costs) or --higher-is-better (rates)")
    better = direction(metric, chosen)
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
    print_json(document)


def _against(verdict: Verdict, contrasts: Contrasts) -> str | None:
    """Return the treatment that a comparison refers to; None if it is the baseline of all comparisons."""
    return None if contrasts == "baseline" else verdict.comparison.baseline


def _comparison(verdict: Verdict, contrasts: Contrasts) -> dict[str, Any]:
    from loadbook.stats.phrases import terminal_verdict

    against = _against(verdict, contrasts)
    comparison, forecast = verdict.comparison, verdict.forecast
    return {
        "treatment": comparison.treatment, **({"against": against} if against else {}),
        "blocks": comparison.blocks, "method": comparison.method,
        "effect": comparison.effect if comparison.effect is not None and math.isfinite(comparison.effect) else None,
        "ci95": comparison.ci95, "ci90": comparison.ci90, "p": comparison.p, "p_adjusted": comparison.p_adjusted,
        "verdict": verdict.kind,
        "more_blocks": [forecast.low, forecast.high] if forecast and forecast.about is not None else None,
        "sentence": terminal_verdict(verdict, against), "flags": list(comparison.flags),
    }  # fmt: skip


def _print_comparison(
    verdicts: list[Verdict], baseline: str, metric: str, contrasts: Contrasts, best: BestArm | None
) -> None:
    from loadbook.stats.phrases import terminal_verdict
    from loadbook.stats.text import best_sentence, comparison_texts

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
        echo(f"{verdict.comparison.treatment}: {terminal_verdict(verdict, _against(verdict, contrasts))}")
        for flag in verdict.comparison.flags:
            echo(f"  {flag}")


MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
_SUMMARY = re.compile(
    r"(averages?|avg|means?|medians?|totals?|sum|min|max|minimum|maximum|sd|st\.? ?dev|std|ø|all|overall|mittelwert"
    r"|mittel|durchschnitt|summe|gesamt|moyenne|médiane|media|promedio|total general)([.:=]| ?\(.*| of\b.*)?"
)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+(,\d+)?|\d{1,3}(\.\d{3})+,\d+)", re.ASCII)
_COMMA_OF_THOUSANDS = re.compile(r"[+-]?([1-9]\d{0,2},\d{3}|\d+)", re.ASCII)  # or of decimals
_POINTS_OF_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}", re.ASCII)
_WITH_COMMA = re.compile(r"[+-]?\d+(?:[. ]\d{3})*,\d+|[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
# a number of thousands as German spreadsheets write it, or one with three decimals
_LIKE_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
MIN_DOTTED, MIN_WHOLE, MIN_THOUSAND, FAR = 2, 100, 1000, 10
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_trials(path: Path, *, treatment: str, block: str, value: str, baseline: str) -> pd.DataFrame:
    """Return the trials in a CSV file as columns treatment, block (text), value (float), valid (bool), a row each.

    `treatment`, `block` and `value` are names of columns of the file; `baseline` is a treatment. A missing value is
    NaN. The result's `valid` is the file's column of that name, True without one. UsageError: no such file, column or
    baseline. DataError: no rows, text where a number belongs, one treatment only, or two trials of one in one block.

    Decimal commas are read where no number of the column can have a comma before thousands instead.
    """
    import pandas as pd

    if not (lines := read_csv_rows(path)):
        raise DataError(f"{path} is empty", "a header and one row per trial are needed")
    header, rows = lines[0][1], lines[1:]
    columns = [_column_index(path, header, name) for name in (treatment, block, value)]
    if not rows:
        raise DataError(f"{path} holds no trials, only a header")
    if _has_decimal_commas([cells[columns[2]].strip() for _, cells in rows if len(cells) == len(header)]):
        for _, cells in rows:
            if len(cells) == len(header):
                cells[columns[2]] = cells[columns[2]].replace(".", "").replace(",", ".")
    checked_rows = [_checked_row(path, number, cells, header, columns) for number, cells in rows]
    numbers = [cells[columns[2]].strip() for _, cells in rows]
    _check_thousands(path, [number for number, _ in rows], numbers, value)
    frame = pd.DataFrame(checked_rows, columns=["line", "treatment", "block", "value", "valid"])
    repeated = frame[frame.duplicated(["treatment", "block"])]
    if len(repeated):
        line, name, block_name = repeated.iloc[0][["line", "treatment", "block"]]
        raise DataError(
            f"{path}:{line}: a second row of {name!r} in block {block_name!r}",
            "one row per trial: average what was measured at the same time, and give repetitions blocks of their own",
        )
    names = list(dict.fromkeys(frame["treatment"]))
    if baseline not in names:
        raise UsageError(f"no treatment {baseline!r} in column {treatment!r}", f"there: {', '.join(names)}")
    if len(names) == 1:
        raise DataError(f"{path} holds only {baseline!r}: there is nothing to compare it with")
    return frame.drop(columns="line")


def _column_index(path: Path, header: list[str], name: str) -> int:
    names = [cell.strip() for cell in header]
    if name not in names:
        raise UsageError(f"{path} has no column {name!r}", f"columns: {', '.join(names)}")
    if names.count(name) > 1:
        raise DataError(f"{path} has {names.count(name)} columns {name!r}")
    return names.index(name)


def _checked_row(path: Path, line: int, cells: list[str], header: list[str], columns: list[int]) -> tuple[Any, ...]:
    if len(cells) != len(header):
        raise DataError(f"{path}:{line}: {len(cells)} cells where the header has {len(header)}")
    treatment, block, text = (cells[k].strip() for k in columns)
    for name, cell in (("treatment", treatment), ("block", block)):
        if not cell:
            raise DataError(f"{path}:{line}: no {name}")
    if _SUMMARY.fullmatch(block.lower()):
        raise DataError(f"{path}:{line}: {block!r} is no block, but sums up others", "leave this row out")
    value = _parse_number(path, line, header[columns[2]].strip(), text)
    names = [name.strip() for name in header]
    valid = cells[names.index("valid")].strip().lower() if "valid" in names else "true"
    if valid not in BOOLEANS:
        raise DataError(f"{path}:{line}: column 'valid' holds {valid!r}", "true or false")
    return line, treatment, block, value, BOOLEANS[valid]


def _has_decimal_commas(texts: Sequence[str]) -> bool:
    """Return whether the numbers of a column have decimal commas, without doubt: 1015,5 and 1.015,50, but not 1,015."""
    numbers = [text for text in texts if text.lower() not in MISSING]
    plain = all(map(_DECIMAL_COMMA.fullmatch, numbers))
    return plain and not all(map(_COMMA_OF_THOUSANDS.fullmatch, numbers))


def _parse_number(path: Path, line: int, column: str, text: str) -> float:
    if text.lower() in MISSING:
        return math.nan
    try:
        return float(text.replace("_", " "))  # Python reads 1_000, nobody else does
    except ValueError:
        problem = f"{path}:{line}: column {column!r} holds {text!r}, which is not a number"
        hint = "plain numbers, no units or commas"
        if _WITH_COMMA.fullmatch(text):
            problem += ": its comma may stand before decimals or thousands"
            hint = (
                "write a decimal point and no mark of thousands, such as 39667.60; replace the comma, or export again"
            )
        elif _POINTS_OF_THOUSANDS.fullmatch(text):
            hint = f"write {text.replace('.', '')}, without points before thousands"
        raise DataError(problem, hint) from None


def _check_thousands(path: Path, lines: Sequence[int], texts: Sequence[str], column: str) -> None:
    """Raise DataError if the numbers above 999 seem to have a point before their thousands, as in German."""
    dotted = [text for text in texts if _LIKE_THOUSANDS.fullmatch(text)]
    whole = [text for text in texts if text.isdecimal()]
    if len(dotted) < MIN_DOTTED or not whole or any(t.lower() not in MISSING for t in {*texts} - {*dotted, *whole}):
        return
    lowest, highest = min(map(int, whole)), max(map(int, whole))
    if MIN_WHOLE <= lowest <= highest < MIN_THOUSAND and lowest > FAR * max(map(float, dotted)):
        line, text = lines[texts.index(dotted[0])], dotted[0]
        problem = f"{path}:{line}: column {column!r} holds {text!r}, and whole numbers such as {whole[0]!r}"
        plain = text.replace(".", "")
        hint = f"write {plain} if its point stands before thousands, else {whole[0]}.000 for {whole[0]}"
        raise DataError(f"{problem}: is it {plain}, or below {int(float(text)) + 1}?", hint)
