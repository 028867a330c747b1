"""Every figure of the reports by its name, drawn for one run: ``run.plot.order()``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.balancers.page import BalancersPage
from loadbook.analyses.claims import page as claims
from loadbook.analyses.compare_runs.page import PREVIOUS
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.notebook.compare import comparison_page
from loadbook.notebook.display import Displayable, FigureView
from loadbook.notebook.trials import resolve_metric
from loadbook.report import checks, sections
from loadbook.report.blocks import Block, render_block
from loadbook.report.page import figure_module
from loadbook.stats import saturation
from loadbook.store.tables import RunData

if TYPE_CHECKING:
    from loadbook.stats.results import Analysis


class Plots(Displayable):
    """The figures of a run, one method each; the repr lists them with what each one shows."""

    def __init__(self, data: RunData) -> None:
        self._data = data

    @cached_property
    def _page(self) -> EffectsPage:
        return EffectsPage(self._data)

    def _analysis(self, metric: str) -> Analysis:
        """Return the comparisons of a metric."""
        name, statistic = resolve_metric(self._data, metric or self._data.study.metric)
        return EffectsPage(self._data, metric=name).analyse(name, statistic)

    def effects(self, metric: str = "") -> FigureView:
        """Draw which treatments matter, which way, and whether the checks of the laboratory passed (figure 1)."""
        return self._drawn("effects", self._analysis(metric))

    def losses(self, metric: str = "") -> FigureView:
        """Draw whether each loss is certainly smaller than what is accepted (figure 8)."""
        return self._drawn("losses", self._analysis(metric))

    def order(self, metric: str = "") -> FigureView:
        """Draw every trial in order of execution, and below it the drift of the hosts (figure 2)."""
        found = self._analysis(metric)
        values = self._data.values(found.metric, found.statistic)
        if not (values["value"] > 0).any():
            raise UsageError(f"no trial has a positive {found.metric}", "another metric: run.metrics")
        return self._drawn("order", found, values, sections.exclusion_reasons(self._data))

    def pairs(self, treatment: str = "", metric: str = "") -> FigureView:
        """Draw the single blocks of one comparison: do they agree, or does one make the effect (figure 3)."""
        from loadbook.analyses.effects import pairs

        found = self._analysis(metric)
        able = [row.treatment for row in found.rows if row.verdict and row.verdict.comparison.effect is not None]
        if treatment not in able and (treatment or not able):
            raise unknown_name_error("comparison with complete blocks", treatment, able, plural="treatments")
        values = self._data.values(found.metric, found.statistic)
        return self._drawn("pairs", found, treatment or pairs.choose(found), values)

    def errors(self) -> FigureView:
        """Draw errors per trial: which treatments fail, and in how many trials (figure 4)."""
        return self._drawn("errors", self._page.analysis, self._data.values("errors"), self._data.values("requests"))

    def latency(self) -> FigureView:
        """Draw the latency percentiles of every trial, each with verdicts of its own (figure 5)."""
        if not self._page.panels:
            raise UsageError(f"no percentiles of {', '.join(self._data.tools)} in this run", "run.metrics has the rest")
        return self._drawn(
            "latency", self._page.analysis, panels=self._page.panels, quantity=self._page.percentile_text()
        )

    def distribution(self) -> FigureView:
        """Draw the latency of all requests of each treatment together: a picture, never tested."""
        curves = checks.treatment_curves(self._data)
        if not curves:
            raise UsageError(
                "no trial of this run kept its requests one by one", "docs/big-results.md says which tools do"
            )
        return self._drawn("distribution", self._page.analysis, curves)

    def traces(self, trial: str = "", block: int | None = None) -> FigureView:
        """Draw what each resource did in one block, that of `trial` or the one in the middle (figure 7).

        Amber: the resource was full.
        """
        number = self._block_of(trial) if trial else block
        known = sorted({int(b) for b in self._data.trials["block"]})
        if number is not None and number not in known:
            raise unknown_name_error("block", number, map(str, known))
        page, watched = self._page, self._watched()
        return self._drawn(
            "traces", self._data.traces, self._data.trials, hosts=watched, links=saturation.link_capacities(watched),
            labels=page.labels, windows=self._windows(), rates=self._values("ok_per_s"), block=number,
        )  # fmt: skip

    def overlay(self, treatment: str = "") -> FigureView:
        """Draw the traces of every trial (of one treatment) over one another: is one unlike the others."""
        own = self._data.trials
        if treatment:
            own = own[own["treatment"] == treatment]
            if own.empty:
                raise unknown_name_error("treatment", treatment, self._data.plan["treatments"])
        watched = self._watched()
        mine = self._data.traces[self._data.traces["trial"].isin(list(own["trial"]))]
        options = {"windows": self._windows(), "links": saturation.link_capacities(watched)}
        return self._drawn("overlay", mine, own, watched, self._page.labels, **options)

    def cores(self, host: str = "", block: int | None = None) -> FigureView:
        """Draw each core and process of one host in one block: which could do no more."""
        from loadbook.report.figures import cores

        watched = self._watched()
        able = [alias for alias in watched if cores.needed(self._data.traces, alias)]
        if host not in able and (host or not able):
            raise unknown_name_error("host whose cores were watched", host, able, plural="hosts")
        chosen = host or next((a for a in able if "driver" not in watched[a].get("roles", [])), able[0])
        options = {"windows": self._windows(), "block": block}
        return self._drawn("cores", self._data.traces, self._data.trials, watched, self._page.labels, chosen, **options)

    def beside(self, trial: str) -> FigureView:
        """Draw one trial beside the others of its treatment: what its hosts did otherwise."""
        self._block_of(trial)
        return self._drawn(
            "beside", self._data.traces, self._data.trials, self._watched(), trial, windows=self._windows()
        )

    def gates(self) -> FigureView:
        """Draw which gates spoke of which trial, in order of execution (figure 10)."""
        titles = sections.rule_titles(self._data)
        return self._drawn("gates", self._data.trials, self._data.problems, titles=titles, labels=self._page.labels)

    def noise(self, metric: str = "") -> FigureView:
        """Draw how small a difference these hosts can see with the baseline's load (figure 11)."""
        from loadbook.analyses.noise.page import NoisePage

        page = NoisePage(self._data, metric=resolve_metric(self._data, metric)[0] if metric else "")
        if page.record is None:
            raise UsageError(page.headline, "more blocks, or a run of the study noise: docs/noise.md")
        return self._drawn("noise", page.record)

    def factorial(self) -> FigureView:
        """Draw the effects of a factorial study: single switches, and pairs that act together (figure 9)."""
        from loadbook.analyses.factorial.page import FactorialPage

        return self._drawn("factorial", FactorialPage(self._data).result)

    def scaling(self) -> FigureView:
        """Draw the rate over the number of nodes: do two nodes carry twice what one carries."""
        from loadbook.analyses.balancers import figure

        scaled = BalancersPage(self._data).scaling_data
        if not figure.needed(*scaled):
            raise UsageError("one number of nodes only in this run", "scaling needs treatments of one node and of more")
        return self._drawn("scaling", *scaled)

    def connections(self) -> FigureView:
        """Draw the connections that the application was sent for each request."""
        from loadbook.analyses.balancers.backends import BackendsPage

        found = BackendsPage(self._data).connections_per_request
        if found.empty:
            raise UsageError("no application of this run counted its connections", "docs/services.md: counters")
        return self._drawn("connections", self._page.analysis, found)

    def page_size(self, by: str = "rate") -> FigureView:
        """Draw the rate, or with by="bytes" the bytes per second, over page size: where is the network the limit."""
        from loadbook.analyses.page_size.page import PageSizePage

        if by not in ("rate", "bytes"):
            raise unknown_name_error("way to draw page sizes", by, ["rate", "bytes"], plural="by")
        return self._drawn("page_size", PageSizePage(self._data).result, by=by)

    def published(self) -> FigureView:
        """Draw what an article claimed beside what was found here (figure 13)."""
        judged = claims.assess_claims(self._data, self._page.analysis, self._page.level)
        if not judged:
            raise UsageError("nothing published stands beside this study", "docs/claims.md says how claims are written")
        return self._drawn("published", judged, self._page.analysis)

    def two_runs(self, against: str = PREVIOUS, metric: str = "") -> FigureView:
        """Draw how far each effect moved from another run of the study to this one (figure 12).

        `against` is the other run's id, by default the run before. `run.against(...)` has the numbers.
        """
        return self._drawn("two_runs", comparison_page(self._data, against, metric=metric).result)

    def _drawn(self, name: str, *data: Any, **options: Any) -> FigureView:
        return FigureView(figure_module(name), *data, **options)

    def _watched(self) -> dict[str, dict[str, Any]]:
        if self._data.traces.empty:
            raise UsageError("no monitor recorded anything of this run", "files can be added: loadbook traces")
        return saturation.hosts_with_traces(self._data.traces, self._data.run_record.hosts)

    def _block_of(self, trial: str) -> int:
        blocks = self._data.trials.set_index("trial")["block"]
        if trial not in blocks:
            raise unknown_name_error("trial", trial, map(str, blocks.index), f"in run {self._data.run}")
        return int(blocks.to_dict()[trial])

    def _windows(self) -> dict[str, float]:
        return self._values("duration")

    def _values(self, metric: str) -> dict[str, float]:
        values = self._data.values(metric).set_index("trial")["value"].dropna()
        return {str(trial): float(value) for trial, value in values.items()}

    def __dir__(self) -> list[str]:
        return [name for name in vars(type(self)) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown_name_error("figure", name, dir(self))

    def _block(self) -> Block:
        """Return the list of figures."""
        lines = [f"{name}: {(getattr(type(self), name).__doc__ or '').splitlines()[0]}" for name in sorted(dir(self))]
        return render_block("lines.html.j2", "\n".join(lines), lines=lines)
