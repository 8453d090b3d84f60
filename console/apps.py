from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AppConfig):
    name = "console"
    label = "onbeat_console"
    verbose_name = "Console"


class RoomConfig(AdminConfig):
    """Django's admin, with our site in place of its own."""

    default_site = "console.site.Room"
