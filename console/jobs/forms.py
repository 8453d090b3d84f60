"""The form of a job, and the body that it says.

Owns which field of the form is which place of a body. What a body may be is checked as for the API (`api/jobs/bodies`);
invariant: whatever is refused there is told beside the field that caused it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from api.problems import Problem
from console.fields import JsonField, MomentField, WordsField, ZonedForm
from executions.models import DEFAULT_PRIORITY, MAX_PRIORITY
from executions.retry import (
    DEFAULT_CAP_SECONDS,
    DEFAULT_INITIAL_SECONDS,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_LOST,
    Backoff,
)
from executions.states import Overlap
from jobs.http_target import DEFAULT_TIMEOUT_SECONDS, METHODS
from jobs.misfires import DEFAULT_MISFIRE_LIMIT, Misfire
from jobs.models import DEFAULT_GRACE_SECONDS, DEFAULT_STOP_GRACE_SECONDS

TARGETS = [("task", "A Celery task"), ("http", "An HTTP request")]
KINDS = [("cron", "Cron"), ("every", "Interval"), ("once", "Once"), ("none", "Only when asked")]
_OVERLAPS = {
    Overlap.ALLOW: "Let it run, or wait for its turn",
    Overlap.SKIP: "Skip the new one",
    Overlap.QUEUE: "Let one wait, skip further ones",
    Overlap.CANCEL_PREVIOUS: "Stop the previous one",
}
_MISFIRES = {Misfire.FIRE_ONCE: "Run the latest", Misfire.SKIP: "Run none", Misfire.FIRE_ALL: "Run them all"}
_BACKOFFS = {
    Backoff.EXPONENTIAL: "Twice as long each time",
    Backoff.LINEAR: "Longer by the same each time",
    Backoff.FIXED: "The same each time",
}
# Fields whose words decide when it fires: the check while typing asks with these.
OF_SCHEDULE = "kind cron timezone every once_at start end max_fires key job viewer_zone"


def _labels(choices: Mapping[Any, str]) -> list[tuple[str, str]]:
    return [(value.lower(), label) for value, label in choices.items()]


def _whole(help_text: str = "", **options: Any) -> forms.IntegerField:
    return forms.IntegerField(**{"required": False, "help_text": help_text, **options})


class JobForm(ZonedForm):
    key = forms.CharField(max_length=200, help_text="Names the job, such as billing.daily. It cannot be changed later.")
    target = forms.ChoiceField(choices=TARGETS, label="It runs")
    task = forms.CharField(
        required=False, max_length=255, widget=forms.TextInput(attrs={"list": "ob-tasks", "autocomplete": "off"})
    )
    lives_elsewhere = forms.BooleanField(
        required=False, label="The task is in another codebase", help_text="Do not look for it in the installed apps."
    )
    url = forms.CharField(required=False, label="URL", widget=forms.TextInput(attrs={"placeholder": "https://…"}))
    method = forms.ChoiceField(required=False, choices=[(method, method) for method in METHODS])
    headers = JsonField(dict, help_text='A JSON object; {"secret": "name"} as a value names a kept secret.')
    http_timeout = _whole(f"Seconds for the whole answer; empty: {DEFAULT_TIMEOUT_SECONDS}.", label="Answer within")
    expected = WordsField(label="Expected statuses", help_text="Such as 200, 201. Empty: any 2xx.")
    secret = forms.CharField(required=False, label="Signed with", help_text="The name of a kept signing key.")
    asynchronous = forms.BooleanField(required=False, label="A 202 means that the receiver tells the end later")
    args = JsonField(list, label="Arguments", help_text="A JSON list.")
    kwargs = JsonField(dict, label="Named arguments", help_text="A JSON object; for a request, what is sent.")

    kind = forms.ChoiceField(choices=KINDS, label="It fires by")
    cron = forms.CharField(
        required=False,
        help_text="Minute, hour, day, month, weekday; or six fields with the seconds first; or @hourly.",
        widget=forms.TextInput(attrs={"placeholder": "0 9 * * 1-5", "autocomplete": "off", "spellcheck": "false"}),
    )
    timezone = forms.CharField(
        required=False,
        initial="UTC",
        label="Time zone",
        widget=forms.TextInput(attrs={"list": "ob-zones", "autocomplete": "off"}),
        help_text="Whose clocks the cron means.",
    )
    every = _whole("Seconds from one fire to the next.", min_value=1, label="Every")
    once_at = MomentField(required=False, label="At")
    start = MomentField(required=False, label="Not before")
    end = MomentField(required=False, label="Not after")
    max_fires = _whole("How often it fires in all; empty: without end.", min_value=1, label="Fires at most")
    jitter = _whole("A fire comes up to so many seconds later.", min_value=0, initial=0)
    misfire = forms.ChoiceField(required=False, choices=_labels(_MISFIRES), label="Of fires that are too late")
    misfire_grace = _whole(
        "Seconds; later than this is too late.", min_value=0, initial=DEFAULT_GRACE_SECONDS, label="Grace"
    )
    misfire_limit = _whole("With “run them all”: how many.", min_value=1, initial=DEFAULT_MISFIRE_LIMIT, label="Limit")

    queue = forms.CharField(required=False, help_text="Empty: default, or http for a request.")
    priority = _whole(
        "0 (low) to 9 (critical).", min_value=0, max_value=MAX_PRIORITY, initial=DEFAULT_PRIORITY, required=True
    )
    max_attempts = _whole("In all.", min_value=1, initial=DEFAULT_MAX_ATTEMPTS, required=True, label="Attempts")
    backoff = forms.ChoiceField(choices=_labels(_BACKOFFS), label="Delay between attempts")
    initial_delay = _whole("Seconds.", min_value=0, initial=DEFAULT_INITIAL_SECONDS, required=True, label="First delay")
    max_delay = _whole("Seconds.", min_value=0, initial=DEFAULT_CAP_SECONDS, required=True, label="Longest delay")
    retry_jitter = forms.FloatField(
        min_value=0, max_value=1, initial=0, label="Jitter of delays", help_text="0 to 1: the share that may fall away."
    )
    retry_on = WordsField(label="Retry only on", help_text="Error classes; empty: all.")
    give_up_on = WordsField(label="Give up on", help_text="Error classes.")
    max_lost = _whole(
        "Given up at so many.", min_value=1, initial=DEFAULT_MAX_LOST, required=True, label="Lost workers"
    )
    timeout = _whole("Seconds an attempt may take; empty: as its task says.", min_value=1, label="Time limit")
    stop_grace = _whole(
        "Seconds from the word to the kill.", min_value=0, initial=DEFAULT_STOP_GRACE_SECONDS, required=True
    )
    overlap = forms.ChoiceField(choices=_labels(_OVERLAPS), label="While the previous one runs")
    max_concurrency = _whole("Empty: any number, or one if the overlap needs a limit.", min_value=1, label="At once")
    keep_result = forms.BooleanField(required=False, label="Keep the result for Celery's AsyncResult, too")
    owner = forms.CharField(required=False, max_length=200, help_text="A label, and a filter.")
    tags = WordsField(help_text="With commas between them.")
    version = forms.IntegerField(required=False, widget=forms.HiddenInput())

    def add_problem(self, problem: Problem) -> None:
        """Beside the fields that its places name."""
        for place in problem.places:
            name = _field_at(place.pointer or "")
            if name == "kind":  # the schedule as a whole: beside what says it
                name = _SAYS.get(str(self.data.get("kind")), name)
            self.add_error(name if name in self.fields else None, place.detail)
        if not problem.places:
            self.add_error(None, problem.detail)


# ── From the form to the body ────────────────────────────────────────────────────────────────────────────────────

_AT = {
    "/target/task": "task",
    "/target/lives_elsewhere": "lives_elsewhere",
    "/target/http": "url",
    "/target/http/timeout": "http_timeout",
    "/schedule": "kind",
    "/schedule/once": "once_at",
    "/schedule/once/at": "once_at",
    "/schedule/misfire/policy": "misfire",
    "/schedule/misfire/grace": "misfire_grace",
    "/schedule/misfire/limit": "misfire_limit",
    "/retry/jitter": "retry_jitter",
}
_SAYS = {"cron": "cron", "every": "every", "once": "once_at"}
_HTTP = ("url", "method", "headers")
_STATUS = re.compile(r"[0-9]{1,9}", re.ASCII)
_SAME = ("args", "kwargs", "priority", "max_lost", "timeout", "stop_grace", "keep_result", "overlap", "owner", "tags")
_RETRY = ("max_attempts", "backoff", "initial_delay", "max_delay", "retry_on", "give_up_on")


def _field_at(pointer: str) -> str:
    """The field of a place; the nearest one above, where a place within a field is named."""
    while pointer:
        if pointer in _AT:
            return _AT[pointer]
        name = pointer.rsplit("/", 1)[-1]
        if name in JobForm.base_fields:
            return name
        pointer = pointer.rsplit("/", 1)[0]
    return ""


def body(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a good form says, as a body of JSON."""
    return {
        "key": said["key"],
        "target": _target(said),
        **{name: said[name] for name in _SAME},
        **({"queue": said["queue"]} if said["queue"] else {}),
        "max_concurrency": said["max_concurrency"],
        "schedule": schedule(said),
        "retry": {**{name: said[name] for name in _RETRY}, "jitter": said["retry_jitter"]},
    }


def _target(said: Mapping[str, Any]) -> dict[str, Any]:
    if said["target"] == "task":
        return {"task": said["task"], **({"lives_elsewhere": True} if said["lives_elsewhere"] else {})}
    http = {name: said[name] for name in _HTTP if said[name]} | {"asynchronous": said["asynchronous"]}
    if said["http_timeout"] is not None:
        http["timeout"] = said["http_timeout"]
    http["expected"] = [int(word) if _STATUS.fullmatch(word) else word for word in said["expected"]]
    if "body" in said:
        http["body"] = said["body"]
    return {"http": http | ({"secret": said["secret"]} if said["secret"] else {})}


def schedule(said: Mapping[str, Any]) -> dict[str, Any] | None:
    if said["kind"] == "none":
        return None
    return dict(_schedule(said))


def _schedule(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    match said["kind"]:
        case "cron":
            yield "cron", said["cron"]
            yield "timezone", said["timezone"] or "UTC"
        case "every":
            yield "every", said["every"]
            if said.get("anchor"):
                yield "anchor", said["anchor"]
        case "once":
            yield "once", {"at": _iso(said["once_at"])} if said["once_at"] else {}
    for name in ("start", "end"):
        if said.get(name):
            yield name, _iso(said[name])
    if said.get("max_fires"):
        yield "max_fires", said["max_fires"]
    if said.get("jitter"):
        yield "jitter", said["jitter"]
    misfire = {"policy": said.get("misfire"), "grace": said.get("misfire_grace"), "limit": said.get("misfire_limit")}
    yield "misfire", {name: value for name, value in misfire.items() if value not in (None, "")}


def _iso(moment: Any) -> str:
    return str(moment.isoformat())


# ── From the body to the form ────────────────────────────────────────────────────────────────────────────────────


def initial(written: Mapping[str, Any]) -> dict[str, Any]:
    """What the form of a stored job begins with; `written` is its body."""
    target, retry, plan = written["target"], written["retry"], written["schedule"] or {}
    http, misfire = target.get("http") or {}, plan.get("misfire") or {}
    return {
        **{name: written[name] for name in ("key", "queue", "max_concurrency", *_SAME)},
        "target": "http" if http else "task",
        "task": target.get("task", ""),
        "lives_elsewhere": target.get("lives_elsewhere", False),
        **{name: http.get(name) for name in (*_HTTP, "expected", "secret", "asynchronous")},
        "http_timeout": http.get("timeout"),
        "kind": next((kind for kind in ("cron", "every", "once") if kind in plan), "none"),
        **{name: plan.get(name) for name in ("cron", "every", "start", "end", "max_fires", "jitter")},
        "timezone": plan.get("timezone", "UTC"),
        "once_at": (plan.get("once") or {}).get("at"),
        **{f"misfire_{name}": misfire[name] for name in ("grace", "limit") if name in misfire},
        "misfire": misfire.get("policy"),
        **{name: retry[name] for name in _RETRY},
        "retry_jitter": retry["jitter"],
    }
