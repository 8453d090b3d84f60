"""One run key that two want at once: one run has it, and both are told which."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction

from executions import lifecycle, run_keys
from executions.models import Execution, RunKey
from executions.states import State
from jobs import runs
from jobs.models import Job
from jobs.runs import Asked, ByKey, Wanted
from tests.making import a_job, seconds
from tests.races.connections import elsewhere, several, waits_for_us

pytestmark = [pytest.mark.full, pytest.mark.django_db(transaction=True)]
ROUNDS = 40


def ask(job: Job, key: str, *, now: datetime) -> Asked:
    return runs.run(job, run_key=key, delay=timedelta(hours=1), now=now)


def end(asked: Asked, *, now: datetime) -> None:
    lifecycle.cancel([asked.execution_id], reason="over", now=now)


def test_the_second_who_asks_waits_and_gets_the_first_ones_run(noon: datetime) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        first = ask(job, "order-7", now=noon)
        other = waits_for_us(partial(ask, job, "order-7", now=noon))
    assert other.result(timeout=20) == Asked(first.execution_id, is_new=False)
    assert Execution.objects.get().pk == first.execution_id


def test_the_second_who_asks_has_the_key_if_the_first_is_rolled_back(noon: datetime) -> None:
    job = a_job(now=noon)
    with transaction.atomic():
        ask(job, "order-7", now=noon)
        other = waits_for_us(partial(ask, job, "order-7", now=noon))
        transaction.set_rollback(True)
    assert other.result(timeout=20) == Asked(Execution.objects.get().pk, is_new=True)
    assert RunKey.objects.get().execution_id == Execution.objects.get().pk


def test_of_two_who_ask_at_once_one_has_a_new_run(noon: datetime) -> None:
    job = a_job(now=noon)
    with several(2) as start_both:
        for number in range(ROUNDS):
            answers = start_both(*(partial(ask, job, f"order-{number}", now=noon) for _ in range(2)))
            assert sorted(answer.is_new for answer in answers) == [False, True]
            assert len({answer.execution_id for answer in answers}) == 1
    assert Execution.objects.count() == RunKey.objects.count() == ROUNDS


def test_the_second_who_takes_over_a_free_key_waits_and_gets_the_first_ones_run(noon: datetime) -> None:
    job = a_job(now=noon)
    end(ask(job, "order-7", now=noon), now=noon)
    with transaction.atomic():
        first = ask(job, "order-7", now=noon)
        other = waits_for_us(partial(ask, job, "order-7", now=noon))
    assert first.is_new
    assert other.result(timeout=20) == Asked(first.execution_id, is_new=False)


def test_of_two_who_take_over_a_free_key_at_once_one_has_a_new_run(noon: datetime) -> None:
    job = a_job(now=noon)
    end(ask(job, "order-7", now=noon), now=noon)
    with several(2) as start_both:
        for number in range(1, ROUNDS + 1):
            answers = start_both(*(partial(ask, job, "order-7", now=noon) for _ in range(2)))
            assert sorted(answer.is_new for answer in answers) == [False, True]
            assert {answer.execution_id for answer in answers} == {RunKey.objects.get().execution_id}
            assert Execution.objects.count() == number + 1
            end(answers[0], now=noon)


def test_a_key_that_upkeep_forgets_while_it_is_asked_for_belongs_to_the_new_run(noon: datetime) -> None:
    job = a_job(now=noon)
    end(ask(job, "order-7", now=noon), now=noon)
    late = noon + timedelta(hours=2)
    with transaction.atomic():
        # Upkeep holds the rows that it looks at before it deletes them.
        list(RunKey.objects.select_for_update())
        new = waits_for_us(partial(ask, job, "order-7", now=late))
        assert run_keys.forget_ended(late) == 1
    asked = new.result(timeout=20)
    assert asked.is_new
    assert ask(job, "order-7", now=late) == Asked(asked.execution_id, is_new=False)


def test_upkeep_passes_by_a_key_that_is_being_taken_over(noon: datetime) -> None:
    job = a_job(now=noon)
    end(ask(job, "order-7", now=noon), now=noon)
    late = noon + timedelta(hours=2)
    with transaction.atomic():
        asked = ask(job, "order-7", now=late)
        assert elsewhere(lambda: run_keys.forget_ended(late)) == 0
    assert elsewhere(lambda: run_keys.forget_ended(late)) == 0
    assert ask(job, "order-7", now=late) == Asked(asked.execution_id, is_new=False)


def test_a_key_that_is_asked_for_and_forgotten_at_once_belongs_to_the_new_run(noon: datetime) -> None:
    job = a_job(now=noon)
    end(ask(job, "order-7", now=noon), now=noon)
    late = noon + timedelta(hours=2)
    with several(2) as start_both:
        for _ in range(ROUNDS):
            asked, _ = start_both(partial(ask, job, "order-7", now=late), partial(run_keys.forget_ended, late))
            assert asked.is_new
            assert ask(job, "order-7", now=late) == Asked(asked.execution_id, is_new=False)
            end(asked, now=late)
            RunKey.objects.update(look_at=noon)


def test_many_runs_whose_keys_overlap_in_opposite_orders_wait_in_no_ring(noon: datetime) -> None:
    job = a_job(now=noon)
    names = [f"{prefix}{number}" for number in range(15) for prefix in ("order-", "Order-", "ö", "_")]
    forth = [Wanted(run_key=name, delay=timedelta(hours=1)) for name in names[:45]]
    back = [Wanted(run_key=name, delay=timedelta(hours=1)) for name in names[15:][::-1]]
    with several(2) as start_both:
        for number in range(1, ROUNDS // 2 + 1):
            one, other = start_both(*(partial(runs.run_many, job, wanted, now=noon) for wanted in (forth, back)))
            new = [answer.execution_id for answer in one + other if answer.is_new]
            assert len(set(new)) == len(new) == len(names)
            assert Execution.objects.count() == number * len(names)
            # Every second round finds keys that are free, and takes them over.
            lifecycle.cancel(new, reason="over", now=noon)
            if number % 2:
                RunKey.objects.filter(key__startswith="o").delete()


def test_a_move_and_a_cancel_of_one_key_at_once_agree_on_what_became_of_it(noon: datetime) -> None:
    job = a_job(now=noon)
    with several(2) as start_both:
        for number in range(ROUNDS):
            key = f"order-{number}"
            asked = ask(job, key, now=noon)
            moved, cancelled = start_both(
                partial(runs.move, job, key, delay=timedelta(hours=2), now=noon),
                partial(runs.cancel, job, key, now=noon),
            )
            assert cancelled is ByKey.DONE
            assert moved in (ByKey.DONE, ByKey.UNKNOWN)
            run = Execution.objects.get(pk=asked.execution_id)
            assert run.state == State.CANCELLED
            assert run.available_at == noon + timedelta(hours=2 if moved is ByKey.DONE else 1)


def test_a_claim_that_commits_first_makes_it_too_late_to_move(noon: datetime) -> None:
    job = a_job(now=noon)
    asked = ask(job, "order-7", now=noon)
    with transaction.atomic():
        # A worker whose clock is ahead of the app's: to the app the run is still to come.
        assert lifecycle.claim(asked.execution_id, 1, worker="w", now=noon + timedelta(hours=1))
        moved = waits_for_us(lambda: runs.move(job, "order-7", delay=seconds(9), now=noon))
    assert moved.result(timeout=20) is ByKey.TOO_LATE
