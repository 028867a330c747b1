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
# context that the reader of one answer needs
NOTES = {
    "lb-vs-single": "On two CPUs a balancer takes its CPU time from the node: this lab shows its full cost, and two "
    "nodes bring nothing. In the next study the nodes are the limit.",
    "lb-scaling": "[studies.md](studies.md#lb-vs-single) has twenty blocks of it on a quiet machine.",
    "backend-modes": "Near: 100 connections with keep-alive. Remote: a delay toward the target, 250 connections, no "
    "keep-alive.",
    "page-size-tps-link": "The link is narrow on purpose: the lab's own network is never the limit.",
    "cpu-affinity": "Proxy, application, store and load generator share two CPUs, so the gain from more cores or "
    "sockets cannot be seen.",
}
HEAD = """# Gallery: five articles, measured again

Five engineers published one experiment each, with one run per configuration. Each section below has the same question,
measured in loadbook's lab: the figure, the verdict of the report, and the article's claims beside the result. Each
study has 15 or 18 blocks. The treatments of a block take turns in slices ([interleaving.md](interleaving.md)) where
nothing speaks against it; the last line of each section says so, or why not."""
LAB = """\
**Limits of this lab.** All hosts are one machine with {cores}, each host an sshd of its own, on loopback addresses or
in network namespaces. The load generator has one CPU; the servers have the other or, where the page says so, both. The
results show which configuration is faster there, and by how much. They do not show the rates of your hardware, the gain
from more cores or a real network, or effects of larger machines. The articles' numbers have no intervals, as each was
measured once."""
SHORT = """\
Runs of a `-smoke` study are short (6 blocks of 1 s), so many of their verdicts are *undecided*."""
MAKE = f"""## Update this page

The page shows the newest complete run of each study, whatever its result. The command below each figure runs in the lab
of your machine, and `loadbook report STUDY` makes the whole report. This takes runs from a project folder into the
page:

```sh
{COMMAND} FOLDER          # of each study the newest complete run, or that of its smoke variant
{COMMAND} FOLDER STUDY    # only this study
```

The data are in [gallery.json](pictures/gallery.json). [studies.md](studies.md) describes every study,
[claims.md](claims.md) how claims are judged."""


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
    yield "| question | result |\n|---|---|"
    for studies in ARTICLES.values():
        for one in (kept[study] for study in studies if study in kept):
            yield f"| [{one['question']}](#{anchor(one['question'])}) | {_sentence(one['verdict'])} |"


def anchor(heading: str) -> str:
    """Return the anchor that GitHub assigns to a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _exhibit(study: str, one: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one study: picture, verdict, the article's claims, and how it was measured."""
    yield f"### {one['question']}"
    yield f"![{one['alt']}](pictures/{one['picture']})"
    repeats = one["answer"] in (one["verdict"], one["tally"])
    more = [] if repeats else [_without_verdict(one["answer"], one["verdict"])]
    yield " ".join([f"**{_sentence(one['verdict'])}**", *map(_sentence, more), *filter(None, [NOTES.get(study)])])
    if one["claims"]:
        yield "\n".join(
            ["| claim of the article | its numbers, one run each | here |\n|---|---|---|", *map(_row, one["claims"])]
        )
        yield one["tally"].partition(". ")[2]
    yield f"Harness checks: {'; '.join(one['checks'])}."
    yield f"`loadbook run {one['study']}`, run {one['began']} on {one['machine']}: {one['scope']}. {_execution(one)}"


def _execution(one: dict[str, Any]) -> str:
    return f"Execution: {one['execution']}." if "execution" in one else ""


def _without_verdict(answer: str, verdict: str) -> str:
    """Return the report's answer without a first clause that repeats the verdict."""
    return answer.partition("; ")[2] if answer.startswith(verdict.partition(" (")[0]) and "; " in answer else answer


def _sentence(text: str) -> str:
    """Return a sentence with a capital first letter."""
    return text[:1].upper() + text[1:]


def _row(claim: dict[str, Any]) -> str:
    late = " (written down after this run)" if claim["late"] else ""
    return f"| {claim['claim']} | {claim['numbers']} | {claim['glyph']} {claim['word']}{late}. {claim['evidence']} |"
