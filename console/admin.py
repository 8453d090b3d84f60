"""Found by Django's admin: whatever registers itself with the site."""

from console import access, notifications, operations
from console.executions import admin as executions
from console.jobs import admin as jobs

__all__ = ["access", "executions", "jobs", "notifications", "operations"]
