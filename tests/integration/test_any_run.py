"""Whatever is given for a field of a run is taken or refused with that field: never another error.

A second run of the same call that is always refused keeps what was taken from being stored.
"""

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples

from executions.models import Execution
from jobs import runs
from jobs.models import Job
from jobs.refusals import Refused
from tests.anything import ANYTHING
from tests.making import a_job

pytestmark = [pytest.mark.embedded, pytest.mark.django_db]  # nothing of it reaches the database: once is enough
FIELDS = [field.name for field in fields(runs.Wanted)]


@pytest.fixture
def job(noon: datetime) -> Iterator[Job]:
    yield a_job(now=noon)
    assert not Execution.objects.exists()


@pytest.mark.parametrize("field", FIELDS)
@examples(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=ANYTHING)
@example(value=0)
@example(value="")
@example(value=[])
@example(value={})
def test_any_value_of_any_field_is_taken_or_refused_by_its_name(
    field: str, value: Any, job: Job, noon: datetime
) -> None:
    wanted = [runs.Wanted(**{field: value}), runs.Wanted(run_key="always\nrefused")]
    with pytest.raises(Refused) as refusal:
        runs.run_many(job, wanted, now=noon)
    assert refusal.value.field in (field, "run_key")
