"""The OpenAPI schema: valid, whole, and with examples that can be pasted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.db import transaction

from api.problems import MEDIA_TYPE
from executions.clock import database_now
from tests.calling import a_caller
from tests.inhabited import Inhabitants, inhabit
from tests.integration.conftest import Queues

TAGS = {"Jobs", "Runs", "Executions", "Dead letters", "Callbacks", "Notifications", "Operations"}
ANY_MAY_ANSWER = {"400", "401", "403", "429", "503"}
WITH_BODY_MAY_ANSWER = {"413", "415", "422"}
# Those that find no use for the execution that the others take.
EXECUTIONS = {"executions_cancel": "scheduled", "executions_retry_now": "failing"}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As `manage.py spectacular --validate --fail-on-warn` makes it, which fails at any warning."""
    path: Path = tmp_path_factory.mktemp("schema") / "schema.yaml"
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(path))
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def operations(schema: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_it_is_valid_and_made_without_a_warning(schema: Any) -> None:
    assert schema["openapi"].startswith("3.")


def test_every_operation_has_a_name_of_its_own_a_summary_and_a_tag(schema: Any) -> None:
    names = [operation["operationId"] for _, _, operation in operations(schema)]
    assert len(names) == len(set(names))
    for method, path, operation in operations(schema):
        assert operation["summary"].strip(), (method, path)
        assert not operation["summary"].endswith("."), "a title"
        assert operation["description"].strip(), (method, path)
        assert len(operation["tags"]) == 1
        assert operation["tags"][0] in TAGS


def test_every_operation_says_how_it_is_refused(schema: Any) -> None:
    for method, path, operation in operations(schema):
        problems = {status for status in operation["responses"] if status >= "400"}
        wanted = ANY_MAY_ANSWER | (WITH_BODY_MAY_ANSWER if "requestBody" in operation else set())
        wanted |= {"404"} if "{" in path else set()
        assert wanted <= problems, (method, path)
        for status in problems:
            answer = operation["responses"][status]
            assert answer["description"].strip()
            assert answer["content"] == {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}


def test_every_operation_says_what_it_answers_when_it_is_done(schema: Any) -> None:
    for method, path, operation in operations(schema):
        done = {status: answer for status, answer in operation["responses"].items() if status < "300"}
        assert done, (method, path)
        assert all("application/json" in answer["content"] for answer in done.values()), (method, path)


def test_every_operation_is_only_for_those_who_say_who_they_are(schema: Any) -> None:
    for _, path, operation in operations(schema):
        wanted = None if "{signature}" in path else [{"apiKey": []}, {"session": []}]
        assert operation.get("security") == wanted, path


def test_every_part_of_an_address_and_every_header_says_what_it_is(schema: Any) -> None:
    parameters = [
        parameter
        for _, _, operation in operations(schema)
        for parameter in operation.get("parameters", [])
        if parameter["in"] != "query"
    ]
    assert all(parameter["description"].strip() for parameter in parameters)


# ── Examples that can be pasted ──────────────────────────────────────────────────────────────────────────────────


def examples(schema: Any) -> Iterator[tuple[str, str, str, Any]]:
    """Every body, with the address that the examples of its parts make; of what takes no body the address alone."""
    for method, path, operation in operations(schema):
        name, address = operation["operationId"], path
        parameters = operation.get("parameters", [])
        for parameter in parameters:
            for example in parameter.get("examples", {}).values():
                address = address.replace(f"{{{parameter['name']}}}", str(example["value"]))
        if "requestBody" in operation:
            for example in operation["requestBody"]["content"]["application/json"].get("examples", {}).values():
                yield name, method, address, example["value"]
        elif not any(parameter.get("required") and parameter["in"] == "query" for parameter in parameters):
            yield name, method, address, None


@pytest.fixture
def there(broker: Queues) -> Inhabitants:
    return inhabit(database_now(), each=1)


@pytest.mark.django_db
def test_every_example_is_accepted(schema: Any, there: Inhabitants) -> None:
    """Where what it names is there."""
    api, refused = a_caller(), {}
    for name, method, address, body in examples(schema):
        if name in ("jobs_create", "completions_tell"):
            continue  # below: these jobs are there already; and an address must be signed (test_completions.py)
        execution = there.executions[EXECUTIONS.get(name, "dead")][0]
        with transaction.atomic():
            answer = api.call(method, address.replace("{id}", execution), body)
            transaction.set_rollback(True)
        if answer.status not in (200, 201):
            refused[name, address] = answer.body
    assert refused == {}


@pytest.mark.django_db
def test_every_example_of_a_new_job_is_accepted(schema: Any) -> None:
    api = a_caller()
    new = [(address, body) for name, _, address, body in examples(schema) if name == "jobs_create"]
    assert [api.post(address, body).status for address, body in new] == [201, 201, 201]


def test_everything_that_takes_a_body_has_an_example(schema: Any) -> None:
    without = {
        operation["operationId"]
        for _, _, operation in operations(schema)
        if "requestBody" in operation and "examples" not in operation["requestBody"]["content"]["application/json"]
    }
    assert without == set()
