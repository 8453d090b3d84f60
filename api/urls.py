"""All addresses of the API. No address ends with a slash."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from api.completions import CompletionView
from api.executions.dead_letters import (
    DiscardDeadView,
    DiscardMessagesView,
    GroupsView,
    MessagesView,
    ReplayDeadView,
    ReplayMessagesView,
)
from api.executions.sweeps import CancelMatchingView, ReplayMatchingView
from api.executions.views import CancelView, ExecutionsView, ExecutionView, ReplayView, RetryNowView
from api.jobs.backfills import BackfillView
from api.jobs.bulk import BulkJobsView
from api.jobs.history import DiffView, VersionsView, VersionView
from api.jobs.pauses import PauseView, ResumeView
from api.jobs.previews import JobPreviewView, SchedulePreviewView
from api.jobs.runs import BulkRunsView, RunByKeyView, RunsView
from api.jobs.views import JobByKeyView, JobsView, JobView
from api.notifications.views import ReceiversView, ReceiverView, TestView
from api.operations.audit import AuditView
from api.operations.caller import CallerView
from api.operations.hosts import HostsView
from api.operations.queues import QueuesView
from api.operations.secrets import SecretsView, SecretView
from api.operations.statistics import StatisticsView
from api.operations.workers import BeatsView, WorkersView

urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    # ── Jobs ──
    path("v1/jobs", JobsView.as_view()),
    path("v1/jobs/by-key/<path:key>", JobByKeyView.as_view()),
    path("v1/jobs/<str:job>", JobView.as_view()),
    path("v1/jobs/<str:job>/pause", PauseView.as_view()),
    path("v1/jobs/<str:job>/resume", ResumeView.as_view()),
    path("v1/jobs/<str:job>/preview", JobPreviewView.as_view()),
    path("v1/jobs/<str:job>/versions", VersionsView.as_view()),
    path("v1/jobs/<str:job>/versions/<int:number>", VersionView.as_view()),
    path("v1/jobs/<str:job>/diff", DiffView.as_view()),
    path("v1/jobs/<str:job>/backfill", BackfillView.as_view()),
    path("v1/jobs/<str:job>/bulk-runs", BulkRunsView.as_view()),
    path("v1/jobs/<str:job>/runs", RunsView.as_view()),
    path("v1/jobs/<str:job>/runs/<path:run_key>", RunByKeyView.as_view()),
    path("v1/bulk/jobs", BulkJobsView.as_view()),
    path("v1/schedules/preview", SchedulePreviewView.as_view()),
    # ── Executions ──
    path("v1/executions", ExecutionsView.as_view()),
    path("v1/executions/cancel", CancelMatchingView.as_view()),
    path("v1/executions/replay", ReplayMatchingView.as_view()),
    path("v1/executions/<uuid:id>", ExecutionView.as_view()),
    path("v1/executions/<uuid:id>/cancel", CancelView.as_view()),
    path("v1/executions/<uuid:id>/retry-now", RetryNowView.as_view()),
    path("v1/executions/<uuid:id>/replay", ReplayView.as_view()),
    # ── Dead letters ──
    path("v1/dead-letters/groups", GroupsView.as_view()),
    path("v1/dead-letters/replay", ReplayDeadView.as_view()),
    path("v1/dead-letters/discard", DiscardDeadView.as_view()),
    path("v1/dead-letters/messages", MessagesView.as_view()),
    path("v1/dead-letters/messages/replay", ReplayMessagesView.as_view()),
    path("v1/dead-letters/messages/discard", DiscardMessagesView.as_view()),
    # ── Notifications ──
    path("v1/notifications", ReceiversView.as_view()),
    path("v1/notifications/<str:name>", ReceiverView.as_view()),
    path("v1/notifications/<str:name>/test", TestView.as_view()),
    # ── Callbacks ──
    path("v1/completions/<uuid:id>/<int:attempt>/<str:signature>", CompletionView.as_view()),
    # ── Operations ──
    path("v1/secrets", SecretsView.as_view()),
    path("v1/secrets/<str:name>", SecretView.as_view()),
    path("v1/hosts", HostsView.as_view()),
    path("v1/queues", QueuesView.as_view()),
    path("v1/workers", WorkersView.as_view()),
    path("v1/beats", BeatsView.as_view()),
    path("v1/statistics", StatisticsView.as_view()),
    path("v1/audit", AuditView.as_view()),
    path("v1/caller", CallerView.as_view()),
]
