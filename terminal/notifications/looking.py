"""Look at receivers and at what they were told, and send them a test."""

from argparse import ArgumentParser
from typing import Any

from api.executions.answers import in_full as execution_in_full
from api.executions.named import attempts_of
from api.notifications import deeds
from api.notifications.answers import in_full, in_short
from executions import why
from executions.clock import database_now
from executions.commands import clock
from notifications import deliveries, receivers
from notifications.deliveries import Delivery
from notifications.models import Receiver
from terminal.executions.following import exit_of, wait_until_over
from terminal.executions.watching import tell
from terminal.frame import Asked, Told, Verb, refuse
from terminal.moments import duration_of
from terminal.paper import coloured, facts, table, toned

_HEADS = ("NAME", "TEMPLATE", "TO", "TOLD OF", "STATE", "LAST", "DELIVERY")
_DELIVERED = ("AT", "WHAT", "STATE", "EXECUTION")


class List(Verb):
    name = "list"
    does = "list the receivers, and how the last notification of each went"
    examples = ("notifications list", "notifications list --json")

    def act(self, asked: Asked) -> Told:  # noqa: ARG002 - there is nothing to ask for
        found = receivers.listed()
        last = deliveries.latest_of_each(found)
        data = {"receivers": [in_short(each, last.get(each.pk)) for each in found]}
        if not found:
            return Told(data, ["There is no receiver; `./onbeat notifications create NAME` makes one."])
        rows = [_cells(each, last.get(each.pk)) for each in found]
        return Told(data, [table(_HEADS, rows, whole=_HEADS[:1])])


class Show(Verb):
    name = "show"
    does = "tell what a receiver wants, and what it was told lately"
    examples = ("notifications show ops",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The receiver.")

    def act(self, asked: Asked) -> Told:
        receiver = receivers.find(asked["name"])
        told = deliveries.latest(receiver)
        open_ones = deliveries.troubles_of(receiver)
        shown: list[Any] = [
            facts(
                [
                    ("name", receiver.name),
                    ("template", receiver.template),
                    ("to", receiver.origin),
                    ("told of", receiver.events),
                    ("jobs", receiver.jobs or "all"),
                    ("late after", f"{receiver.late_after_seconds} s"),
                    ("most per hour", receiver.most_per_hour),
                    ("signed with", receiver.secret.name if receiver.secret else "nothing"),
                    ("its job", receiver.job.key),
                    ("state", toned(receiver.job.state)),
                    ("changed", f"{clock(receiver.changed_at)} {receiver.changed_by}".strip()),
                    ("in trouble", [f"{each.job.key} ({each.kind.replace('_', ' ')})" for each in open_ones]),
                ]
            )
        ]
        if told:
            rows = [(clock(d.notice.made_at), d.words.title, _state(d), str(d.notice.execution_id)) for d in told]
            shown += ["", table(_DELIVERED, rows, whole=_DELIVERED[-1:])]
        return Told(in_full(receiver, told), shown)


class Test(Verb):
    name = "test"
    does = "send a receiver a notification that says that it is a test"
    explains = (
        "It goes the way that all go. With --wait it is followed to its end, and the exit code tells the outcome: 0 it "
        "arrived, 1 it did not, 3 not over within --timeout (it goes on)."
    )
    examples = ("notifications test ops --wait", "notifications test ops --wait --timeout 30s --json")
    changes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The receiver.")
        parser.add_argument("--wait", action="store_true", help="Follow it until it is over.")
        parser.add_argument("--timeout", metavar="TIME", help="With --wait: at most so long, such as 1m.")

    def act(self, asked: Asked) -> Told:
        if asked["timeout"] is not None and not asked["wait"]:
            refuse("--timeout is for --wait; leave it out, or wait.")
        timeout = duration_of("timeout", asked["timeout"]).total_seconds() if asked["timeout"] is not None else None
        notice = deeds.send_test(asked["name"], **asked.signature)
        assert notice.execution_id is not None
        told = f"Sent a test to {asked['name']}: the execution {notice.execution_id}."
        if not asked["wait"]:
            follow = f"`./onbeat executions watch {notice.execution_id}` follows it."
            return Told({"receiver": asked["name"], "execution": notice.execution_id}, [told, follow])
        asked.paper.say(told)
        row = wait_until_over(
            notice.execution_id,
            timeout=timeout,
            on_change=lambda each: None if asked.paper.is_json else tell(each, asked.paper),
        )
        now, code = database_now(), exit_of(row)
        shown: list[Any] = [coloured(why.in_words(row, now=now), "bad" if code else "ok")]
        shown += [row.error.rstrip()] if row.error else []
        return Told(execution_in_full(row, attempts_of(row), now=now), shown, code)


def _cells(receiver: Receiver, last: Delivery | None) -> tuple[Any, ...]:
    told_of = f"{', '.join(receiver.events)} of {', '.join(receiver.jobs) or 'all jobs'}"
    told = (last.words.title, _state(last)) if last else ("-", "-")
    return (receiver.name, receiver.template, receiver.origin, told_of, toned(receiver.job.state), *told)


def _state(delivery: Delivery) -> Any:
    return toned(delivery.state) if delivery.state else "-"
