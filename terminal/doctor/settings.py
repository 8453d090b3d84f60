"""Settings: what the system checks of all apps say, Django's own among them."""

from django.core import checks

from terminal.doctor.findings import Examined, Finding, Severity
from terminal.doctor.visit import Visit

_MEANS = "A system check says so; the page of settings has a row for each of ours."


def examine(_visit: Visit) -> Examined:
    messages = [message for message in checks.run_checks() if not message.is_silenced()]
    findings = [
        Finding(message.id or "settings", _severity(message.level), message.msg, _MEANS, message.hint or "")
        for message in messages
    ]
    is_bad = any(finding.severity is not Severity.NOTE for finding in findings)
    return Examined("system checks find something" if is_bad else "system checks find nothing", findings)


def _severity(level: int) -> Severity:
    if level >= checks.ERROR:
        return Severity.ERROR
    return Severity.WARNING if level >= checks.WARNING else Severity.NOTE
