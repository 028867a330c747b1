"""Text in figures: measured before it is placed, wrapped to a width, pushed apart, and only with letters that exist."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Sequence

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import text_to_path

from loadbook.core.units import join_words

FONT = "DejaVu Sans"
LINE = 1.25


@functools.cache
def font(bold: bool, italic: bool = False) -> FontProperties:
    """Return the figures' font without a size; copy it before setting one."""
    return FontProperties(family=FONT, weight="bold" if bold else "normal", style="italic" if italic else "normal")


@functools.lru_cache(8192)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of one line in inches; 2 % more than its outline, for renderers that hint."""
    letters = font(bold).copy()
    letters.set_size(size)
    return float(text_to_path.get_text_width_height_descent(text, letters, ismath=False)[0]) / 72 * 1.02


def widest(texts: Sequence[str], size: float, bold: bool = False) -> float:
    """Return the width in inches of the widest line among `texts`; 0 for none."""
    return max((text_width(line, size, bold) for text in texts for line in text.split("\n")), default=0.0)


@functools.cache
def _drawable(character: str) -> bool:
    return character == "\n" or all(get_font(findfont(font(b))).get_char_index(ord(character)) for b in (False, True))


def drawable(name: str, otherwise: str) -> str:
    """Return `name` where the figures' font has all of its characters, else `otherwise`."""
    name = " ".join(name.split())
    return name if name and all(map(_drawable, name)) else "".join(c if _drawable(c) else "?" for c in otherwise)


def wrap(text: str, width_in: float, size: float, bold: bool = False, lines: int = 2) -> str:
    """Break `text` to at most `lines` lines of `width_in`, at spaces or signs where it can; the rest becomes `…`."""
    if text_width(text, size, bold) <= width_in:
        return text
    done: list[str] = []
    rest = text
    while rest and len(done) < lines:
        head = _head(rest, width_in, size, bold)
        done.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    if rest:
        last = done[-1]
        while last and text_width(last + "…", size, bold) > width_in:
            last = last[:-1]
        done[-1] = last.rstrip() + "…"
    return "\n".join(done)


def shortened(name: str, width_in: float, size: float, bold: bool = False) -> str:
    """Return `name` in one line of `width_in`, cut in its middle: names of one study often differ at their ends."""
    if text_width(name, size, bold) <= width_in:
        return name
    kept = len(name) - 1
    while kept > 2 and text_width(_cut(name, kept), size, bold) > width_in:
        kept -= 1
    return _cut(name, kept)


def _cut(name: str, kept: int) -> str:
    return f"{name[: kept - kept // 2].rstrip()}…{name[len(name) - kept // 2 :].lstrip()}"


def _head(text: str, width_in: float, size: float, bold: bool) -> str:
    """Return the longest start of `text` that fits, broken where a reader would break it if that is not too early."""
    starts = range(1, len(text) + 1)
    fits = max(1, bisect_right(starts, width_in, key=lambda n: text_width(text[:n].rstrip(), size, bold)))
    if fits == len(text):
        return text
    early = 0.35 * fits
    for signs in (" ", "_-,;/+:"):
        breaks = [i + 1 for i in range(fits + 1) if text[i] in signs and i >= early and (i < fits or signs == " ")]
        if breaks:
            return text[: breaks[-1]]
    return text[:fits]


def pushed_apart(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions in the order of `wanted`, as near to it as boxes of these sizes within low..high allow."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[tuple[list[int], float, float]] = []  # members, sum of (wanted - offset), size
    for i in order:
        members, total, size = [i], wanted[i] - sizes[i] / 2, sizes[i]
        while groups and _start(groups[-1], low, high) + groups[-1][2] > _start((members, total, size), low, high):
            before, sum_before, size_before = groups.pop()
            total += sum_before - len(members) * size_before
            members, size = before + members, size + size_before
        groups.append((members, total, size))
    places = [0.0] * len(wanted)
    for group in groups:
        edge = _start(group, low, high)
        for i in group[0]:
            places[i] = edge + sizes[i] / 2
            edge += sizes[i]
    return places


def _start(group: tuple[list[int], float, float], low: float, high: float) -> float:
    members, total, size = group
    return max(low, min(total / len(members), high - size))


def line_in(size: float, lines: int = 1) -> float:
    """Return the height in inches of so many lines of letters of `size` points."""
    return size * LINE * lines / 72


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return "1 trial" or "12 trials"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(items: Sequence[str], most: int, noun: str) -> str:
    """Return the items joined, or the first ones and how many more there are."""
    if len(items) <= most:
        return join_words(items)
    return ", ".join(items[: most - 1]) + f" and {len(items) - most + 1} other {noun}"
