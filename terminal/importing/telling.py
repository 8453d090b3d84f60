"""A move as it is told: to a person, and as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType

from executions import words
from executions.models import DEFAULT_QUEUE
from executions.retry import DEFAULT_MAX_ATTEMPTS
from jobs.moving_in.translation import CannotMove
from terminal.importing.plan import Becomes, Item, Plan
from terminal.paper import coloured, strong, table, toned

_TONES = {
    Becomes.CREATED: "ok",
    Becomes.CHANGED: "run",
    Becomes.UNCHANGED: "calm",
    Becomes.KEPT: "warn",
}


def as_json(plan: Plan, *, is_applied: bool) -> dict[str, Any]:
    return {
        "source": plan.source.name,
        "is_applied": is_applied,
        "jobs": [_item_in_json(item) for item in plan.items],
        "cannot_move": [{"name": each.name, "why": each.why, "remedy": each.remedy} for each in plan.cannot],
        "left_out": [{"name": each.name, "why": each.why} for each in plan.left_out],
        "vanished": list(plan.vanished),
        "remarks": remarks(plan),
        "counts": counts(plan),
    }


def _item_in_json(item: Item) -> dict[str, Any]:
    return {
        "name": item.moved.name,
        "key": item.key,
        "becomes": item.becomes,
        "because": item.kept_because,
        "state": item.state,
        "schedule_in_words": item.schedule_in_words,
        "next_fire_at": item.next_fire_at,
        "notes": [{"about": note.about, "says": note.says, "remedy": note.remedy} for note in item.notes],
        "definition": item.moved.body,
    }


def counts(plan: Plan) -> dict[str, int]:
    becomes = Counter(item.becomes for item in plan.items)
    return {
        **{each.value: becomes[each] for each in Becomes},
        "cannot_move": len(plan.cannot),
        "left_out": len(plan.left_out),
        "vanished": len(plan.vanished),
        "with_notes": sum(1 for item in plan.items if item.notes),
    }


def shown(plan: Plan, *, is_applied: bool, now: datetime) -> Iterator[RenderableType]:
    if plan.items:
        yield _table(plan.items, now)
    yield from _noted(plan)
    yield from _named("Cannot be moved", ((each.name, _with_remedy(each)) for each in plan.cannot), "bad")
    yield from _named("Left out: there is nothing to move", ((each.name, each.why) for each in plan.left_out), "calm")
    if plan.vanished:
        yield from ("", coloured(f"No longer in {plan.source.name}, and left as they are here", "warn"))
        yield from (f"  {key}" for key in plan.vanished)
    if told := remarks(plan):
        yield from ("", strong("For all of them"))
        yield from (f"  {remark}" for remark in told)
    yield ""
    yield _sum(plan, is_applied=is_applied)


def _table(items: Sequence[Item], now: datetime) -> RenderableType:
    rows = [
        (
            strong(item.key),
            coloured(item.becomes.value, _TONES[item.becomes]),
            toned(item.state.value),
            item.schedule_in_words,
            words.away(item.next_fire_at, now=now) if item.next_fire_at else "-",
        )
        for item in items
    ]
    return table(("KEY", "BECOMES", "STATE", "SCHEDULE", "NEXT"), rows)


def _noted(plan: Plan) -> Iterator[RenderableType]:
    """What is otherwise here, task by task."""
    told = [item for item in plan.items if item.notes or item.kept_because]
    if not told:
        return
    yield from ("", strong("What differs"))
    for item in told:
        is_named_so = item.moved.name == item.key
        yield f"  {item.key}" if is_named_so else f"  {item.key}  ({_in_line(item.moved.name)})"
        if item.kept_because:
            yield f"    The job {item.kept_because}."
        for note in item.notes:
            yield f"    {note.says}" + (f" {note.remedy}" if note.remedy else "")


def _named(head: str, lines: Any, tone: str) -> Iterator[RenderableType]:
    told = list(lines)
    if told:
        yield from ("", coloured(head, tone))
        yield from (f"  {_in_line(name)}: {text}" for name, text in told)


def _with_remedy(each: CannotMove) -> str:
    return f"{each.why} {each.remedy}".rstrip()


def _in_line(name: str) -> str:
    return name if name.isprintable() and name else repr(name)


def remarks(plan: Plan) -> list[str]:
    """What holds for all of them."""
    items = plan.that_become(Becomes.CREATED, Becomes.CHANGED)
    if not items:
        return []
    bodies = [item.moved.body for item in items]
    queues = sorted({body.get("queue", DEFAULT_QUEUE) for body in bodies})
    told = [
        f"Workers must read {'this queue' if len(queues) == 1 else 'these queues'}: {', '.join(queues)}.",
        "After an outage the latest fire that was missed runs once, there and here; the others are one row that says "
        "so.",
    ]
    told.append("A run is stopped after an hour, unless its task or its job says otherwise.")
    if any("retry" not in body for body in bodies):
        told.append(
            f"A run that fails is tried {DEFAULT_MAX_ATTEMPTS} times in all, also by self.retry; --attempts says how "
            "often."
        )
    if any("priority" in body for body in bodies):
        told.append(
            "Priorities are read as RabbitMQ does, 9 before 0; with Redis as broker it was the other way round."
        )
    if not plan.source.is_live and any("every" in body["schedule"] for body in bodies):
        told.append("Intervals begin when they are stored, as they begin when celery beat is started.")
    return told


def _sum(plan: Plan, *, is_applied: bool) -> str:
    found = counts(plan)
    parts = [
        words.count(found[each.value], f"job {_done(each, is_applied)}", f"jobs {_done(each, is_applied)}")
        for each in Becomes
        if found[each.value]
    ] or ["no job to make"]
    more = {"cannot_move": "cannot be moved", "left_out": "left out", "with_notes": "with differences"}
    parts += [f"{found[name]:,} {said}" for name, said in more.items() if found[name]]
    told = ", ".join(parts)
    return f"{told[0].upper()}{told[1:]}" + _end(plan, is_applied=is_applied)


def _end(plan: Plan, *, is_applied: bool) -> str:
    if is_applied:
        return "."
    is_any = bool(plan.that_become(Becomes.CREATED, Becomes.CHANGED))
    return "; nothing was done, --apply does it." if is_any else "; there is nothing to do."


def _done(becomes: Becomes, is_applied: bool) -> str:
    is_to_be = becomes in (Becomes.CREATED, Becomes.CHANGED) and not is_applied
    return f"to be {becomes.value}" if is_to_be else becomes.value
