"""The way back from a refusal of the domain to the body that caused it."""

from dataclasses import fields

import pytest

from api.jobs.bodies import JobBody
from api.names import in_words_of_a_body, pointer_of
from api.shapes import Body
from executions.retry import RetryPolicy
from jobs.specification import Specification

FIELDS = [each.name for each in fields(Specification)] + [f"retry.{each.name}" for each in fields(RetryPolicy)]
OF_A_SCHEDULE = ["cron", "timezone", "every", "anchor", "once", "start", "end"]


@pytest.mark.parametrize("field", FIELDS + OF_A_SCHEDULE)
def test_every_field_of_a_definition_has_its_place_in_a_body(field: str) -> None:
    body: Body = JobBody()
    for name in pointer_of(field).removeprefix("/").split("/"):
        assert name in body.fields, pointer_of(field)
        body = body.fields[name]


@pytest.mark.parametrize("field", FIELDS)
def test_no_name_that_only_python_has_is_left_in_a_sentence(field: str) -> None:
    said = in_words_of_a_body(f"{field} must be 1 to 9, not 10.")
    assert "_seconds" not in said
    assert said.startswith(pointer_of(field).rsplit("/", 1)[-1]) or "." in said
