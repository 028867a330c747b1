"""Parameters: every misfit is an error that names what is known, in our runner and inside the notebook."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_texts import CORPUS, silent
from loadbook.core.errors import UsageError
from loadbook.report import parameters

DECLARED = {"study": "s", "level": 0.95, "blocks": 3, "execute": False, "names": []}


def test_parameters_cell_literals_are_read():
    assert parameters.parse_literals('study = "x"\nlevel = 0.95\nnothing = None') == {
        "study": "x",
        "level": 0.95,
        "nothing": None,
    }


@pytest.mark.parametrize("source", ["import os", "x = open('/etc/passwd')", "x, y = 1, 2", "x =", "print(1)"])
def test_parameters_cell_with_code_is_refused(source):
    with pytest.raises(UsageError, match="plain assignments"):
        parameters.parse_literals(source)


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("studdy", "x", "did you mean 'study'"),
        ("level", "high", "must be a number"),
        ("level", float("nan"), "must be a number"),
        ("level", True, "must be a number"),
        ("blocks", 2.5, "whole number"),
        ("blocks", True, "whole number"),
        ("execute", 1, "true or false"),
        ("study", 20261120, "must be text"),
        ("study", "\ud800", "must be text"),
        ("print", 1, "not a usable name"),
        ("class", 1, "not a usable name"),
        ("a b\nc", 1, "not a usable name"),
        ("__builtins__", 1, "not a usable name"),
    ],
)
def test_parameter_mismatches_are_errors(name, value, printed):
    with pytest.raises(UsageError, match=printed) as caught:
        parameters.validate_parameters("notebook x", DECLARED, {name: value})
    assert "study (text)" in caught.value.hint


def test_parameter_mismatches_are_reported_together():
    with pytest.raises(UsageError) as caught:
        parameters.validate_parameters("notebook x", DECLARED, {"studdy": 1, "lvl": 2})
    assert "studdy" in caught.value.message
    assert "lvl" in caught.value.message


@given(st.text(max_size=20), st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary()))
def test_parameters_must_be_known_and_of_the_declared_type(name, value):
    if not parameters.parameter_problems(DECLARED, {name: value}):
        assert name in DECLARED
        assert name.isidentifier()
        assert not keyword.iskeyword(name)
        assert type(value) is type(DECLARED[name]) or (name == "level" and isinstance(value, int))


def test_command_line_parameters_take_the_declared_type():
    given = parameters.parse_pairs(DECLARED, ["study=a=b", "level=0.9", "blocks=4", "execute=True", "names=a,b"])
    assert given == {"study": "a=b", "level": 0.9, "blocks": 4, "execute": True, "names": ["a", "b"]}


def test_command_line_parameter_of_wrong_type_is_an_error():
    with pytest.raises(UsageError, match="must be a number"):
        parameters.validate_parameters("x", DECLARED, parameters.parse_pairs(DECLARED, ["level=high"]))
    with pytest.raises(UsageError, match="not name=value"):
        parameters.parse_pairs(DECLARED, ["level"])


def test_injected_parameters_are_checked_against_declared_ones():
    cells = ["", 'study = "x"\nlevel = 0.95', '# Parameters\nstudy = "y"\n', "import loadbook"]
    parameters.check_injected(cells)
    with pytest.raises(UsageError, match="unknown parameter 'studdy'"):
        parameters.check_injected([*cells[:2], '# Parameters\nstuddy = "y"\n'])
    with pytest.raises(UsageError, match="must be a number"):
        parameters.check_injected([*cells[:2], '# Parameters\nlevel = "y"\n'])


def test_notebook_parameters_are_not_checked_without_papermill():
    parameters.check_injected(["", 'study = "x"', "study = 5"])


@pytest.mark.fault(47)
def test_hostile_texts_are_refused_as_parameter_names():
    """papermill writes names as they are: one with a newline in it would be a line of Python."""
    for text in (*CORPUS, "study\nimport os", "study ", "study=1;x", "\u2118", "self", "print", "lambda", "_", "a.b"):
        with pytest.raises(UsageError) as refused:
            parameters.validate_parameters("notebook x", DECLARED, {text: 1})
        assert silent(refused.value.message)


@pytest.mark.fault(47)
def test_hostile_parameter_values_are_passed_unchanged_or_refused():
    """What papermill makes of a value is run as Python; it must be that value and nothing else."""
    from papermill.translators import PythonTranslator

    for text in CORPUS:
        given = {"study": text, "names": [text, text]}
        if "\ud800" in text:
            assert len(parameters.parameter_problems(DECLARED, given)) == 2
            continue
        assert parameters.parameter_problems(DECLARED, given) == []
        cell = PythonTranslator.codify(given, "Parameters")
        assert parameters.parse_literals(cell) == given


@pytest.mark.fault(47)
@pytest.mark.parametrize("text", ["1e400", "-1e400", "nan", "inf", "1" * 5000, "0x1", "１", "1_0", "", "true"])
def test_command_line_numbers_must_be_finite(text):
    given = parameters.parse_pairs(DECLARED, [f"level={text}", f"blocks={text}"])
    refused = {name for name in given if parameters.parameter_problems(DECLARED, {name: given[name]})}
    finite = {"１": {"level", "blocks"}, "1_0": {"level", "blocks"}, "1" * 5000: set()}.get(text, set())
    assert set(given) - refused <= finite


def test_parameter_numbers_beyond_float_range_are_refused():
    for values in ({"level": 10**400}, {"names": [1.0, float("nan")]}, {"names": [float("inf")]}, {"blocks": 10**400}):
        with pytest.raises(UsageError, match="must be"):
            parameters.validate_parameters("notebook x", DECLARED, values)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "study": st.text(),
        "level": st.floats(allow_nan=False, allow_infinity=False),
        "blocks": st.integers(),
        "execute": st.booleans(),
        "names": st.lists(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)),
    },
)


@given(VALUES)
def test_parameters_are_unchanged_by_the_command_line_of_a_batch(values):
    assert parameters.parse_pairs(DECLARED, parameters.format_pairs(values)) == values
