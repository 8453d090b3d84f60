"""The record of private services that the launcher's tests begin with, and how a file of theirs is protected."""

import stat
from pathlib import Path

from launcher.service_record import Record

PASSWORD_OF_ALL = "f" * 32


def new_record(folder: Path) -> Record:
    return Record(
        location=str(folder.resolve()),
        node="onbeat-test@localhost",
        postgres_password=PASSWORD_OF_ALL,
        redis_password=PASSWORD_OF_ALL,
        rabbitmq_password=PASSWORD_OF_ALL,
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
