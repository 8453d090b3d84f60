"""Executions in the admin."""
