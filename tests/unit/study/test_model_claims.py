"""Claims in a study file: which kind needs what, and which names are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import StudyError
from loadbook.study.model import Claim
from loadbook.study.reader import read_study

STUDY = """
schema = 1
name = "x"
question = "Does it matter?"
baseline = "base"
roles = { driver = {}, web = { service = "nginx", vars = { size = 1, nopush = "unset" } } }
workload = { tool = "wrk" }
[factors]
size = { levels = [1, 2] }
nopush = { levels = ["unset", "on"] }
[treatments]
base = {}
nopush = { set = { nopush = "on" } }
large = { set = { size = 2 } }
[published]
source = "an article"
[[published.claims]]
claim = "it helps"
treatment = "nopush"
against = "base"
"""
NUMBERS = "value = 2\nagainst_value = 1\n"
CLAIM_PATH = "published.claims.0"


def read(folder: Path, more: str) -> Claim:
    path = folder / "x.toml"
    path.write_text(STUDY + more, encoding="utf-8")
    published = read_study(path).published
    assert published is not None
    return published.claims[0]


@pytest.mark.parametrize(
    ("more", "path", "message"),
    [
        ("", CLAIM_PATH, "needs a kind, or value and against_value"),
        ('kind = "best"', CLAIM_PATH, "kind = 'best' needs among"),
        ('kind = "interaction"\nfactors = ["size"]', CLAIM_PATH, "kind = 'interaction' needs two factors"),
        ('kind = "slope"\nslope = [-1, 0]', CLAIM_PATH, "kind = 'slope' needs one of factors"),
        ('kind = "slope"\nfactors = ["size"]', CLAIM_PATH, "kind = 'slope' needs slope"),
        ('kind = "slope"\nfactors = ["size"]\nslope = [0, -1]', CLAIM_PATH, "the lower number first"),
        ('kind = "bets"', f"{CLAIM_PATH}.kind", "must be 'better'"),
        ('kind = "best"\namong = ["large", "lagre"]', f"{CLAIM_PATH}.among.1", "did you mean 'large'?"),
        ('kind = "equivalent"\nfurther = [["large", "basse"]]', f"{CLAIM_PATH}.further.0.1", "did you mean 'base'?"),
        ('kind = "interaction"\nfactors = ["size", "nopsh"]', f"{CLAIM_PATH}.factors.1", "no factor 'nopsh'"),
        ('kind = "better"\nmetric = "latncy"', f"{CLAIM_PATH}.metric", "no metric 'latncy'"),
        ('kind = "better"\nmargin = 2', f"{CLAIM_PATH}.margin", "less than 1"),
    ],
)
def test_mistakes_in_a_claim_name_the_key(tmp_path: Path, more: str, path: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        read(tmp_path, more)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message


def test_kind_of_a_claim_is_inferred_from_its_numbers(tmp_path: Path) -> None:
    assert read(tmp_path, NUMBERS).effective_kind == "better"
    assert read(tmp_path, NUMBERS.replace("2", "0.5")).effective_kind == "worse"
    assert read(tmp_path, f'{NUMBERS}metric = "latency"').effective_kind == "worse"
    assert read(tmp_path, f'{NUMBERS.replace("2", "0.5")}metric = "latency"').effective_kind == "better"


def test_claim_lists_its_treatments(tmp_path: Path) -> None:
    claim = read(tmp_path, 'kind = "best"\namong = ["large", "nopush"]')
    assert claim.treatments == ("nopush", "base", "large")
    joint = read(tmp_path, 'kind = "equivalent"\nfurther = [["large", "base"]]')
    assert joint.treatments == ("nopush", "base", "large")
