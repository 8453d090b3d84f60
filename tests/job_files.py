"""Files of jobs, as people write them."""

from pathlib import Path
from typing import Any

import yaml


def a_body(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "target": {"task": "onbeat.echo"}, "schedule": {"cron": "0 3 * * *"}, **more}


def written(folder: Path, *jobs: Any, name: str = "jobs.yaml", manager: str = "team") -> str:
    """A file of these; its path."""
    path = folder / name
    path.write_text(yaml.safe_dump({"manager": manager, "jobs": list(jobs)}), encoding="utf-8")
    return str(path)
