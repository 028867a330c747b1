"""Pages: every block says what the run allows, in hard cases too, and hostile strings stay text."""

import random

from loadbook.report.html import forbidden_content
from mock_pages import page_of, text_of
from mock_project import Arm
from rendered_pages import page_html


def test_page_of_sixteen_treatments_with_odd_names_renders(tmp_path):
    dice = random.Random(3)
    labels = ["名前が日本語の設定", "a $dollar$ _name_", "x < y & z", "a name that is exactly forty letters long"]
    arms = {"baseline": Arm()} | {
        f"t{k:02d}": Arm(
            dice.choice([0.001, 0.03, 4.0]), label=dict(enumerate(labels)).get(k), scatter=0.3 if k == 9 else 0.01
        )
        for k in range(16)
    }
    page = page_html(page_of(tmp_path, arms, blocks=6, traces=False))
    assert forbidden_content(page) == []
    assert len(page.encode()) < 3_000_000
    text = text_of(page)
    assert all(label in text for label in labels)
    assert "名前が日本語の設定 (t00)" in text
