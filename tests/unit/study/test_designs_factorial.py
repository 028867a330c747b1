"""[factorial]: the algebra of fractions, the treatments that come of it, and every mistake named."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.errors import StudyError
from loadbook.study import designs
from loadbook.study.designs import FactorialDesign, alias_sentences, factorial_design, switch_label, switch_levels
from loadbook.study.model import Study
from loadbook.study.reader import read_study, smoke_variant
from loadbook.study.treatments import Factorial

# Box, Hunter & Hunter, Statistics for Experimenters, table 12.15: factors, words -> resolution
KNOWN = {
    (3, 1): 3, (4, 1): 4, (5, 1): 5, (5, 2): 3, (6, 1): 6, (6, 2): 4, (6, 3): 3, (7, 1): 7, (7, 2): 4, (7, 3): 4,
    (7, 4): 3, (8, 1): 8, (8, 2): 5, (8, 3): 4, (8, 4): 4, (9, 2): 6, (9, 3): 4, (9, 4): 4,
}  # fmt: skip
STUDY = """
name = "x"
question = "Does it matter?"
baseline = "plain"
[roles.driver]
[roles.web]
service = "nginx"
vars = { tcp_nopush = "on", worker_processes = 1 }
[workload]
tool = "wrk"
[factors]
tcp_nopush = { levels = ["unset", "on"] }
multi_accept = { levels = ["unset", "on"] }
use_epoll = { levels = ["unset", "on"] }
sendfile = { levels = ["off", "on"] }
tcp_nodelay = { levels = ["unset", "on", "off"] }
worker_processes = { levels = ["auto", 1] }
[factorial]
factors = ["tcp_nopush", "accepting", "tcp_nodelay", "worker_processes"]
fraction = "half"
levels = { tcp_nodelay = ["unset", "off"] }
labels = { abcd = "everything", abc = "not run here" }
groups = { accepting = ["multi_accept", "use_epoll"] }
[treatments.again]
same_as = "plain"
check = "aa"
"""


def study(folder: Path, *changes: tuple[str, str]) -> Study:
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return read_study(path)


def design(factors: int, words: Sequence[int]) -> FactorialDesign:
    return FactorialDesign(tuple(designs.FACTOR_LETTERS[:factors]), tuple(words))


def column(effect: int, cells: tuple[int, ...]) -> np.ndarray:
    return np.array([designs.effect_sign(effect, cell) for cell in cells])


@pytest.mark.parametrize(("size", "wanted"), KNOWN.items())
def test_resolutions_of_fractional_designs_match_the_textbook(size: tuple[int, int], wanted: int) -> None:
    words = designs.minimum_aberration_words(*size)
    assert len(words) == size[1]
    made = design(size[0], words)
    assert made.resolution == wanted
    assert len(made.cells) == 2 ** (size[0] - size[1])


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_effects_in_a_fraction_are_orthogonal_or_aliased(data: st.DataObject) -> None:
    factors = data.draw(st.integers(2, 7))
    words = data.draw(
        st.lists(st.integers(1, 2**factors - 1), max_size=3).filter(lambda w: 0 not in designs.defining_relation(w))
    )
    cells = design(factors, words).cells
    relation = designs.defining_relation(words)
    assert cells[0] == 0 and len(cells) == 2 ** (factors - len(words))
    assert all(abs(column(word, cells).sum()) == len(cells) for word in relation)
    first, second = data.draw(st.lists(st.integers(1, 2**factors - 1), min_size=2, max_size=2, unique=True))
    product = int(column(first, cells) @ column(second, cells))
    assert abs(product) == (len(cells) if first ^ second in relation else 0)


@pytest.mark.parametrize("size", [*KNOWN, (3, 0), (5, 0)])
def test_every_set_of_confounded_effects_is_named_once(size: tuple[int, int]) -> None:
    made = design(size[0], designs.minimum_aberration_words(*size))
    named = len(made.alias_sets) + len(made.higher_order_effects)
    assert named == 2 ** (size[0] - size[1]) - 1


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(2, 7), st.data())
def test_every_main_effect_and_pair_is_in_exactly_one_alias_set(factors: int, data: st.DataObject) -> None:
    words = data.draw(
        st.lists(st.integers(1, 2**factors - 1), max_size=2).filter(lambda w: 0 not in designs.defining_relation(w))
    )
    made = design(factors, words)
    cells, sets = made.cells, made.alias_sets
    assert sorted(e for aliases_of_one in sets for e in aliases_of_one) == sorted(made.main_and_pair_effects)
    for aliases_of_one in sets:
        assert all(abs(int(column(aliases_of_one[0], cells) @ column(e, cells))) == len(cells) for e in aliases_of_one)


def test_factorial_table_generates_treatments(tmp_path: Path) -> None:
    made = study(tmp_path)
    assert list(made.treatments) == ["plain", "ab", "ac", "bc", "ad", "bd", "cd", "abcd", "again"]
    assert made.treatments["plain"].set == {
        "tcp_nopush": "on", "multi_accept": "unset", "use_epoll": "unset", "tcp_nodelay": "unset",
        "worker_processes": 1,
    }  # fmt: skip
    assert made.treatments["abcd"].set == {
        "tcp_nopush": "unset", "multi_accept": "on", "use_epoll": "on", "tcp_nodelay": "off",
        "worker_processes": "auto",
    }  # fmt: skip
    assert made.treatments["bc"].label == "accepting + tcp_nodelay off"
    assert made.treatments["abcd"].label == "everything"
    assert switch_levels(made, "accepting") == {"multi_accept": ("unset", "on"), "use_epoll": ("unset", "on")}
    assert [switch_label(made, n) for n in made.factorial.factors] == [
        "tcp_nopush unset", "accepting group on", "tcp_nodelay off", "worker_processes auto",
    ]  # fmt: skip
    assert Study.model_validate(made.model_dump(mode="json", by_alias=True)) == made


def test_confounded_effects_are_described_in_sentences(tmp_path: Path) -> None:
    sentences = alias_sentences(factorial_design(study(tmp_path).factorial))
    assert sentences[0].startswith(
        "8 of 16 combinations are run, a fraction of resolution IV: every main effect stands alone"
    )
    assert sentences[1] == "tcp_nopush x accepting is confounded with tcp_nodelay x worker_processes."
    assert len(sentences) == 4
    assert alias_sentences(factorial_design(Factorial(factors=("a", "b")))) == [
        "All 4 combinations are run, so every effect stands alone."
    ]
    half = Factorial(factors=("a", "b", "c"), fraction="half", screening=True)
    assert alias_sentences(factorial_design(half))[1:] == [
        "a is confounded with b x c.", "b is confounded with a x c.",
        "c is confounded with a x b.",
    ]  # fmt: skip


def test_generators_of_a_fraction_use_factor_names() -> None:
    spec = Factorial(factors=("p", "q", "r", "s", "t"), generators=("s = p q r", "t = p q"), screening=True)
    assert factorial_design(spec).resolution == 3
    assert "p is confounded with q x t." in alias_sentences(factorial_design(spec))


def test_factorial_table_has_a_page_of_its_own_by_default(tmp_path: Path) -> None:
    assert study(tmp_path).notebooks == ("factorial", "run_quality")
    changed = study(tmp_path, ('name = "x"', 'name = "x"\nnotebooks = ["run_quality"]'))
    assert changed.notebooks == ("run_quality",)


def test_factorial_smoke_variant_is_a_full_design_of_two_factors(tmp_path: Path) -> None:
    short = smoke_variant(study(tmp_path))
    assert list(short.treatments) == ["plain", "a", "b", "ab", "again"]
    assert short.treatments_in() == tuple(short.treatments)
    assert short.treatments["ab"].set == {"tcp_nopush": "unset", "multi_accept": "on", "use_epoll": "on"}
    assert factorial_design(short.factorial).resolution is None


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ('"accepting", "tcp', '"acepting", "tcp', "factorial.factors.1", "did you mean 'accepting'?"),
        ('"accepting", "tcp', '"multi_accept", "accepting", "tcp', "factorial.factors.2", "multi_accept sets already"),
        ('["multi_accept", "use_epoll"]', '["mutli_accept"]', "factorial.groups.accepting.0", "'multi_accept'?"),
        ("accepting = [", "sendfile = [", "factorial.groups.sendfile", "name of a factor"),
        ('levels = { tcp_nodelay = ["unset", "off"] }', "", "factorial.levels.tcp_nodelay", "which two, low and high"),
        ('["unset", "off"] }', '["off", "off"] }', "factorial.levels.tcp_nodelay", "two different ones"),
        ("{ tcp_nodelay = [", "{ tcp_nodely = [", "factorial.levels.tcp_nodely", "did you mean 'tcp_nodelay'?"),
        ('fraction = "half"', 'fraction = "third"', "factorial.fraction", "'half'"),
        ('fraction = "half"', 'fraction = "eighth"', "factorial.fraction", "4 factors are too few"),
        ('fraction = "half"', 'fraction = "quarter"', "factorial.fraction", "too few"),
        ('fraction = "half"', 'generators = ["tcp_nodelay = tcp_nopush accepting"]', "factorial.generators",
         "resolution III): run more combinations, or state screening = true"),
        ('fraction = "half"', 'generators = ["tcp_nodelay = tcp_nopush"]', "factorial.generators", "be confounded"),
        ('fraction = "half"', 'generators = ["tcp_nodelay"]', "factorial.generators.0", "must be like 'd = a b c'"),
        ('fraction = "half"', 'generators = ["sendfile = tcp_nodelay accepting"]', "factorial.generators.0", "no 'se"),
        ('fraction = "half"', 'generators = ["tcp_nodelay = accepting accepting"]', "factorial.generators.0", "twice"),
        ('fraction = "half"', 'fraction = "half"\ngenerators = ["a = b"]', "factorial.generators", "state one of them"),
        ("[treatments.again]", "[treatments.abcd]\n[treatments.again]", "treatments.abcd", "in factorial.labels"),
        ("[treatments.again]", "[treatments.plain]\nset = {}\n[treatments.again]", "treatments.plain.set", "leave it"),
        ('baseline = "plain"', 'baseline = "plain"\ncontrasts = "adjacent"', "contrasts", "goes without [factorial]"),
        ('baseline = "plain"', 'baseline = "plain"\nstopping.rule = "always-valid"', "stopping.rule", "fixed"),
    ],
)  # fmt: skip
def test_mistakes_in_a_factorial_table_are_reported_with_key_paths(
    tmp_path: Path, old: str, new: str, path: str, words: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study(tmp_path, (old, new))
    messages = {p.path: p.message for p in caught.value.problems}
    assert words in messages.pop(path)
    assert all("factorial" in other for other in messages), messages


def test_full_factorial_of_eight_factors_is_refused(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(8)]
    factors = "\n".join(f'{n} = {{ levels = ["off", "on"] }}' for n in names)
    old = 'factors = ["tcp_nopush", "accepting", "tcp_nodelay", "worker_processes"]\nfraction = "half"'
    with pytest.raises(StudyError) as caught:
        study(tmp_path, ("[factors]", f"[factors]\n{factors}"), (old, f"factors = {names}"))
    assert [p.path for p in caught.value.problems] == ["factorial.fraction"]
    assert "8 factors make 256 treatments" in caught.value.problems[0].message


def test_factorial_study_cannot_be_stratified(tmp_path):
    with pytest.raises(StudyError) as refused:
        study(tmp_path, ('baseline = "plain"', 'baseline = "plain"\napart = "sendfile"'))
    assert {p.path: p.message for p in refused.value.problems}["stratify_by"].endswith("leave stratify_by out")
