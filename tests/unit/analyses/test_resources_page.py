"""The page on what hosts did: a recorded run, one with files added, one without monitors, one that was imported."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from loadbook.analyses import resources as resources_page_module
from loadbook.analyses.resources import NO_TRACES, ResourcesPage
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run, values_by_trial
from recorded_run import STUDY, ingested_run
from run_records import changed_record

FORBIDDEN = re.compile(r"significant|\bsame\b(?! against)|proves?\b|no effect|\bnan\b", re.IGNORECASE)
SECTIONS = ("answer", "saturation", "blocks", "all_trials", "cores", "memory", "sources")


@pytest.fixture(scope="module")
def layout(tmp_path_factory) -> Layout:
    return ingested_run(tmp_path_factory.mktemp("resources"))


@pytest.fixture(scope="module")
def data(layout) -> RunData:
    return load_run(layout, STUDY)


def without(data: RunData, **changes) -> RunData:
    return replace(data, **changes)


def test_resources_page_names_the_saturated_resource(data):
    page = ResourcesPage(data)
    printed = page.answer().text
    assert printed.startswith("At its limit: the CPU of the web in all 4 treatments; the driver had room except in")
    assert "web: 99\xa0% of its CPU in every trial of" in printed
    assert page.summary()["verdict"]["sentence"] in printed


@pytest.mark.parametrize("section", SECTIONS)
def test_resources_page_has_all_sections(section, data):
    text = getattr(ResourcesPage(data), section)().text
    assert text.strip() and not FORBIDDEN.search(text)


def test_resources_page_table_names_bottleneck_and_host(data):
    rows = [line for line in ResourcesPage(data).saturation().text.splitlines() if "web CPU" in line]
    assert len(rows) == 4 and all(re.search(r"\bweb +web CPU", row) for row in rows)


def test_resources_page_recommends_a_memory_size(data):
    text = ResourcesPage(data).memory().text
    assert "a host of 1\xa0GiB would have held it" in text and "Hosts of a lab are one machine" in text
    assert resources_page_module.memory_size_text(1.9 * 1024**3, None).endswith("a host of 4\xa0GiB would have held it")
    assert resources_page_module.memory_size_text(1.7 * 1024**3, None).endswith("a host of 2\xa0GiB would have held it")
    assert resources_page_module.memory_size_text(1.9 * 1024**3, 2.0 * 1024**3).endswith("nearly all that is installed")
    assert resources_page_module.memory_size_text(1e15, None).endswith("no usual size would have held it")


def test_resources_page_compares_the_monitors_of_a_host(data):
    other = data.traces.assign(source="sadf", value=data.traces["value"] * 0.5)
    both = without(data, traces=pd.concat([data.traces, other]))
    page = ResourcesPage(both)
    assert "as each source saw it: driver: sysstat" in page.sources().text
    assert page.saturation().text == ResourcesPage(data).saturation().text
    windows = values_by_trial(data, "duration")
    assert resources_page_module.source_agreement(data.traces, data.trials, windows) == "One source for each host."


@pytest.mark.parametrize(
    ("study", "record", "why"),
    [
        ({}, {}, "can be added: loadbook traces"),
        ({"sources": ()}, {}, "The study asks for none"),
        ({}, {"imported": {"timed": True, "folder": "f", "conditions": "c.csv", "at": 0}}, "It was imported"),
    ],
)
def test_resources_page_without_monitors_says_so(data, study, record, why):
    monitors = data.study.monitors.model_copy(update=study)
    study = data.study.model_copy(update={"monitors": monitors})
    changes = {"study": study, "run_record": changed_record(data.run_record, **record)}
    page = ResourcesPage(without(data, traces=data.traces.iloc[:0], **changes))
    assert page.answer().text.startswith(NO_TRACES) and why in page.answer().text
    for section in SECTIONS[1:]:
        assert "No monitor" in getattr(page, section)().text or NO_TRACES in getattr(page, section)().text
    assert page.summary()["verdict"]["sentence"].startswith(NO_TRACES)
