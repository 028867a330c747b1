"""Sentences about a factorial run: main effects, and for pairs the change of one factor's effect by the other."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.analyses.factorial.compute import (
    ErrorEffect,
    FactorialAnalysis,
    FactorialEffect,
    FactorialErrors,
    FactorLabels,
    one_factor_at_a_time_trials,
)
from loadbook.core.units import NBSP, format_percent, format_percent_range, pluralize, shorten_list
from loadbook.stats.headline import headline as first_line
from loadbook.stats.headline import mark_exploratory, neutral_headline, void_reason
from loadbook.stats.phrases import Form, verdict_parts
from loadbook.stats.results import VerdictKind
from loadbook.stats.text import comparison_evidence, margin_text

MAX_NAMED = 2  # largest number of factors, and of pairs, in the first lines of a page
SIGNIFICANT_KINDS = ("better", "worse", "small")
INTERACTION_TEXTS = {"better": "better together", "worse": "worse together"}
_CHANGE = "with {other}, the effect of {one} changes by"
_SIZED = f"{_CHANGE} {{change}} ({{confidence}} interval {{interval}})"
INTERACTION: Form = {
    "better": f"{_SIZED}, {{evidence}}: {INTERACTION_TEXTS['better']}",
    "worse": f"{_SIZED}, {{evidence}}: {INTERACTION_TEXTS['worse']}",
    "small": f"{_SIZED}: real, but smaller than the {{margin}} that matters, {{evidence}}",
    "equivalent": f"{_CHANGE} no more than {{margin}} ({{confidence90}} interval {{interval90}}), {{evidence}}",
    "undecided": f"undecided: {_CHANGE} {{interval}}, {{evidence}}",
}


def factorial_headline(result: FactorialAnalysis) -> str:
    """Return the answer in one sentence: the effects of single factors, or that two factors act together.

    Two factors are said to act together if their interaction is at least as large as the main effect of one of them,
    because that main effect alone then means little.
    """
    if neutral := neutral_headline(result.analysis):
        return neutral
    sizes = {e.names[0]: e.log_size for e in result.main_effects}
    for pair in result.interactions:
        decided = pair.verdict.kind in INTERACTION_TEXTS and not pair.aliases
        if decided and any(pair.log_size >= sizes[name] for name in pair.names):
            one, other = (result.factor_labels[name].label for name in pair.names)
            text = f"{one} and {other} act together: what one does depends on the other."
            return mark_exploratory(text, result.analysis.stopping_state)
    return first_line(result.analysis)


def supporting_text(result: FactorialAnalysis) -> str:
    """Return the sentences below the headline: the other factors that matter, then the pairs.

    If the A/A arm differs, the text is the reason why there is no verdict.
    """
    headline = factorial_headline(result)
    if result.analysis.is_void:
        return void_reason(result.analysis)
    others = [e for e in result.main_effects if e.verdict.kind in INTERACTION_TEXTS and e.label not in headline]
    sentences = [factorial_effect_sentence(e, result.factor_labels) for e in others[:MAX_NAMED]]
    return " ".join([*sentences, *interaction_sentences(result)])


def interaction_sentences(result: FactorialAnalysis) -> list[str]:
    """Return a sentence for each significant interaction (at most two), or one sentence that there is none.

    Empty if an effect has no verdict.
    """
    if any(e.verdict.kind == "invalid" for e in result.effects):
        return []
    significant = [e for e in result.interactions if e.verdict.kind in SIGNIFICANT_KINDS]
    if significant:
        return [
            conditional_effect_sentence(result, e) or factorial_effect_sentence(e, result.factor_labels)
            for e in significant[:MAX_NAMED]
        ]
    noun = "set of pairs" if any(e.aliases for e in result.interactions) else "pair"
    small, text = sum(e.verdict.kind == "equivalent" for e in result.interactions), ""
    if small:
        margin = margin_text(result.analysis.margin)
        text = f"; in {small} of {len(result.interactions)} any change is smaller than {margin}"
    return [f"No {noun} is shown to act together{text}."]


def conditional_effect_sentence(result: FactorialAnalysis, effect: FactorialEffect) -> str:
    """Return a sentence on the first factor's effect at each level of the second, for a pair `effect`.

    "" if the pair has aliases or its interval does not exclude 0.
    """
    plot = next((m for m in result.interaction_plots if m.effect == effect), None)
    if plot is None or effect.aliases:
        return ""
    one, other = (result.factor_labels[name] for name in effect.names)
    second = effect.names[1]
    digits = effect.verdict.decimals if effect.verdict.decimals is not None else 1
    changes = []
    for high, level in ((False, other.low), (True, other.high)):
        change, interval = plot.conditional_effects[high]
        bounds = f" ({format_percent_range(interval, digits)})" if interval else ""
        changes.append(f"{format_percent(change, digits)}{bounds} with {second} {level}")
    return f"{one.label}: {', '.join(changes)}, {comparison_evidence(effect.verdict.comparison)}."


def factorial_effect_sentence(effect: FactorialEffect, switches: Mapping[str, FactorLabels]) -> str:
    """Return the sentence on a main effect or a pair, beginning with its name; `switches`: factor -> its labels."""
    return f"{effect.label}{factorial_effect_phrase(effect, switches)}"


def factorial_effect_phrase(effect: FactorialEffect, switches: Mapping[str, FactorLabels]) -> str:
    """Return the part of the sentence that follows the effect's name; `switches`: factor -> its labels."""
    if len(effect.names) == 1 or effect.verdict.kind == "invalid":
        return verdict_parts(effect.verdict).after_name
    one, other = (switches[name].label for name in effect.names)
    parts = verdict_parts(effect.verdict, among="effects")
    return f": {parts.followed(parts.render(INTERACTION, one=one, other=other))}."


def unlisted_interactions(result: FactorialAnalysis) -> list[tuple[VerdictKind, str, str]]:
    """Return (verdict, count of pairs as text, sentence) for the pairs that have no sentence of their own."""
    margin = margin_text(result.analysis.margin)
    text_by_kind: dict[VerdictKind, str] = {
        "equivalent": f": any change of one factor’s effect by the other is smaller than {margin}.",
        "undecided": ": undecided; figure and table have their intervals.",
        "invalid": ": not compared.",
    }
    noun = "sets of pairs" if any(e.aliases for e in result.interactions) else "pairs"
    numbers = {kind: sum(e.verdict.kind == kind for e in result.interactions) for kind in text_by_kind}
    return [(kind, f"{n} of {len(result.interactions)} {noun}", text_by_kind[kind]) for kind, n in numbers.items() if n]


def cost_sentence(result: FactorialAnalysis) -> str:
    """Return the sentence on how many trials one factor at a time would have needed for the same precision."""
    one_at_a_time = one_factor_at_a_time_trials(result.design, result.trials)
    return (
        f"These {result.trials} trials tell every main effect as precisely as {one_at_a_time} trials "
        f"of one factor at a time ({len(result.design.names)} factors and the baseline), which would see no pair."
    )


def higher_order_sentence(result: FactorialAnalysis) -> str:
    """Return the sentence on whether three or more factors act together, which the design assumes not to happen."""
    number, significant = len(result.design.higher_order_effects), result.higher_order
    if not number:
        return "Whether three factors act together cannot be seen in so few combinations."
    if not significant:
        effects = pluralize(number, "such effect")
        return f"No three factors are shown to act together ({effects} looked at)."
    names = "; ".join(shorten_list(significant, MAX_NAMED))
    return f"Three or more factors act together ({names}): single effects and pairs are averages over that."


def factorial_error_sentences(errors: FactorialErrors | None, switches: Mapping[str, FactorLabels]) -> list[str]:
    """Return sentences about errors: factors with more or fewer errors, and pairs that bring or remove errors.

    `errors` is None if they were not counted; `switches`: factor -> its labels.
    """
    if errors is None:
        return ["Errors were not measured in every combination."]
    if not errors.trials_with_errors:
        share = format_percent(errors.upper_share or 0, 0, signed=False)
        return [
            f"No errors in {errors.trials} of {errors.trials} trials, so no factor and no pair is seen to bring or to "
            f"remove any (up to {share} of the trials with a factor switched could still have some)."
        ]
    decided = [e for e in errors.effects if e.kind != "undecided"]
    sentences = [_error_sentence(e, switches) for e in decided]
    if len(decided) < len(errors.effects):
        rest = "For the other effects" if decided else "Whether a factor or a pair brings or removes them"
        sentences.append(
            f"{rest}{':' if decided else ' is'} undecided (exact sign test over {errors.blocks} blocks, Holm)."
        )
    return [f"{errors.trials_with_errors} of {errors.trials} trials had errors.", *sentences]


def _error_sentence(effect: ErrorEffect, switches: Mapping[str, FactorLabels]) -> str:
    p = f"p{NBSP}{'<' if effect.p < 0.001 else '='}{NBSP}{max(effect.p, 0.001):.3f}"
    if len(effect.names) == 1:
        high, low = effect.trials_with_errors[(True,)], effect.trials_with_errors[(False,)]
        counts = f"{high[0]} of {high[1]} trials against {low[0]} of {low[1]}"
        return f"{switches[effect.names[0]].label} has errors in {effect.kind} trials: {counts} ({p})."
    labels = [switches[name].label for name in effect.names]
    both, neither = effect.trials_with_errors[(True, True)], effect.trials_with_errors[(False, False)]
    alone = [effect.trials_with_errors[(True, False)], effect.trials_with_errors[(False, True)]]
    counts_text = f"{both[0]} of {both[1]} trials with both, " + ", ".join(
        f"{count} of {all_} with {label} alone" for (count, all_), label in zip(alone, labels, strict=True)
    )
    for (count, _), one, other in zip(alone, labels, reversed(labels), strict=True):
        if effect.kind == "fewer" and count > max(both[0], neither[0]):
            return f"{other} removes errors that {one} brings: {counts_text} ({p})."
    return f"{' and '.join(labels)} together have errors in {effect.kind} trials than each alone: {counts_text} ({p})."
