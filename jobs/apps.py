from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    label = "onbeat_jobs"
    verbose_name = "Jobs"
