from django.apps import AppConfig


class TerminalConfig(AppConfig):
    name = "terminal"
    label = "onbeat_terminal"
    verbose_name = "Terminal"
