"""Wrong values of keys in study, hosts, service and batch files: what a value must be, in one style."""

import re
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from loadbook.batch.file import BatchSpec
from loadbook.hosts.inventory import HostsFile
from loadbook.services.spec import ServiceSpec
from loadbook.study.model import Study
from loadbook.study.problems import validation_problems
from loadbook.study.workload import Workload

PYDANTIC_WORDS = re.compile(r"Input|[uU]nable to|String should|Tuple should|valid (number|string|integer)|\^")
WRONG_VALUES: tuple[Any, ...] = (
    "",
    "é / ;",
    "x" * 3000,
    "5s",
    -1,
    0,
    1.5,
    10**30,
    float("inf"),
    True,
    [],
    [[]],
    ["é ;"],
    {},
    {"é ;": {}},
    {"x": 3},
    {"x": {}},
    {"x": {"type": "?"}},
    None,
)


def wrong(key: str, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Workload.model_validate({"tool": "wrk", key: value})
    (problem,) = validation_problems(caught.value, Workload)
    assert problem.path == key
    return problem.message


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("duration_s", 0, "must be greater than 0, not 0"),
        ("connections", 200_000, "must be at most 100000, not 200000"),
        ("connections", "fifty", "must be a whole number, not 'fifty'"),
        ("connections", "10k", "must be a whole number, not '10k': write 10000"),
        ("connections", "2 %", "must be a whole number, not '2 %'"),
        ("duration_s", "5s", "must be a number, not '5s': write 5"),
        ("duration_s", "1.5 min", "must be a number, not '1.5 min': write 90"),
        ("duration_s", "5 apples", "must be a number, not '5 apples'"),
        ("duration_s", "500ms", "must be a number, not '500ms': write 0.5"),
        ("rate_per_s", "2k/s", "must be a number, not '2k/s': write 2000"),
        ("expect_bytes", "64 KiB", "must be a whole number, not '64 KiB': write 65536"),
        ("path", "/a b", "must be a path that begins with / and has no space (only ASCII), not '/a b'"),
        ("model", "opn", "must be 'closed' or 'open', not 'opn'; did you mean 'open'?"),
        ("keepalive", "x", "must be true or false, not 'x'"),
    ],
)
def test_wrong_value_is_named_beside_what_it_must_be(key: str, value: object, message: str) -> None:
    assert wrong(key, value) == message


def test_percent_of_a_share_is_translated() -> None:
    with pytest.raises(ValidationError) as caught:
        Study.model_validate({"margin": "2 %"})
    messages = {p.path: p.message for p in validation_problems(caught.value, Study)}
    assert messages["margin"] == "must be a number, not '2 %': write 0.02"


def models_in(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}.union(*(models_in(f.annotation) for f in annotation.model_fields.values()))
    return set().union(*map(models_in, get_args(annotation)))


@pytest.mark.parametrize("root", [Study, HostsFile, ServiceSpec, BatchSpec])
def test_no_message_about_any_key_is_in_the_words_of_pydantic(root: type[BaseModel]) -> None:
    for model in models_in(root):
        for name, field in model.model_fields.items():
            for value in WRONG_VALUES:
                try:
                    TypeAdapter(model).validate_python({field.alias or name: value})
                except ValidationError as error:
                    messages = [p.message for p in validation_problems(error, model)]
                    assert not [m for m in messages if PYDANTIC_WORDS.search(m)], (model.__name__, name, value)
