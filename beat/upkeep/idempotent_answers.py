"""Forget answers to requests with an Idempotency-Key that are past their time."""

from datetime import timedelta

from access import idempotent_answers
from beat.upkeep.duty import Duty

DUTY = Duty(
    name="idempotent-answers",
    does="forgets answers to requests with an Idempotency-Key after a day",
    every=timedelta(minutes=10),
    run=idempotent_answers.forget_answers,
)
