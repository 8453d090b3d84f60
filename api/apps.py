from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "api"
    label = "onbeat_api"
    verbose_name = "REST API"
