"""`import_beat`: move in from django-celery-beat or Celery's beat_schedule."""

from terminal.frame import PeoplesCommand
from terminal.importing.verb import Import


class Command(PeoplesCommand):
    help = "Move the tasks of django-celery-beat or of Celery's beat_schedule in as jobs."
    verbs = [Import]
