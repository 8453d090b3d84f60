"""A RabbitMQ that only one module of tests uses, so that it can be given faults which everybody would feel."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from launcher import rabbitmq
from launcher.ports import HOST, free_port
from launcher.service_record import NAME, Ports, Record


@dataclass
class Broker:
    folder: Path
    record: Record
    api_port: int

    @property
    def url(self) -> str:
        return self.record.addresses().broker_url

    def control(self, *words: str, program: str = "rabbitmqctl") -> None:
        rabbitmq.control(self.folder, self.record, *words, program=program)

    def serve_its_api(self) -> str:
        """Switch the management API on; returns its address."""
        self.control("enable", "rabbitmq_management", program="rabbitmq-plugins")
        return f"http://{NAME}:{self.record.rabbitmq_password}@{HOST}:{self.api_port}"

    def allow_memory(self, limit: str) -> None:
        self.control("set_vm_memory_high_watermark", *limit.split())


@contextmanager
def own_rabbitmq() -> Iterator[Broker]:
    folder = Path(tempfile.mkdtemp(prefix="onbeat-test-"))
    ports: set[int] = set()
    for _ in range(4):
        ports.add(free_port(ports))
    amqp, dist, epmd, api = sorted(ports)
    record = Record(
        location=str(folder),
        node=f"onbeat-{secrets.token_hex(6)}@localhost",
        ports=Ports(rabbitmq=amqp, dist=dist, epmd=epmd),
    )
    try:
        _say_where_the_api_is(folder / "rabbitmq" / "conf.d", api)
        rabbitmq.start(folder, record)
        yield Broker(folder, record, api)
    finally:
        rabbitmq.stop(folder, record)
        shutil.rmtree(folder, ignore_errors=True)


def _say_where_the_api_is(place: Path, port: int) -> None:
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    said = {"management.tcp.ip": HOST, "management.tcp.port": port, "collect_statistics_interval": 1000}
    (place / "api.conf").write_text("".join(f"{name} = {value}\n" for name, value in said.items()))
