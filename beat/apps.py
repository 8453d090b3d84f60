from django.apps import AppConfig


class BeatConfig(AppConfig):
    name = "beat"
    label = "onbeat_beat"
    verbose_name = "Beat"

    def ready(self) -> None:
        from beat import checks, figures, health
        from executions import figures as all_figures
        from executions.health import register

        checks.register()
        all_figures.register(figures.of_all)
        register("beat", health.ticking)
        register("clocks", health.agreeing_on_the_time)
        register("broker", health.reaching_broker)
        register("redis", health.reaching_redis)
