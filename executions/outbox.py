"""The outbox: what is due and still has to be published, the most urgent first, however much that is.

To sort a backlog of a million for each look would take longer than to publish what was found. So on PostgreSQL each
priority is read by itself, from the highest on, in the order of its index, and reading ends when enough is found.
"""

from django.db import connection
from django.db.models.expressions import RawSQL

from executions.models import MAX_PRIORITY, ExecutionQuerySet
from executions.outgoing import Due

# Django knows no LATERAL. The order is that of the priorities, and within each that of the inner question.
_BY_PRIORITY = """
SELECT due.* FROM generate_series({highest}, 0, -1) AS level (priority)
CROSS JOIN LATERAL ({of_one_priority}) AS due OFFSET %s LIMIT %s
"""


def most_urgent(rows: ExecutionQuerySet, *, most: int, beyond: int = 0) -> list[Due]:
    """Of these rows so many, after those that are passed by. They may be locked as they are read."""
    if connection.vendor != "postgresql":
        return [Due.read(row) for row in rows.by_urgency().to_lease()[beyond : beyond + most]]
    of_one = rows.filter(priority=RawSQL("level.priority", [])).order_by("available_at").to_lease()[: beyond + most]
    inner, parameters = of_one.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(_BY_PRIORITY.format(highest=MAX_PRIORITY, of_one_priority=inner), [*parameters, beyond, most])
        return [Due.read(row) for row in cursor.fetchall()]
