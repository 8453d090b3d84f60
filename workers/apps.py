from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "workers"
    label = "onbeat_workers"
    verbose_name = "Workers"

    def ready(self) -> None:
        from executions.health import register
        from workers import checks, children, health

        checks.register()
        children.connect()
        register("workers", health.beating)
