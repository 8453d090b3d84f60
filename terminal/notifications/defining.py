"""Make, change and remove receivers from a terminal: parse, call one function, say what became of it."""

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.views.decorators.debug import sensitive_variables

from api.notifications import deeds
from api.notifications.answers import in_short
from notifications import receivers
from notifications.kinds import DEFAULT_EVENTS, DEFAULT_LATE_AFTER_SECONDS, DEFAULT_MOST_PER_HOUR, EVENTS, Template
from notifications.models import Receiver
from notifications.refusals import InvalidReceiver
from terminal.frame import Asked, Told, Verb, refuse
from terminal.moments import duration_of

_ONCE = "This is its signing key, shown only this once: the receiver verifies signatures with it."
_OPTIONS = {"/late_after": "--late-after", "/most_per_hour": "--most-per-hour", "/events": "--event", "/jobs": "--job"}
_OPTIONS |= {"/url": "--url-from", "/routing_key": "--routing-key-from", "/secret": "--secret"}
_NEVER = "Never as an argument: others on the machine could read it."


class _OfReceiver(Verb):
    changes = True

    @staticmethod
    def option_of(pointer: str, _asked: Asked, /) -> str:
        return _OPTIONS.get(pointer, pointer.lstrip("/"))


def _wishes(parser: ArgumentParser, *, is_new: bool) -> None:
    """What a receiver wants; of one that is there, what is not said stays as it is."""
    default = "default: {}" if is_new else "left out: as it was"
    parser.add_argument(
        "--event",
        action="append",
        metavar="NAME",
        help=f"Of {', '.join(EVENTS)}; may be said several times ({default.format(', '.join(DEFAULT_EVENTS))}).",
    )
    parser.add_argument(
        "--job",
        action="append",
        metavar="KEY",
        help="Of this job alone, or of those like billing.*; may be said several times "
        f"({default.format('all jobs')}).",
    )
    parser.add_argument(
        "--late-after",
        metavar="TIME",
        help=f"What has not begun so long after its time is late ({default.format(f'{DEFAULT_LATE_AFTER_SECONDS}s')}).",
    )
    parser.add_argument(
        "--most-per-hour",
        type=int,
        metavar="N",
        help=f"What is above is counted and told in the next ({default.format(DEFAULT_MOST_PER_HOUR)}).",
    )
    parser.add_argument("--secret", metavar="NAME", help="Sign with the keys of this secret.")


def _secrets(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--url-from",
        metavar="FILE",
        help=f"Read the URL from a file, or from standard input (-). Without it it is asked for. {_NEVER}",
    )
    parser.add_argument(
        "--routing-key-from", metavar="FILE", help="PagerDuty's routing key, read the same way from another file."
    )


class Create(_OfReceiver):
    name = "create"
    does = "make a receiver of notifications"
    explains = (
        "With the template standard it is signed, and the key is shown once. What happened before is not told. Send it "
        "a test when it is there."
    )
    examples = (
        "notifications create ops --template slack --url-from slack-url.txt",
        "notifications create on-call --template pagerduty --routing-key-from key.txt --event dead_letter "
        "--event recovery",
        "notifications create billing --url-from url.txt --job 'billing.*' --late-after 10m",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="By which it is called from now on.")
        parser.add_argument(
            "--template",
            default=Template.STANDARD,
            choices=list(map(str, Template)),
            help="In which form it takes them.",
        )
        _secrets(parser)
        _wishes(parser, is_new=True)

    @sensitive_variables()
    def act(self, asked: Asked) -> Told:
        template = Template(asked["template"])
        made = deeds.create(
            asked["name"],
            template=template,
            url=_url(asked, template),
            routing_key=_routing_key(asked, is_wanted=template is Template.PAGERDUTY),
            **_wanted(asked),
            **asked.signature,
        )
        receiver = receivers.find(made.receiver.name)
        told = [f"Made the receiver {receiver}, for {receiver.origin}. It is told {_events(receiver)}."]
        told += [_ONCE, made.key] if made.key else []
        told.append(f"`./onbeat notifications test {receiver} --wait` sends it a test.")
        return Told(in_short(receiver, None) | ({"key": made.key} if made.key else {}), told)


class Change(_OfReceiver):
    name = "change"
    does = "give a receiver other values; what is not named stays"
    examples = (
        "notifications change ops --event failure --event dead_letter --event recovery",
        "notifications change ops --all-jobs --most-per-hour 50",
        "notifications change ops --url-from new-url.txt",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The receiver.")
        parser.add_argument("--template", choices=list(map(str, Template)), help="In which form it takes them.")
        _secrets(parser)
        _wishes(parser, is_new=False)
        parser.add_argument("--all-jobs", action="store_true", help="Of all jobs from now on.")

    @sensitive_variables()
    def act(self, asked: Asked) -> Told:
        if asked["all_jobs"] and asked["job"]:
            refuse("--all-jobs and --job exclude each other; say one of them.")
        fields = _wanted(asked) | asked.given("template")
        if asked["all_jobs"]:
            fields["jobs"] = []
        if asked["url_from"]:
            fields["url"] = _read("url", asked["url_from"])
        if asked["routing_key_from"]:
            fields["routing_key"] = _read("routing_key", asked["routing_key_from"])
        if not fields:
            refuse("Nothing was named that is to be changed; `notifications change --help` tells what there is.")
        receiver = receivers.find(deeds.change(asked["name"], **fields, **asked.signature).name)
        return Told(in_short(receiver, None), [f"Changed the receiver {receiver}. It is told {_events(receiver)}."])


class Remove(_OfReceiver):
    name = "remove"
    does = "remove a receiver; what is on its way to it is cancelled"
    examples = ("notifications remove ops",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="The receiver.")

    def act(self, asked: Asked) -> Told:
        deeds.remove(asked["name"], **asked.signature)
        return Told({"removed": asked["name"]}, [f"Removed the receiver {asked['name']}."])


def _events(receiver: Receiver) -> str:
    whose = f"{', '.join(receiver.jobs)}" if receiver.jobs else "all jobs"
    return f"{', '.join(receiver.events).replace('_', ' ')} of {whose}"


def _wanted(asked: Asked) -> dict[str, Any]:
    said = asked.given("most_per_hour", "secret")
    if asked["event"] is not None:
        said["events"] = asked["event"]
    if asked["job"] is not None:
        said["jobs"] = asked["job"]
    if asked["late_after"] is not None:
        said["late_after_seconds"] = int(duration_of("late-after", asked["late_after"]).total_seconds())
    return said


@sensitive_variables()
def _url(asked: Asked, template: Template) -> str:
    if asked["url_from"]:
        return _read("url", asked["url_from"])
    if template is Template.PAGERDUTY:
        return ""  # theirs is the same for all
    return _asked_for("--url-from", "The URL, which is not shown: ")


@sensitive_variables()
def _routing_key(asked: Asked, *, is_wanted: bool) -> str:
    if asked["routing_key_from"]:
        return _read("routing_key", asked["routing_key_from"])
    return _asked_for("--routing-key-from", "The routing key, which is not shown: ") if is_wanted else ""


@sensitive_variables()
def _asked_for(option: str, words: str) -> str:
    if not sys.stdin.isatty():
        refuse(f"Nobody can be asked here; name a file with {option}, or - for standard input.")
    return getpass.getpass(words)


@sensitive_variables()
def _read(field: str, source: str) -> str:
    """Without the line's end that files and pipes bring."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidReceiver(field, f"It cannot be read from {source}: {reason}.") from None
    if not text.strip():
        raise InvalidReceiver(field, f"It cannot be read from {source}: it is empty.")
    return text.strip()
