"""Lists of jobs: filtered, searched, ordered, page by page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, F, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from rest_framework import serializers

from api.pages import PageQuery, limit_of, read, written
from api.shapes import ManyInQuery, OneOf
from jobs.models import Job, JobQuerySet, JobState

_NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # jobs without a next fire come last
ORDERS: dict[str, type] = {"key": str, "created_at": datetime, "changed_at": datetime, "next_fire_at": datetime}


class JobQuery(PageQuery):
    state = ManyInQuery(JobState, required=False, help_text="ACTIVE and PAUSED if left out; several with commas.")
    key_prefix = serializers.CharField(required=False, help_text="Keys that begin so.")
    tag = serializers.CharField(required=False)
    queue = serializers.CharField(required=False)
    owner = serializers.CharField(required=False)
    target = serializers.CharField(required=False, help_text="The name of the task.")
    search = serializers.CharField(required=False, help_text="In key, task and owner, in capitals or not.")
    order = OneOf(
        choices=[sign + name for name in ORDERS for sign in ("", "-")],
        required=False,
        default="key",
        help_text="A field; with - before it, the other way round.",
    )


def page(query: dict[str, Any]) -> tuple[list[Job], str | None]:
    """The jobs of a page with their schedules, and the cursor of the next."""
    order = query.get("order", "key")
    field, is_down = order.removeprefix("-"), order.startswith("-")
    rows = matching(query).select_related("schedule")
    rows = rows.annotate(
        place=Coalesce("schedule__next_fire_at", Value(_NEVER)) if field == "next_fire_at" else F(field)
    )
    if "cursor" in query:
        place, pk = read(query["cursor"], [ORDERS[field], int])
        way = "lt" if is_down else "gt"
        rows = rows.filter(Q(**{f"place__{way}": place}) | Q(place=place, **{f"pk__{way}": pk}))
    sign = "-" if is_down else ""
    limit = limit_of(query)
    found = list(rows.order_by(f"{sign}place", f"{sign}pk")[: limit + 1])
    cursor = written(found[limit - 1].place, found[limit - 1].pk) if len(found) > limit else None  # type: ignore[attr-defined]
    return found[:limit], cursor


def matching(query: Mapping[str, Any]) -> JobQuerySet:
    """What a query asks for, in no order."""
    rows = Job.objects.filter(state__in=query["state"]) if "state" in query else Job.objects.open()
    for column, name in {"queue": "queue", "owner": "owner", "task": "target"}.items():
        if name in query:
            rows = rows.filter(**{column: query[name]})
    if "key_prefix" in query:
        rows = rows.filter(key__startswith=query["key_prefix"])
    if "tag" in query:
        rows = _tagged(rows, query["tag"])
    if "search" in query:
        text = query["search"]
        rows = rows.filter(Q(key__icontains=text) | Q(task__icontains=text) | Q(owner__icontains=text))
    return rows


def _tagged(rows: JobQuerySet, tag: str) -> JobQuerySet:
    if connection.vendor == "postgresql":
        return rows.filter(tags__contains=[tag])
    # SQLite's JSON cannot be asked by the ORM whether a list contains a value.
    tagged = "EXISTS (SELECT 1 FROM json_each(onbeat_job.tags) AS tag WHERE tag.value = %s)"
    return rows.filter(RawSQL(tagged, [tag], output_field=BooleanField()))
