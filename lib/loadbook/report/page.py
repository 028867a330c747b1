"""What every page begins and ends with: question, scope, trust, doubts, which trials count, set-up, provenance."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.core.names import unknown
from loadbook.core.units import NBSP, seconds, size
from loadbook.records.layout import layout
from loadbook.records.rundata import RunData, load_run
from loadbook.report import drivers, figures, hygiene, setup, trials, trust, verdicts
from loadbook.report.blocks import EMPTY, URGENT, Block, block, clean, notebook_style, render
from loadbook.report.build_gate import Gated, brief, gated
from loadbook.report.notebooks import DONE
from loadbook.report.show import drawn, markup, show
from loadbook.report.summary import GATE_GLYPHS
from loadbook.report.tables import plain, safe_table
from loadbook.stats.saturation import hosts_in, links_of
from loadbook.stats.wording.sentences import added_after

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.hygiene.carry import Carry
    from loadbook.stats.result import Analysis


class Page:
    """One run of one study, with the blocks that all of its pages share; every method returns what a cell shows."""

    notebook = ""
    explained: tuple[str, ...] = (
        "invalid",
        "note",
    )  # levels of gates that the gate block puts in words; doubts stand in their own

    def __init__(self, data: RunData, baseline: str = "", metric: str = "", level: float = 0.95) -> None:
        self.data = data
        self.baseline = baseline or None  # None: what the study declares, its contrasts included
        self.metric = metric or data.study.metric
        self.level = level

    @property
    def question(self) -> str:
        """What the page answers: its first heading."""
        return self.data.study.question

    @cached_property
    def analysis(self) -> Analysis:
        """The answer to the study's question on the page's metric."""
        return self.analyse(self.metric)

    @cached_property
    def values(self) -> pd.DataFrame:
        """The page's metric, one row per trial."""
        return self.data.values(self.metric)

    @cached_property
    def build_gate(self) -> Gated | None:
        """What the build gate that the run was planned with says of it; None where it has none."""
        return gated(self.data)

    @cached_property
    def notes(self) -> list[trials.Spoken]:
        """What the order of the trials may have done to them."""
        told = imported(self.data)
        timed = not told or told["timed"]
        return hygiene.notes(self.carried, self.analysis, self.values, self.labels) if timed else []

    @cached_property
    def carried(self) -> Carry | None:
        """What is known of carry-over from one trial to the next; None if nothing is."""
        return hygiene.carry(self.data, self.analysis, self.values)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Each treatment as readers see it."""
        return {name: self.data.study.label(name) for name in self.data.study.treatments}

    def scope(self) -> Block:
        """Show the question and, in one line, what was done to answer it."""
        line = " · ".join(scope_parts(self.data, self.analysis.margin))
        shown = block("scope.html.j2", f"{self.question}\n{line}", question=self.question, line=line)
        return Block(notebook_style() + shown.html, shown.text)

    def analyse(self, metric: str, statistic: str | None = None, baseline: str = "") -> Analysis:
        """Return the analysis of another metric, or against another baseline, by the same rules."""
        from loadbook.stats.parts import analyse_parts

        return analyse_parts(
            self.data, metric=metric, statistic=statistic, baseline=baseline or self.baseline, level=self.level
        )

    def trust(self) -> Block:
        """Show in four cells whether the instrument works: A/A arm, known effect, trials that count, doubts.

        Below them stands what the build gate says of the study's own question, where the study has one.
        """
        cells = trust.trust(self.data, self.analysis, self.notes)
        lines, gate, glyph = [f"{c.glyph} {c.title}: {c.text}" for c in cells], None, None
        if self.build_gate:
            gate, glyph = self.build_gate.sentence, GATE_GLYPHS[self.build_gate.judged.outcome]
            lines.append(f"{glyph} {gate}")
        return block("trust.html.j2", "\n".join(lines), cells=cells, gate=gate, glyph=glyph)

    def figure(self, name: str, *data: Any, **options: Any) -> Block:
        """Show the module `name` of report.figures with the data it documents; the door for figures of your own."""
        return show(figure_module(name), *data, **options)

    def order(self) -> Block:
        """Show every trial by its place in the order of execution, and the drift below."""
        from loadbook.report.figures import order

        told = imported(self.data)
        if told and not told["timed"]:
            return note(f"Not known: {told['conditions']} does not say when each trial began.")
        if not (self.values["value"] > 0).any():
            return note("Not known: no trial has a value of this metric.")
        shown = show(order, self.analysis, self.values, reasons=trials.reasons(self.data))
        said = " ".join(hygiene.sentences(self.carried, self.analysis, self.values, self.labels))
        return Block(shown.html + note(said).html, f"{shown.text}\n{clean(said)}")

    def errors(self) -> Block:
        """Show errors per trial; first on the page when a treatment is shown to have more than the baseline."""
        from loadbook.report.figures import errors

        if not errors.needed(self.analysis):
            return note(verdicts.no_errors(self.analysis))
        table = verdicts.error_table(self.analysis, self.labels)
        shown = drawn(errors, self.analysis, self.data.values("errors"), self.data.values("requests"))
        urgent = {URGENT: True} if verdicts.errors_matter(self.analysis) else {}
        return Block(str(markup(shown) + safe_table(table)), str(clean(f"{shown.answer}\n{plain(table)}")), urgent)

    def limit(self) -> Block:
        """Show the traces of the median block, which say what resource was full, and whether it was the driver's."""
        from loadbook.report.figures import traces

        data = self.data
        if not traces.needed(data.traces):
            return note("Not known: no monitor recorded anything.")
        rates, windows = (self._known(name) for name in ("ok_per_s", "duration"))
        hosts = hosts_in(data.traces, data.run_json["hosts"])
        known = {"hosts": hosts, "links": links_of(hosts), "labels": self.labels, "windows": windows, "rates": rates}
        return show(traces, data.traces, data.trials, **known)

    def _known(self, metric: str) -> dict[str, float]:
        """Return trial -> value of a metric where there is one."""
        values = self.data.values(metric).set_index("trial")["value"].dropna()
        return {str(trial): float(value) for trial, value in values.items()}

    @property
    def flags(self) -> list[trials.Spoken]:
        """What the comparisons themselves make doubtful."""
        return trust.notes(self.analysis)

    def doubts(self) -> Block:
        """Show in words what could still be wrong, one line each."""
        lines = [*trials.doubts(self.data), *self.flags, *self.notes]
        text = "\n".join(f"- {d.title}: {d.text}" for d in lines) or "No gate had a doubt."
        return block("doubts.html.j2", text, doubts=lines)

    def which_count(self) -> Block:
        """Show the gate matrix and, below it, a sentence of each gate that spoke."""
        from loadbook.report.figures import gates

        return trials.gate_block(self.data, gates, self.labels, self.explained)

    def setup(self) -> Block:
        """Show how treatments differ, on which hosts they ran, and what changed there during the run."""
        data = self.data
        changes, others = setup.fact_changes(data), setup.other_facts(data)
        return block(
            "setup.html.j2",
            plain(setup.differences(data)),
            background=data.study.background,
            differences=safe_table(setup.differences(data)),
            diffs=setup.config_diffs(data),
            hosts=safe_table(setup.hosts(data)),
            facts=safe_table(others) if others.rows else None,
            changes=safe_table(changes) if changes.rows else None,
        )

    def every_trial(self) -> Block:
        """Show every trial in order of execution, the excluded ones with their reason."""
        table = trials.every_trial(self.data, self.metric, self.labels)
        html = render("details.html.j2", summary=f"Every trial ({len(table.rows)})", inside=safe_table(table))
        return Block(str(html), plain(table))

    def provenance(self) -> Block:
        """Show where the page comes from; as the last block it also tells the runner that the end was reached."""
        pairs = setup.provenance(self.data)
        shown = block("provenance.html.j2", "\n".join(f"{k}: {v}" for k, v in pairs), pairs=pairs)
        return Block(shown.html, shown.text, {DONE: self.summary()})

    def summary(self) -> dict[str, Any]:
        """Return what the index page and the command line say about this run."""
        return {
            "notebook": self.notebook,
            "study": self.data.study.name,
            "run": self.data.run,
            "question": self.data.study.question,
            "started": self.data.run_json["started"],
            "ended": self.data.run_json["ended"],
            "origin": "; ".join(_origin(self.data)),
            **({"gate": brief(self.build_gate)} if self.build_gate else {}),
        } | trials.count(self.data)


def figure_module(name: str) -> Any:
    """Return a module of report.figures that draws; UsageError for any other name."""
    module = importlib.import_module(f"{figures.__name__}.{name}") if name in _modules() else None
    if not hasattr(module, "alt"):
        raise unknown("figure", name, figure_names())
    return module


def figure_names() -> list[str]:
    """Return the names of all figures of one run, in alphabetical order."""
    found = {name: importlib.import_module(f"{figures.__name__}.{name}") for name in _modules()}
    return [name for name, module in found.items() if hasattr(module, "alt") and name not in figures.OF_SEVERAL_RUNS]


def _modules() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(figures.__path__))


def note(text: str) -> Block:
    """Return one sentence as a block."""
    return Block(str(render("note.html.j2", text=text)), str(clean(text)))


def nothing(text: str) -> Block:
    """Return the block of a section that has nothing to say; exported pages leave the section out."""
    return replace(note(text), data={EMPTY: True})


def run_data(study: str, run: str = "latest") -> RunData:
    """Load a run of the project that the current folder lies in."""
    return load_run(layout(), study, run)


def scope_parts(data: RunData, margin: float) -> list[str]:
    """Return the parts of the scope line: origin, load, page and service, margin, trials, duration.

    What an imported run does not know is left out.
    """
    run, work = data.run_json, data.study.workload
    served = data.trials["response_bytes"].dropna()
    page = f"page of {size(served.mode().iloc[0])}" if len(served) else f"page {work.path}"
    trials_text = NBSP.join(map(str, [len(data.plan["treatments"]), "treatments", "×", data.plan["blocks"], "blocks"]))
    last = run["ended"] or data.trials["started"].max()
    told = imported(data)
    return [
        *_origin(data),
        ", ".join([*sorted(set(data.trials["tool"])), *_loads(data), *drivers.scope(data)]),
        *DELAYS.get(run.get("delay") or "", []),
        *([f"{page}{_served_by(data)}"] if not told or len(served) else []),
        f"margin ±{margin * 100:g}{NBSP}%, declared {'with the import' if told else 'before the run'}",
        *([] if data.study.stopping.rule == "fixed" else [data.study.stopping.said()]),
        trials_text + ("" if told and not told["timed"] else f", {seconds(last - run['started'])}"),
    ]


DELAYS = {"kernel": ["delay by the kernel (netem)"], "userspace": ["delay by a line in userspace"]}
MAX_SERVICES = 3


def _served_by(data: RunData) -> str:
    """Return " on nginx 1.22.1, go-app 1.0", the services in the order in which requests come to them."""
    versions, hosts = data.run_json["service_versions"], data.run_json["hosts"]
    way = [role for role in data.study.roles if role != data.study.workload.role]
    there = [alias for role in way for alias, host in hosts.items() if role in host["roles"]]
    names = dict.fromkeys(name for alias in there if alias in versions for name in versions[alias].split(", "))
    return f" on {', '.join([*names][:MAX_SERVICES])}" if names else ""


def imported(data: RunData) -> dict[str, Any] | None:
    """Return what is known of a run's import (folder, conditions, timed, at), None for one that loadbook did."""
    told: dict[str, Any] | None = data.run_json.get("imported")
    return told


def _origin(data: RunData) -> list[str]:
    """Return what a reader must know first: a run not measured here and now, or one that confirms nothing."""
    told, replayed = imported(data), data.run_json.get("replay")
    if told:
        word = f"conditions are as {told['conditions']} says"
        return [f"IMPORTED from {told['folder']}: loadbook measured nothing, {word}"]
    added = data.plan.get("added", 0)
    replay = [f"REPLAY of run {replayed}: nothing was measured anew"] if replayed else []
    return replay + ([f"EXPLORATORY: {added_after(added)}"] if added else [])


def _loads(data: RunData) -> list[str]:
    """Return the loads of a run's trials: at which rates, or with how many connections, as far as it is known."""
    found = []
    rates = sorted(set(data.trials["offered_per_s"].dropna()))
    if rates:
        found.append(" to ".join(f"{rate:,.0f}" for rate in dict.fromkeys((rates[0], rates[-1]))) + " requests/s")
    if "closed" in set(data.trials["load_model"]):
        connections = sorted(set(data.trials["concurrency"].dropna()))
        number = " to ".join(f"{n:.0f}" for n in dict.fromkeys(connections[:1] + connections[-1:]))
        found.append("closed loop" + (f", {number} connections" if number else ""))
    return found
