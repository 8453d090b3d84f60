from django.apps import AppConfig


class SchedulerProjectConfig(AppConfig):
    name = "scheduler_project"
    verbose_name = "Onbeat"

    def ready(self) -> None:
        from scheduler_project import checks

        checks.register()
