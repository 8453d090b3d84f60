from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    label = "onbeat_jobs"
    verbose_name = "Jobs"

    def ready(self) -> None:
        from executions import figures as all_figures
        from jobs import figures, ledger

        all_figures.register(figures.of_snapshot)
        all_figures.register(ledger.figures)
