from django.apps import AppConfig


class ExecutionsConfig(AppConfig):
    name = "executions"
    # Prefixed, so that nothing clashes in a project that has an app of the same name.
    label = "onbeat_executions"
    verbose_name = "Executions"

    def ready(self) -> None:
        from executions import checks, folder_broker, health

        checks.register()
        folder_broker.register()
        health.register("database", health.database)
