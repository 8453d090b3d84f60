"""What is stored, to compare before and after: a refusal leaves everything as it was."""

from django.apps import apps
from django.contrib.sessions.models import Session
from django.db.models import Model

from executions.models import Execution
from jobs.models import Job, Schedule

LABELS = ("onbeat_jobs", "onbeat_executions")
Rows = dict[str, list[str]]


def everything() -> Rows:
    """Each row of each table of jobs and executions, whole."""
    return {
        model._meta.db_table: sorted(repr(sorted(row.items())) for row in model._default_manager.values())
        for label in LABELS
        for model in apps.get_app_config(label).get_models()
    }


def whole_database() -> Rows:
    """Each row of each table, but for who is signed in since when."""
    return {model._meta.db_table: _rows(model) for model in apps.get_models() if model is not Session}


def _rows(model: type[Model]) -> list[str]:
    names = [field.attname for field in model._meta.concrete_fields if field.name != "last_login"]
    return sorted(map(repr, model._default_manager.order_by().values_list(*names)))


def schedule_of(job: Job) -> Schedule:
    return Schedule.objects.get(job_id=job.pk)


def of(job: Job, **only: object) -> list[Execution]:
    """The executions of a job, earliest first."""
    return list(Execution.objects.filter(job_id=job.pk, **only).order_by("fire_time"))
