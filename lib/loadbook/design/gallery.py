"""Which files of a folder of studies are studies, and which are variants of one: what asks its own question is one."""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import StudyError
from loadbook.core.toml import read_toml

ARTICLE_SUFFIX = "-article"  # the end of the name of a study at its article's own scale, for real hosts


def study_files(folder: Path) -> list[Path]:
    """Return the study files in `folder`, by name: variants come after what they vary."""
    return sorted(folder.glob("*.toml"), key=lambda path: path.stem)


def is_variant(path: Path) -> bool:
    """Tell whether a study file is another at another scale: the article's, or it includes one and asks nothing new.

    A file that cannot be read is none: whoever reads it as a study says what is wrong.
    """
    try:
        raw = read_toml(path)
    except (OSError, StudyError):
        return False
    return "include" in raw and ("question" not in raw or path.stem.endswith(ARTICLE_SUFFIX))
