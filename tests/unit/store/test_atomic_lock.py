"""One process per study folder, and what becomes of a second one."""

from __future__ import annotations

import pytest

from loadbook.store.atomic import hold_study_lock


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_study_lock_is_released_after_use(tmp_path, error):
    for _ in range(2):
        try:
            with hold_study_lock(tmp_path / "study") as taken_over:
                assert taken_over == ""
                if error:
                    raise error
        except KeyboardInterrupt:
            assert error
