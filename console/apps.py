from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ConsoleConfig(AppConfig):
    name = "console"
    label = "onbeat_console"
    verbose_name = "Console"


class RoomConfig(SimpleAdminConfig):
    """Django's admin, with our site in place of its own. Its pages are loaded with the addresses, which beats and
    workers do without."""

    default_site = "console.site.Room"
