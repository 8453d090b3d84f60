"""How the admin looks: names, colours, the sidebar. Read by the settings, so it imports no model.

Sidebar entries are hidden from those who may not open them; the pages themselves refuse as well.
"""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.urls import reverse_lazy

from access.roles import Role

_INDIGO = {
    "50": "#eef2ff",
    "100": "#e0e7ff",
    "200": "#c7d2fe",
    "300": "#a5b4fc",
    "400": "#818cf8",
    "500": "#6366f1",
    "600": "#4f46e5",
    "700": "#4338ca",
    "800": "#3730a3",
    "900": "#312e81",
    "950": "#1e1b4b",
}


def _static(path: str) -> Callable[[HttpRequest], str]:
    def address(_request: HttpRequest) -> str:
        from django.templatetags.static import static

        return static(path)

    return address


def _for(needed: Role) -> Callable[[HttpRequest], bool]:
    def is_allowed(request: HttpRequest) -> bool:
        from console.people import may

        return may(request, needed)

    return is_allowed


def _for_superusers(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)


def _entry(title: str, icon: str, address: str, needed: Role = Role.VIEWER, **more: Any) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{address}"), "permission": _for(needed), **more}


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Onbeat",
    "SITE_HEADER": "Onbeat",
    "SITE_SUBHEADER": "every fire, once",
    "SITE_URL": None,
    "SITE_ICON": _static("console/mark.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _static("console/mark.svg")}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "ENVIRONMENT": "console.glance.environment",
    "STYLES": [_static("console/console.css")],
    "SCRIPTS": [_static("console/console.js")],
    "COLORS": {"primary": _INDIGO},
    "SIDEBAR": {
        "navigation": [
            {
                "title": "Operations",
                "items": [
                    _entry("Dashboard", "space_dashboard", "index"),
                    _entry("Jobs", "event_repeat", "onbeat_jobs_job_changelist"),
                    _entry("Executions", "play_circle", "onbeat_executions_execution_changelist"),
                    _entry("Dead letters", "mark_email_unread", "dead_letters", badge="console.glance.dead_badge"),
                ],
            },
            {
                "title": "Machinery",
                "items": [
                    _entry("Queues", "stacks", "queues"),
                    _entry("Workers", "engineering", "onbeat_workers_worker_changelist"),
                    _entry("Beats", "ecg_heart", "onbeat_beat_beat_changelist"),
                    _entry("Notifications", "notifications", "onbeat_notifications_receiver_changelist"),
                    _entry("Callback hosts", "webhook", "onbeat_callbacks_host_changelist"),
                ],
            },
            {
                "title": "Access",
                "items": [
                    _entry("API keys", "key", "onbeat_access_apikey_changelist", Role.ADMIN),
                    _entry("Audit trail", "history_edu", "onbeat_access_auditentry_changelist", Role.ADMIN),
                    _entry("Users", "group", "auth_user_changelist") | {"permission": _for_superusers},
                    _entry("Groups", "shield_person", "auth_group_changelist") | {"permission": _for_superusers},
                ],
            },
        ],
    },
}
