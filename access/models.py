"""Who may use the interfaces, who did what, and what was answered: ApiKey, AuditEntry, IdempotentAnswer, LoginBucket.

Owns the shape of these rows. Keys are written by `access/api_keys.py`, entries of the audit trail only added, by
`access/audit.py`. Invariant: no row holds the secret of a key, or what somebody typed to log in.
"""

from datetime import datetime

from django.db import models
from django.db.models import Q

from access.roles import Role

PREFIX_CHARACTERS = 12
# How long each text of an entry of the audit trail may be.
ENTRY_CHARACTERS = {"who": 200, "through": 32, "action": 64, "subject": 255, "note": 200}


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def valid(self, now: datetime) -> "ApiKeyQuerySet":
        """Neither revoked nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)


class ApiKey(models.Model):
    name = models.CharField(max_length=100, help_text="What the key is for, for people.")
    prefix = models.CharField(max_length=PREFIX_CHARACTERS, unique=True)
    digest = models.CharField(max_length=64, help_text="The SHA-256 of the whole secret, in hexadecimal.")
    role = models.CharField(max_length=16, choices=[(role.value, role.value.capitalize()) for role in Role])
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Not valid from this moment on; empty: no end.")
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=200, blank=True)
    last_used_at = models.DateTimeField(null=True, help_text="To the minute.")

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        db_table = "onbeat_api_key"
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=[role.value for role in Role]), name="onbeat_api_key_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"

    def state(self, now: datetime) -> str:
        """In a word: valid, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


class AuditEntry(models.Model):
    """Somebody did something. Append-only."""

    at = models.DateTimeField()
    who = models.CharField(max_length=ENTRY_CHARACTERS["who"], blank=True)
    through = models.CharField(
        max_length=ENTRY_CHARACTERS["through"],
        choices=[("rest", "REST"), ("admin", "Admin"), ("command", "Command"), ("python", "Python")],
    )
    action = models.CharField(
        max_length=ENTRY_CHARACTERS["action"], help_text="Such as job.create, execution.cancel, api_key.revoke."
    )
    subject = models.CharField(max_length=ENTRY_CHARACTERS["subject"], help_text="Such as job:daily-invoice-gen.")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    note = models.CharField(max_length=ENTRY_CHARACTERS["note"], blank=True)

    class Meta:
        db_table = "onbeat_audit_entry"
        verbose_name_plural = "audit trail"
        indexes = [
            models.Index(fields=["at", "id"], name="onbeat_audit_entry_at"),
            # By which the beginning of a subject is found as well, whatever the language of the database sorts like.
            models.Index(
                fields=["subject", "id"],
                opclasses=["varchar_pattern_ops", "int8_ops"],
                name="onbeat_audit_entry_subject",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"


class IdempotentAnswer(models.Model):
    """What was answered to a request that carried a key of its own."""

    owner = models.CharField(max_length=64, help_text="Whose request it was.")
    key = models.CharField(max_length=255, help_text="The request's Idempotency-Key.")
    fingerprint = models.CharField(max_length=64, help_text="Of the request: another one must not use the key.")
    status = models.PositiveSmallIntegerField()
    body = models.TextField()
    headers = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "onbeat_idempotent_answer"
        indexes = [models.Index(fields=["created_at"], name="onbeat_idempotent_answer_at")]
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="onbeat_idempotent_answer_once")]

    def __str__(self) -> str:
        return f"{self.owner}: {self.key}"


class LoginBucket(models.Model):
    """How many more tries to log in are taken, of a user, of an address, or of both."""

    name = models.CharField(max_length=64, primary_key=True, help_text="Of whom, as a keyed hash.")
    full_at_us = models.BigIntegerField(help_text="When all tries are there again, in microseconds since 1970.")
    told_at_us = models.BigIntegerField(help_text="When the log was last told that tries are refused.")

    class Meta:
        db_table = "onbeat_login_bucket"
        indexes = [models.Index(fields=["full_at_us"], name="onbeat_login_bucket_full")]

    def __str__(self) -> str:
        return self.name[:8]
