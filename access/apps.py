from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "access"
    label = "onbeat_access"
    verbose_name = "Access"
