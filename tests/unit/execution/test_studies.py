"""Studies that are checked against their services and tools: each mistake is reported once."""

from pathlib import Path

import pytest

from loadbook.core.errors import StudyError
from loadbook.execution.studies import load_study
from recorded_run import with_studies


def test_mistake_in_the_load_is_not_repeated_for_treatments_that_change_another_key(tmp_path: Path) -> None:
    layout = with_studies(tmp_path)
    text = 'include = "aa.toml"\nname = "few"\n[workload]\ntool = "wrkk"\n'
    text += "[treatments.few]\nworkload = { connections = 5 }\n"
    (layout.studies / "few.toml").write_text(text)
    with pytest.raises(StudyError) as caught:
        load_study(layout, "few")
    assert [problem.path for problem in caught.value.problems] == ["workload.tool"]
