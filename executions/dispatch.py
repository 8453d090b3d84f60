"""Confirmed publishing.

Owns what is believed of the broker and its queues. Invariant: a deadline that passed means unknown, never failed and
never done: the row stays SCHEDULED, it is published again, and the worker's claim drops the double.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from django.conf import settings

from executions import metrics
from executions.broker_line import BROKER_ERRORS, PROBE_SECONDS, BrokerLine
from executions.confirms import UNCONFIRMED, UNROUTABLE, Confirms, Report
from executions.outgoing import Outgoing
from executions.states import FIRE_TRIGGERS


@dataclass(eq=False)
class Sent:
    """A batch on its way to the broker."""

    confirms: Confirms
    held: dict[str, list[Outgoing]] = field(default_factory=dict)  # by reason: their queue does not take them
    ahead: Report = field(default_factory=Report)  # of those that went ahead of the others, or never went
    error: str = ""  # the line is gone, and with it all answers that are still to come
    written_at: float = 0.0  # by the monotonic clock


class Publisher:
    """After a failure nobody is believed: first the broker, then each queue has to confirm one message.

    A broker or a queue that takes messages and confirms none would otherwise get the whole batch again at each try.
    """

    def __init__(self, *, patience_seconds: float | None = None) -> None:
        """With how long it waits for confirms; as the settings say, if it is not told."""
        self._patience_seconds = patience_seconds
        self._line = BrokerLine(patience_seconds=patience_seconds)
        self._is_in_doubt = False
        self._doubtful_queues: set[str] = set()
        self._unsettled: list[Sent] = []

    def publish(self, executions: Sequence[Outgoing]) -> Report:
        """Publish all, then wait once for all confirms."""
        return self.settle(self.send(executions))

    def send(self, executions: Sequence[Outgoing]) -> Sent:
        """Publish all without waiting for the confirms; `settle` does."""
        if self._is_in_doubt and (error := self._why_away()):
            return Sent(Confirms([]), ahead=Report(unknown=list(executions)), error=error)
        first = {execution.queue: execution for execution in reversed(executions)}
        ahead = [execution for queue, execution in first.items() if queue in self._doubtful_queues]
        return self._send_ahead(ahead, executions) if ahead else self._send(executions)

    def settle(self, sent: Sent) -> Report:
        """Wait for what the broker says about a batch. Batches are settled in the order in which they were sent."""
        patience = self._patience_seconds or settings.ONBEAT_EXECUTIONS_CONFIRM_SECONDS
        return sent.ahead.and_then(self._settle(sent, patience_seconds=patience))

    def listen(self, sent: Sent, *, seconds: float) -> None:
        """Wait for a moment for what the broker says; whoever settles the batch waits for the rest."""
        if sent.error:
            return
        try:
            self._line.hear_of(sent.confirms, seconds=seconds)
        except BROKER_ERRORS as error:
            sent.error = self._fail(error)

    def reaches(self) -> bool:
        """Whether the broker answers, and confirms."""
        return not self._why_away()

    def close(self) -> None:
        self._line.close()

    def drop(self) -> None:
        """Leave the line without a word, whatever is on its way."""
        self._give_up_on_all("the line was dropped")

    def _why_away(self) -> str:
        """Ask the broker whether it is back; if not, what is wrong with it."""
        try:
            self._line.open()
            self._line.probe()
        except BROKER_ERRORS as error:
            return self._fail(error)
        self._is_in_doubt = False
        return ""

    def _send_ahead(self, ahead: Sequence[Outgoing], executions: Sequence[Outgoing]) -> Sent:
        """One of each queue in doubt goes ahead; the others of a queue follow if it arrives."""
        report = self._settle(self._send(ahead), patience_seconds=PROBE_SECONDS)
        rest = [execution for execution in executions if execution not in ahead]
        if report.error:
            return Sent(Confirms([]), ahead=replace(report, unknown=[*report.unknown, *rest]), error=report.error)
        waiting = [execution for execution in rest if execution.queue in self._doubtful_queues]
        sent = self._send([execution for execution in rest if execution.queue not in self._doubtful_queues])
        sent.ahead = report.and_then(Report(held={UNCONFIRMED: waiting} if waiting else {}))
        return sent

    def _send(self, executions: Sequence[Outgoing]) -> Sent:
        sent, began = Sent(Confirms(executions)), time.monotonic()
        try:
            self._line.open()
            refusals = self._line.declare({execution.queue for execution in executions})
            for name, reason in refusals.items():
                sent.held.setdefault(reason, []).extend(e for e in executions if e.queue == name)
            sent.confirms = Confirms([execution for execution in executions if execution.queue not in refusals])
            self._unsettled.append(sent)
            self._line.write(sent.confirms)
            sent.written_at = time.monotonic()
            metrics.PUBLISH.observe(sent.written_at - began)
        except BROKER_ERRORS as error:
            sent.error = self._fail(error)
        return sent

    def _settle(self, sent: Sent, *, patience_seconds: float) -> Report:
        if not sent.error:
            try:
                if not self._line.hear_of(sent.confirms, seconds=patience_seconds):
                    self._line.probe()  # is it the broker that is silent, or some of its queues?
                self._line.forget(sent.confirms)
                self._unsettled.remove(sent)
                metrics.CONFIRM.observe(time.monotonic() - sent.written_at)
            except BROKER_ERRORS as error:
                sent.error = self._fail(error)
        report = sent.confirms.report(sent.held, error=sent.error)
        if not sent.error and report.unknown:
            report = replace(report, unknown=[], held={**report.held, UNCONFIRMED: report.unknown})
        self._learn_from(report)
        for what, number in Counter(map(_what_it_is, report.confirmed)).items():
            metrics.PUBLISHED.add(number, what)
        return report

    def _learn_from(self, report: Report) -> None:
        self._doubtful_queues -= {execution.queue for execution in report.confirmed}
        self._doubtful_queues |= {execution.queue for execution in report.held.get(UNCONFIRMED, [])}
        self._line.forget_queues(execution.queue for execution in report.held.get(UNROUTABLE, []))

    def _fail(self, error: Exception) -> str:
        """Leave the line, and with it all confirms that are still to come; returns what happened, in words."""
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        self._give_up_on_all(what)
        self._is_in_doubt = True
        return what

    def _give_up_on_all(self, why: str) -> None:
        for sent in self._unsettled:
            sent.error = why
            self._doubtful_queues |= {execution.queue for execution in sent.confirms.outstanding.values()}
        self._unsettled = []
        self._line.drop()


def _what_it_is(row: Outgoing) -> str:
    if row.attempt > 1:
        return "retry"
    return "fire" if row.trigger in FIRE_TRIGGERS else "run"
