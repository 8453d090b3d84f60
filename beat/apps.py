from django.apps import AppConfig


class BeatConfig(AppConfig):
    name = "beat"
    label = "onbeat_beat"
    verbose_name = "Beat"

    def ready(self) -> None:
        from beat import checks, health
        from executions.health import register

        checks.register()
        register("beat", health.ticking)
        register("clocks", health.agreeing_on_the_time)
        register("broker", health.reaching_broker)
        register("redis", health.reaching_redis)
