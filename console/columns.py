"""Columns that several lists of the admin share."""

from typing import Any

from django.contrib import admin
from django.db.models import DateTimeField, QuerySet, Value
from django.http import HttpRequest

from console.templatetags.onbeat import moment
from executions.clock import database_now


class Now:
    """Rows that know when they were looked at."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)  # type: ignore[misc]
        seen: QuerySet[Any] = rows.annotate(looked_at=Value(database_now(), output_field=DateTimeField()))
        return seen


def when(name: str, heading: str) -> Any:
    """A column with a moment in the viewer's zone."""

    @admin.display(description=heading, ordering=name)
    def column(_self: Any, row: Any) -> str:
        return moment(getattr(row, name))

    return column
