"""The private services as containers, for machines with a Docker engine and without the server programs."""

import hashlib
import os
import shutil
from pathlib import Path

from launcher.processes import environment, last_line, run
from launcher.service_record import Record, ServicesUnavailable

COMPOSE_FILE = Path(__file__).resolve().parent.parent / "compose.yaml"
SERVICES = ("postgres", "redis", "rabbitmq")
# The same file holds the platform, which is not started here. But compose wants what that needs all the same.
OF_THE_PLATFORM = ("ALLOWED_HOSTS", "FLOWER_BASIC_AUTH", "GRAFANA_PASSWORD", "METRICS_TOKEN", "SECRET_KEY")


def is_available() -> bool:
    """An engine answers, and it has compose."""
    if shutil.which("docker") is None:
        return False
    questions = (["docker", "compose", "version"], ["docker", "info"])
    return all(run(question, timeout=20).returncode == 0 for question in questions)


def start(record: Record) -> None:
    """Start the three containers and return when their health checks pass."""
    _compose(record, "up", "--detach", "--wait", *SERVICES, timeout=900)  # the images may have to be fetched first


def stop(record: Record) -> bool:
    """Stop the containers and keep their volumes; True if one was running."""
    was_running = bool(_compose(record, "ps", "--quiet").strip())
    _compose(record, "stop", timeout=120)
    return was_running


def project(record: Record) -> str:
    return "onbeat-" + hashlib.sha256(record.location.encode()).hexdigest()[:10]


def _compose(record: Record, *arguments: str, timeout: float = 60) -> str:
    variables = environment(
        without=["COMPOSE_"],
        **dict.fromkeys(OF_THE_PLATFORM, "not-used"),
        RESTART="no",  # they are for a person at work, and not for a machine that starts anew
        POSTGRES_PORT=str(record.ports.postgres),
        REDIS_PORT=str(record.ports.redis),
        RABBITMQ_PORT=str(record.ports.rabbitmq),
        POSTGRES_PASSWORD=record.postgres_password,
        REDIS_PASSWORD=record.redis_password,
        RABBITMQ_PASSWORD=record.rabbitmq_password,
    )
    # No file of variables: `.env` beside the file belongs to an installation, and may ask for the platform.
    compose = ["docker", "compose", "--project-name", project(record), "--file", str(COMPOSE_FILE)]
    compose += ["--env-file", os.devnull]
    done = run([*compose, *arguments], env=variables, timeout=timeout)
    if done.returncode != 0:
        raise ServicesUnavailable(
            f"`docker compose {arguments[0]}` failed: {last_line(done.stdout)}. "
            f"See `docker compose --project-name {project(record)} logs`, put it right, then try again."
        )
    return done.stdout
