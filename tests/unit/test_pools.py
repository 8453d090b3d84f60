"""Which pools a worker may have."""

import pytest
from celery.concurrency import get_implementation
from celery.concurrency.base import BasePool

from workers import pools
from workers.management.commands.worker import _pool


@pytest.mark.parametrize(
    ("given", "name"), [("prefork", "prefork"), ("processes", "prefork"), ("threads", "threads"), ("solo", "solo")]
)
def test_the_pools_that_were_tried_are_allowed(given: str, name: str) -> None:
    pool = get_implementation(given)
    pools.check(pool)
    assert pools.name_of(pool) == name


@pytest.mark.parametrize("name", ["gevent", "eventlet"])
def test_a_pool_of_green_threads_is_refused_in_one_sentence(name: str) -> None:
    pool = type("TaskPool", (BasePool,), {"__module__": f"celery.concurrency.{name}"})
    with pytest.raises(SystemExit) as refused:
        pools.check(pool)
    assert str(refused.value) == (
        f"The {name} pool is not supported: start the worker with --pool prefork, threads or solo."
    )


@pytest.mark.parametrize(
    ("words", "pool"),
    [
        (["-P", "gevent"], "gevent"),
        (["-Pgevent"], "gevent"),
        (["--concurrency", "2", "--pool", "eventlet"], "eventlet"),
        (["--pool=eventlet"], "eventlet"),
        (["--pool", "threads"], "threads"),
        (["-Q", "gevent"], ""),
        ([], ""),
    ],
)
def test_our_command_knows_the_pool_before_celery_does(words: list[str], pool: str) -> None:
    assert _pool(words) == pool
