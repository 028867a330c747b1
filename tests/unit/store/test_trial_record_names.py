"""A record that somebody else made names files of its own trial only: nothing else here is read for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostile_texts import silent
from loadbook.core.errors import DataError
from loadbook.store import trial_record
from recorded_run import copy_recorded_run, run_of

pytestmark = pytest.mark.fault(49)
ESCAPING_NAMES = ("../../../etc/passwd", "/etc/passwd", "a/../../b", "..", "a\0b")
PLACES = {
    "what a driver printed": lambda record, way: record["drivers"][0].update(stdout=way),
    "what it wrote to stderr": lambda record, way: record["drivers"][0].update(stderr=way),
    "a tool's file": lambda record, way: record["drivers"][0].update(files={"out.jtl": way}),
    "a monitor": lambda record, way: record["monitors"][0].update(file=way),
    "a configuration": lambda record, way: record["services"][0].update(config_files=[way]),
    "a dump": lambda record, way: record["services"][0].update(effective=way),
    "any file": lambda record, way: record["files"].update({way: next(iter(record["files"].values()))}),
}


@pytest.mark.parametrize("place", PLACES)
def test_trial_record_with_a_path_outside_its_folder_is_refused(tmp_path: Path, place: str) -> None:
    folder = next(path for path in sorted((run_of(copy_recorded_run(tmp_path)) / "trials").iterdir()))
    whole: dict[str, Any] = json.loads((folder / trial_record.RECORD_NAME).read_text())
    assert trial_record.read_trial(folder).files
    for way in ESCAPING_NAMES:
        record = json.loads(json.dumps(whole))
        PLACES[place](record, way)
        (folder / trial_record.RECORD_NAME).write_text(json.dumps(record))
        with pytest.raises(DataError) as refused:
            trial_record.read_trial(folder)
        assert silent(refused.value.message) and refused.value.exit_code == 4
