"""What a factorial run lets us say: main effects as usual, pairs as what one does to the effect of the other."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.core.units import NBSP, percent
from loadbook.stats.factorial import Effect, FactorialAnalysis, Switch, one_at_a_time
from loadbook.stats.factorial_errors import ErrorEffect, ErrorFindings
from loadbook.stats.headline import headline as first_line
from loadbook.stats.sentences import margin_text, more_blocks, phrase
from loadbook.stats.shown import comparison_texts

MAX_PAIRS = 2  # in the first lines of a page
PAIR_WORDS = {"better": "better together", "worse": "worse together"}


def headline(found: FactorialAnalysis) -> str:
    """Return the verdict on the study's question: what the single factors do."""
    return first_line(found.analysis).replace("treatment", "factor")


def together(found: FactorialAnalysis) -> str:
    """Return which pairs act together."""
    if any(e.verdict.kind == "invalid" for e in found.effects):
        return ""
    acting = [e for e in found.pairs if e.verdict.kind in ("better", "worse", "small")]
    if acting:
        return " ".join(effect_sentence(e, found.switches) for e in acting[:MAX_PAIRS])
    small = sum(e.verdict.kind == "equivalent" for e in found.pairs)
    what = "set of pairs" if any(e.aliases for e in found.pairs) else "pair"
    rest = f"; in {small} of {len(found.pairs)} any change is smaller than {margin_text(found.analysis.margin)}"
    return f"No {what} is shown to act together{rest if small else ''}."


def effect_sentence(effect: Effect, switches: Mapping[str, Switch]) -> str:
    """Return the report's sentence on a main effect or a pair."""
    return f"{effect.label}{effect_phrase(effect, switches)}"


def effect_phrase(effect: Effect, switches: Mapping[str, Switch]) -> str:
    """Return what follows an effect's name, so that a report can set the name in bold."""
    if len(effect.names) == 1 or effect.verdict.kind == "invalid":
        return phrase(effect.verdict)
    one, other = (switches[name].label for name in effect.names)
    verdict, texts, margin = effect.verdict, comparison_texts(effect.verdict), margin_text(effect.verdict.margin)
    subject, blocks = f": with {other}, the effect of {one}", f"{texts.blocks} blocks"
    if verdict.kind == "equivalent":
        level = f"{(2 * verdict.comparison.level - 1) * 100:.4g}{NBSP}%"
        return f"{subject} changes by no more than {margin} ({level} interval {texts.interval90}), {blocks}."
    if verdict.kind == "undecided":
        return f": undecided: {subject[2:]} changes by {texts.interval}, {blocks}. {more_blocks(verdict)}"
    level = f"{verdict.comparison.level * 100:.4g}{NBSP}%"
    said = f"{subject} changes by {texts.change} ({level} interval {texts.interval})"
    if verdict.kind == "small":
        return f"{said}: real, but smaller than the {margin} that matters, {blocks}."
    return f"{said}, {blocks}: {PAIR_WORDS[verdict.kind]}."


def cost(found: FactorialAnalysis) -> str:
    """Return what the design saved against one factor at a time, and what that could not have seen."""
    alone = one_at_a_time(found.design, found.trials)
    return (
        f"These {found.trials} trials tell every main effect as precisely as {alone} trials of one factor at a time "
        f"({len(found.design.names)} factors and the baseline), which would see no pair."
    )


def errors(found: ErrorFindings | None, switches: Mapping[str, Switch]) -> list[str]:
    """Return what is known of errors: by factor, and whether a pair brings or removes them."""
    if found is None:
        return ["Errors were not measured in every combination."]
    if not found.failing:
        share = percent(found.upper_share or 0, 0, signed=False)
        return [
            f"No errors in {found.trials} of {found.trials} trials, so no factor and no pair is seen to bring or to "
            f"remove any (up to {share} of the trials with a factor switched could still have some)."
        ]
    decided = [e for e in found.effects if e.kind != "undecided"]
    said = [_error_sentence(e, switches) for e in decided]
    if len(decided) < len(found.effects):
        rest = "For the other effects" if decided else "Whether a factor or a pair brings or removes them"
        said.append(f"{rest}{':' if decided else ' is'} undecided (exact sign test over {found.blocks} blocks, Holm).")
    return [f"{found.failing} of {found.trials} trials had errors.", *said]


def _error_sentence(effect: ErrorEffect, switches: Mapping[str, Switch]) -> str:
    p = f"p{NBSP}{'<' if effect.p < 0.001 else '='}{NBSP}{max(effect.p, 0.001):.3f}"
    if len(effect.names) == 1:
        high, low = effect.failing[(True,)], effect.failing[(False,)]
        counts = f"{high[0]} of {high[1]} trials against {low[0]} of {low[1]}"
        return f"{switches[effect.names[0]].label} has errors in {effect.kind} trials: {counts} ({p})."
    labels = [switches[name].label for name in effect.names]
    both, neither = effect.failing[(True, True)], effect.failing[(False, False)]
    alone = [effect.failing[(True, False)], effect.failing[(False, True)]]
    said = f"{both[0]} of {both[1]} trials with both, " + ", ".join(
        f"{count} of {all_} with {label} alone" for (count, all_), label in zip(alone, labels, strict=True)
    )
    for (count, _), one, other in zip(alone, labels, reversed(labels), strict=True):
        if effect.kind == "fewer" and count > max(both[0], neither[0]):
            return f"{other} removes errors that {one} brings: {said} ({p})."
    return f"{' and '.join(labels)} together have errors in {effect.kind} trials than each alone: {said} ({p})."
