from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    label = "onbeat_notifications"
    verbose_name = "Notifications"
