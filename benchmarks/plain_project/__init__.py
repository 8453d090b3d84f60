"""A project of plain Celery with one task that does nothing, so that a worker of ours has peers to stand beside.

`celery -A benchmarks.plain_project worker` runs it. It is no part of the platform and loads nothing of it. Without
results it does not even load Django, as nothing of it is needed then; with them, django-celery-results keeps them in
PostgreSQL, set up as it tells its users to.
"""
