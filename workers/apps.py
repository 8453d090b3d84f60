from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "workers"
    label = "onbeat_workers"
    verbose_name = "Workers"

    def ready(self) -> None:
        from executions import figures as all_figures
        from executions.health import register
        from workers import checks, children, figures, health

        checks.register()
        all_figures.register(figures.of_all)
        children.connect()
        register("workers", health.beating)
