"""Reasons of outputs that cannot be read."""

from loadbook.core.errors import OtherProgram, ParseError


def test_output_of_another_program_is_known_by_the_type_of_the_reason_not_by_its_words():
    words = "no report of wrk in it; it begins 'x'"
    assert ParseError("wrk", "stdout", 0, OtherProgram(words)).is_of_another_program
    assert not ParseError("wrk", "stdout", 0, words).is_of_another_program
    assert ParseError("wrk", "stdout", 0, OtherProgram(words)).message == f"wrk: stdout: {words}"
