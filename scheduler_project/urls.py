"""All addresses of the web process."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from executions.metrics_view import metrics

admin.autodiscover()  # not when Django starts: most processes show no page
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("health/", include("executions.health_urls")),
    path("api/", include("api.urls")),
    path("metrics", metrics, name="metrics"),
]
handler400 = "api.problems.on_bad_request"
handler404 = "api.problems.on_not_found"
handler500 = "api.problems.on_error"
