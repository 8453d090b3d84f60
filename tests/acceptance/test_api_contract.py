"""The whole OpenAPI schema against a live web process: schemathesis sends what it allows, and what it does not.

Every check of schemathesis is on but one: what the schema allows may be refused, since JSON Schema cannot say what a
cron is. The requests are the same in every run, but for the ids of what they name.
"""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.inhabited import DOOMED, RUN_KEYS
from tests.platform import BIN, Platform
from tests.tiers import once_full

INHABIT = (
    "import json; from executions.clock import database_now; from tests.inhabited import inhabit; "
    "print(json.dumps(inhabit(database_now()).as_json()))"
)
# More of them, or others, find more: CONTRACT_EXAMPLES=300 CONTRACT_SEED=7 pytest tests/acceptance/test_api_contract.py
SEED = int(os.environ.get("CONTRACT_SEED", "1"))
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "8"))  # for each operation, beside 2,300 that are always sent
SETTINGS = """
seed = {seed}

[headers]
Authorization = "Bearer {secret}"

[checks]
positive_data_acceptance.enabled = false  # a cron cannot be said in JSON Schema

[generation]
max-examples = {examples}
database = "none"

[cache]
enabled = false

# All other operations want the jobs that are there.
[[operations]]
include-operation-id = "jobs_archive"
parameters."path.job" = "{doomed_id}"

[[operations]]
include-operation-id = "jobs_archive_by_key"
parameters."path.key" = "{doomed_key}"

# For the sake of time: the same bodies as where a job is created.
[[operations]]
include-operation-id = {alike}
phases.coverage.enabled = false
"""
ALIKE = ["jobs_replace", "jobs_put_by_key", "jobs_change_by_key"]
ALIKE_IN_A_FRAME = ["jobs_change", "jobs_put_bulk"]  # at length these are tried as all others
OFTEN = 0.8  # of the requests name one of these, so that they meet something
CRONS = ["0 3 * * *", "*/7 * * * *", "H H * * 1-5", "30 2 29 2 *", "@hourly", "*/10 * * * * *"]
ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe"]


def named(there: dict[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """In which operation (all, if none is named) which place of a request names one of what is there."""
    jobs, executions = there["jobs"], there["executions"]
    yield "", "path.job", [*map(str, jobs.values()), *(key for key in jobs if "/" not in key)]
    yield "", "path.key", list(jobs)
    yield "", "path.run_key", RUN_KEYS
    yield "", "path.number", [1, 2]
    yield "", "path.id", [pk for ids in executions.values() for pk in ids]
    yield "", "query.job", list(jobs)
    yield "", "body.target.task", ["onbeat.echo"]
    yield "", "body.schedule.cron", CRONS
    yield "", "body.schedule.timezone", ZONES
    yield "", "body.jobs[*].target.task", ["onbeat.echo"]
    yield "", "body.filter.job", list(jobs)
    yield "", "body.ids[*]", there["messages"]
    yield "jobs_create", "body.key", [f"new-{number}" for number in range(100)]
    yield "executions_cancel", "path.id", [*executions["scheduled"], *executions["queued"], *executions["running"]]
    yield "executions_retry_now", "path.id", executions["failing"]
    for name, value in zip(("id", "attempt", "signature"), there["completion"], strict=True):
        yield "completions_tell", f"path.{name}", [value]
    yield "executions_replay", "path.id", [*executions["dead"], *executions["succeeded"], *executions["skipped"]]


def settings(there: dict[str, Any], secret: str) -> str:
    """The settings file of schemathesis."""
    dictionaries, common = ["[dictionaries]"], ["[parameters]"]
    special: dict[str, list[str]] = defaultdict(list)
    for number, (operation, place, values) in enumerate(named(there)):
        dictionaries.append(f"names-{number} = {{ values = {json.dumps(values)} }}")
        binding = f'"{place}" = {{ dictionary = "names-{number}", probability = {OFTEN} }}'
        (special[operation] if operation else common).append(binding)
    doomed = {"doomed_id": there["doomed"][0], "doomed_key": DOOMED[1]}
    alike = ALIKE if os.environ.get("TEST_LONG") else ALIKE + ALIKE_IN_A_FRAME
    head = SETTINGS.format(seed=SEED, secret=secret, examples=EXAMPLES, alike=json.dumps(alike), **doomed)
    own = [
        f'[[operations]]\ninclude-operation-id = "{name}"\nparameters = {{ {", ".join(bindings)} }}'
        for name, bindings in special.items()
    ]
    return "\n".join([head, *own, *dictionaries, *common])


@once_full
def test_no_request_is_answered_otherwise_than_documented(platform: Platform, tmp_path: Path) -> None:
    platform.migrate()
    there = json.loads(platform.manage("shell", "-v", "0", "-c", INHABIT).splitlines()[-1])
    key = json.loads(platform.manage("api_keys", "create", "--name", "contract", "--role", "admin", "--json"))
    address = platform.web(ONBEAT_API_REQUESTS_PER_MINUTE="0")
    (tmp_path / "schemathesis.toml").write_text(settings(there, key["secret"]))
    command = [str(BIN / "schemathesis"), "run", f"{address}/api/schema", "--phases=examples,coverage,fuzzing,stateful"]
    command += ["--report=ndjson", "--report-ndjson-path=said.ndjson", "--continue-on-failure", "--no-color"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = answered(tmp_path / "said.ndjson")
    unreached = {operation for operation in operations(address) if min(answers[operation], default=500) >= 400}
    assert unreached == set(), "no request to these had success"


def operations(address: str) -> Iterator[str]:
    """All that the schema documents."""
    with urlopen(f"{address}/api/schema?format=json") as schema:
        for path, methods in json.load(schema)["paths"].items():
            yield from (f"{method.upper()} {path}" for method in methods)


def answered(report: Path) -> dict[str, set[int]]:
    """For each operation the statuses of all answers."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in report.read_text(encoding="utf-8").splitlines():
        scenario = json.loads(line).get("ScenarioFinished", {"recorder": {}})["recorder"]
        for sent in scenario.get("interactions", {}).values():
            method, label = sent["request"]["method"], scenario["label"]
            if label.startswith(f"{method} ") and sent["response"]:
                found[label].add(sent["response"]["status_code"])
    return found
