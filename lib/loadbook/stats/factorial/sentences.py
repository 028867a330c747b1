"""What a factorial run lets us say: main effects as usual, pairs as what one does to the effect of the other."""

from __future__ import annotations

import math
from collections.abc import Mapping

from loadbook.core.units import NBSP, percent, percent_range
from loadbook.stats.factorial.effects import Effect, FactorialAnalysis, Switch, one_at_a_time
from loadbook.stats.factorial.errors import ErrorEffect, ErrorFindings
from loadbook.stats.result import Interval, VerdictKind
from loadbook.stats.wording.headline import as_it_stands
from loadbook.stats.wording.headline import headline as first_line
from loadbook.stats.wording.sentences import confidence, margin_text, more_blocks, only_alone, phrase, stands_on
from loadbook.stats.wording.shown import comparison_texts

MAX_NAMED = 2  # factors, and pairs, in the first lines of a page
ACTING = ("better", "worse", "small")
PAIR_WORDS = {"better": "better together", "worse": "worse together"}


def headline(found: FactorialAnalysis) -> str:
    """Return the verdict on the study's question: what single factors do, or that two depend on each other."""
    entwined = next((e for e in found.pairs if e.verdict.kind in PAIR_WORDS and _entwined(found, e)), None)
    if entwined is None:
        return first_line(found.analysis).replace("treatment", "factor")
    one, other = (found.switches[name].label for name in entwined.names)
    said = f"{one} and {other} act together: what one does depends on the other."
    return as_it_stands(said, found.analysis.stand)


def _entwined(found: FactorialAnalysis, pair: Effect) -> bool:
    """Whether a pair changes as much as one of its factors does on average, which then says little."""
    if pair.aliases:
        return False
    sizes = {e.names[0]: abs(math.log1p(e.verdict.comparison.effect or 0.0)) for e in found.mains}
    own = abs(math.log1p(pair.verdict.comparison.effect or 0.0))
    return any(own >= sizes[name] for name in pair.names)


def support(found: FactorialAnalysis) -> str:
    """Return what stands below the headline: the other factors that matter, then the pairs.

    Of a laboratory that contradicts itself it is the reason.
    """
    first = headline(found)
    if found.analysis.laboratory:
        return found.analysis.laboratory.removeprefix(first).strip()
    named = [e for e in found.mains if e.verdict.kind in PAIR_WORDS and e.label not in first][:MAX_NAMED]
    return " ".join([*(effect_sentence(e, found.switches) for e in named), *together(found)])


def together(found: FactorialAnalysis) -> list[str]:
    """Return a sentence on each of the pairs that act together, or that none is shown to."""
    if any(e.verdict.kind == "invalid" for e in found.effects):
        return []
    acting = [e for e in found.pairs if e.verdict.kind in ACTING]
    if acting:
        return [apart(found, e) or effect_sentence(e, found.switches) for e in acting[:MAX_NAMED]]
    what = "set of pairs" if any(e.aliases for e in found.pairs) else "pair"
    return [f"No {what} is shown to act together{_small(found)}."]


def _small(found: FactorialAnalysis) -> str:
    small = sum(e.verdict.kind == "equivalent" for e in found.pairs)
    if not small:
        return ""
    return f"; in {small} of {len(found.pairs)} any change is smaller than {margin_text(found.analysis.margin)}"


def apart(found: FactorialAnalysis, effect: Effect) -> str:
    """Return what the first of a pair does at each level of the second, "" where that is not known for itself."""
    meeting = next((m for m in found.meetings if m.effect == effect), None)
    if meeting is None or effect.aliases:
        return ""
    one, other = (found.switches[name] for name in effect.names)
    second = effect.names[1]
    said = [f"{_change(*meeting.given[high], effect)} with {second} {level}"
            for high, level in ((False, other.low), (True, other.high))]  # fmt: skip
    return f"{one.label}: {', '.join(said)}, {stands_on(effect.verdict.comparison)}."


def _change(change: float, interval: Interval | None, effect: Effect) -> str:
    digits = effect.verdict.decimals if effect.verdict.decimals is not None else 1
    bounds = f" ({percent_range(interval, digits)})" if interval else ""
    return f"{percent(change, digits)}{bounds}"


def effect_sentence(effect: Effect, switches: Mapping[str, Switch]) -> str:
    """Return the report's sentence on a main effect or a pair."""
    return f"{effect.label}{effect_phrase(effect, switches)}"


def effect_phrase(effect: Effect, switches: Mapping[str, Switch]) -> str:
    """Return what follows an effect's name, so that a report can set the name in bold."""
    if len(effect.names) == 1 or effect.verdict.kind == "invalid":
        return phrase(effect.verdict)
    one, other = (switches[name].label for name in effect.names)
    verdict, texts, margin = effect.verdict, comparison_texts(effect.verdict), margin_text(effect.verdict.margin)
    subject, blocks = f": with {other}, the effect of {one}", stands_on(verdict.comparison)
    if verdict.kind == "equivalent":
        level = confidence(verdict.comparison.level, one_sided=True)
        return f"{subject} changes by no more than {margin} ({level} interval {texts.interval90}), {blocks}."
    if verdict.kind == "undecided":
        alone, more = only_alone(verdict, "effects"), more_blocks(verdict)
        return f": undecided: {subject[2:]} changes by {texts.interval}, {blocks}.{alone} {more}"
    level = confidence(verdict.comparison.level)
    said = f"{subject} changes by {texts.change} ({level} interval {texts.interval})"
    if verdict.kind == "small":
        return f"{said}: real, but smaller than the {margin} that matters, {blocks}."
    return f"{said}, {blocks}: {PAIR_WORDS[verdict.kind]}."


def quiet_pairs(found: FactorialAnalysis) -> list[tuple[VerdictKind, str, str]]:
    """Return kind, name and sentence of the pairs that no sentence names: how many are equivalent, how many open."""
    margin = margin_text(found.analysis.margin)
    said: dict[VerdictKind, str] = {
        "equivalent": f": any change of one factor’s effect by the other is smaller than {margin}.",
        "undecided": ": undecided; figure and table have their intervals.",
        "invalid": ": not compared.",
    }
    what = "sets of pairs" if any(e.aliases for e in found.pairs) else "pairs"
    numbers = {kind: sum(e.verdict.kind == kind for e in found.pairs) for kind in said}
    return [(kind, f"{n} of {len(found.pairs)} {what}", said[kind]) for kind, n in numbers.items() if n]


def cost(found: FactorialAnalysis) -> str:
    """Return what the design saved against one factor at a time, and what that could not have seen."""
    alone = one_at_a_time(found.design, found.trials)
    return (
        f"These {found.trials} trials tell every main effect as precisely as {alone} trials of one factor at a time "
        f"({len(found.design.names)} factors and the baseline), which would see no pair."
    )


def three(found: FactorialAnalysis) -> str:
    """Return whether three factors act together, which every effect here supposes they do not."""
    number, shown = len(found.design.higher), found.three
    if not number:
        return "Whether three factors act together cannot be seen in so few combinations."
    if not shown:
        return (
            f"No three factors are shown to act together ({number} such effect{'' if number == 1 else 's'} looked at)."
        )
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    names = "; ".join(shown[:MAX_NAMED])
    return f"Three or more factors act together ({names}{more}): single effects and pairs are averages over that."


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
