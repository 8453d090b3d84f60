from django.apps import AppConfig


class CallbacksConfig(AppConfig):
    name = "callbacks"
    label = "onbeat_callbacks"
    verbose_name = "HTTP callbacks"
