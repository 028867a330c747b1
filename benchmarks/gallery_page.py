"""Text of docs/gallery.md, made from the stored results of its runs (docs/pictures/gallery.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "pictures"
KEPT = PICTURES / "gallery.json"
COMMAND = ".venv/bin/python benchmarks/gallery.py"

# articles in the order of docs/studies.md: what each one is about -> its studies
ARTICLES = {
    "Directives of nginx, and a balancer": ("nginx-directives", "lb-vs-single", "lb-scaling"),
    "A whole tuned nginx.conf": ("nginx-whole-file",),
    "Ways to the application": ("backend-modes",),
    "Page size over TLS": ("page-size-tps-link",),
    "Cores of their own": ("cpu-affinity",),
}
# what a reader of one answer must know besides
NOTES = {
    "lb-vs-single": "On two CPUs a balancer takes its time from the node, so this lab shows its whole price, and two "
    "nodes bring nothing: the next study has nodes that are the limit.",
    "lb-scaling": "Twenty blocks of it, on a quiet machine: [studies](studies.md#lb-vs-single).",
    "backend-modes": "Near: 100 connections, kept. Remote: a delay on the way, 500 connections, none kept.",
    "page-size-tps-link": "The link is narrow on purpose: this lab's network, being none, is never the limit else.",
    "cpu-affinity": "Proxy, application, store and load generator share two CPUs: what more cores or sockets would "
    "gain cannot be seen here.",
}
HEAD = """# Gallery: five articles, asked again

Five engineers published one experiment each, every configuration run once. These are the lab's answers to their
questions: for each the figure, the verdict sentence of its report, and what the article said beside what was found."""
LAB = """\
**What this lab can say, and what not.** All hosts are one machine with {cores}, each an sshd of its own, on loopback
addresses or in network namespaces: the load generator has one CPU, the servers share the other or, where the page says
so, both. Which configuration is ahead there, by how much and how sure, can be said; rates of your hardware, what more
cores or a real network bring, and differences that only a larger machine has, cannot. An article's number has no
interval, as it was measured once."""
SHORT = """\
Runs of a `-smoke` study are short (6 blocks of 1 s): many of their verdicts are *undecided*, which is an answer about
the run."""
MAKE = f"""## Make it again

What is shown is the newest complete run of a study, whatever it says. Each command below its figure runs in the lab of
your machine, `loadbook report STUDY` makes the whole page, and in a folder with runs

```sh
{COMMAND} FOLDER          # the newest complete run there of each study, or of its smoke variant
{COMMAND} FOLDER STUDY    # of this one only; the others stay
```

takes them into this page. What is shown is kept in [gallery.json](pictures/gallery.json); [studies](studies.md) has
every study, [claims](claims.md) how sentences are judged."""


def load() -> dict[str, Any]:
    """Return {study: the stored results of its run}."""
    known: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    return known


def written(kept: dict[str, Any]) -> str:
    """Return the text of the page."""
    cores = " or ".join(sorted({one["cores"] for one in kept.values()}))
    short = [SHORT] if any(one["study"].endswith("-smoke") for one in kept.values()) else []
    parts = [HEAD, LAB.format(cores=cores), *short, "\n".join(_overview(kept))]
    for number, (title, studies) in enumerate(ARTICLES.items(), 1):
        shown = {study: kept[study] for study in studies if study in kept}
        parts.append(f"## {number}. {title}")
        parts += [f"*{source}*" for source in dict.fromkeys(one["source"] for one in shown.values() if one["source"])]
        parts += [part for study, one in shown.items() for part in _exhibit(study, one)]
    return "\n\n".join([*parts, MAKE]) + "\n"


def _overview(kept: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of the studies' questions and verdicts."""
    yield "| question | answer here |\n|---|---|"
    for studies in ARTICLES.values():
        for one in (kept[study] for study in studies if study in kept):
            yield f"| [{one['question']}](#{anchor(one['question'])}) | {_sentence(one['verdict'])} |"


def anchor(heading: str) -> str:
    """Return the anchor that GitHub assigns to a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _exhibit(study: str, one: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one study: picture, verdict, the article's statement, and how it was measured."""
    yield f"### {one['question']}"
    yield f"![{one['alt']}](pictures/{one['picture']})"
    more = [one["answer"]] if one["answer"] not in (one["verdict"], one["tally"]) else []
    yield " ".join([f"**{_sentence(one['verdict'])}**", *map(_sentence, more), *filter(None, [NOTES.get(study)])])
    if one["claims"]:
        yield "\n".join(
            ["| the article said | its numbers, one run each | here |\n|---|---|---|", *map(_row, one["claims"])]
        )
        yield one["tally"]
    yield f"Checks of the laboratory: {'; '.join(one['checks'])}."
    yield f"`loadbook run {one['study']}`, run {one['began']} on {one['machine']}: {one['scope']}."


def _sentence(text: str) -> str:
    """Return a sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def _row(claim: dict[str, Any]) -> str:
    late = " (written down after this run)" if claim["late"] else ""
    return f"| {claim['claim']} | {claim['numbers']} | {claim['glyph']} {claim['word']}{late}. {claim['evidence']} |"
