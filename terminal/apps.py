from django.apps import AppConfig
from django.conf import settings


class TerminalConfig(AppConfig):
    name = "terminal"
    label = "onbeat_terminal"
    verbose_name = "Terminal"

    def ready(self) -> None:
        if settings.ONBEAT_JOBS_SYNC_AT_START:
            from beat import starting

            starting.register("sync", _sync)


def _sync() -> dict[str, object]:
    from terminal.at_start import sync  # brings much that other processes do without

    return sync()
