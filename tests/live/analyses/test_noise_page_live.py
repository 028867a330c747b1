"""The page on noise and its figure 11: what it says of a record, of too little of one, and of two groups of trials."""

from mock_project import Arm, make_project
from report_maker import make_report


def test_noise_notebook_makes_the_page(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(check="aa")}
    layout = make_project(tmp_path, arms, name="noise", blocks=12, traces=False, notebooks=("noise",))
    made = make_report(layout, "noise")
    assert made.exit_code == 0, made.output
    assert made.output.startswith("On these hosts 2\u00a0% needs ")
    assert "How noisy are other loads on these hosts?" in made.page("noise.html")
    assert "On these hosts" in made.page("index.html")
