"""Projects with batch files, whose notebooks are replaced by quick ones."""

from __future__ import annotations

from loadbook.report import blocks
from recorded_run import FIXTURE

REPLAY = next(FIXTURE.iterdir()) / "hosts.toml"
SUMMARY = {
    "valid": 4, "planned": 4, "started": 1.0, "ended": 2.0, "question": "Which?",
    "verdict": {"kind": "better", "word": "faster", "glyph": "▲", "sentence": "one is faster by 6 %."},
}  # fmt: skip
SAYS = (
    f"from IPython.display import display; display({{'{blocks.DONE_MIME}': {{**{SUMMARY}, 'study': study}}}}, raw=True)"
)


BOTH = ('study = "first"', 'study = "second"\nparameters.metric = ["ok_per_s", "latency"]')
