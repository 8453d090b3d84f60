"""Apps and people who use the platform while faults strike: one over REST, one by the Python interface.

Each does something several times a second, chosen by the seed. Who gets no answer asks again where asking twice is
safe, as a well-made app does: with its Idempotency-Key, by the key of its run, or by the job's own key.
"""

import http.client
import json
import random
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from chaos import load
from chaos.journal import NOT_KNOWN, Journal, answered

_PAUSE_SECONDS = (0.1, 0.5)
_ANSWER_SECONDS = 12
_ASK_FOR_SECONDS = 60
_AGAIN_SECONDS = 0.3
_FINISH_SECONDS = 120.0
_DELAYS = (2, 12)
_REMEMBERED = 30
_MOST_MADE = 2  # of the jobs that a caller makes, so that a long run is no heavier than a short one


class NoAnswer(Exception):
    """Nobody knows whether it was done."""


@dataclass(frozen=True)
class Known:
    """A delayed run that may still be moved or cancelled."""

    job: str
    execution: str
    run_key: str


class Caller(ABC):
    """Chooses what to do; those below say how."""

    name: str

    def __init__(self, journal: Journal, seed: int, until: float) -> None:
        self._journal = journal
        self._draw = random.Random(f"{self.name} {seed}")
        self._until = until  # by time.monotonic(): nothing is asked for that is due later
        self._known: list[Known] = []
        self._paused: set[str] = set()
        self._made: list[str] = []
        self.edited = [job.key for job in load.edited(self.name)]
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        deeds = [
            *[self._run_now] * 4,
            *[self._run_later] * 6,
            *[self._ask_twice] * 2,
            *[self._cancel] * 3,
            *[self._move] * 2,
            *[self._change] * 2,
            self._pause,
            *[self._resume] * 2,
            self._make,
            self._archive,
        ]
        try:
            while time.monotonic() < self._until - _DELAYS[1] / 2:
                self._draw.choice(deeds)()
                time.sleep(self._draw.uniform(*_PAUSE_SECONDS))
            self._finish()
        except BaseException as error:  # a fault of the harness: it must not look like a quiet run
            self.error = error

    def _finish(self) -> None:
        """What is paused goes on, so that all that was left out gets its row."""
        deadline = time.monotonic() + _FINISH_SECONDS
        for key in sorted(self._paused):
            while self._settle("resume", key, lambda key=key: self.resume(key)) == NOT_KNOWN:  # type: ignore[misc]
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{key} is still paused: nobody answered {_FINISH_SECONDS:.0f} s long when it was to be resumed"
                    )
                time.sleep(_AGAIN_SECONDS)

    # ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _run_now(self) -> None:
        job = self._draw.choice(["asked", "asked-slow", "asked-flaky", "asked-limited"])
        self._ask(job, delay=None, run_key="")

    def _run_later(self) -> None:
        self._ask(self._draw.choice(["asked", "asked-flaky"]), delay=self._delay(), run_key=self._new_name())

    def _ask(self, job: str, *, delay: float | None, run_key: str) -> None:
        mark = self._new_name()
        entry = self._journal.begin(self.name, "run", job, mark=mark, run_key=run_key)
        # By now its key may stand for another run, and whoever moves or cancels says the key.
        self._known = [known for known in self._known[-_REMEMBERED:] if known.run_key != run_key]
        try:
            execution, is_new = self.run(job, mark, delay, run_key)
        except NoAnswer:
            return
        answered(entry, "new" if is_new else "given back", execution=execution)
        if run_key:
            self._known.append(Known(job, execution, run_key))

    def _ask_twice(self) -> None:
        """The same run by its key: a second one must not come of it."""
        if self._known:
            known = self._draw.choice(self._known)
            self._ask(known.job, delay=self._delay(), run_key=known.run_key)

    def _cancel(self) -> None:
        if self._known:
            known = self._known.pop(self._draw.randrange(len(self._known)))
            self._settle("cancel", known.job, lambda: self.cancel(known), execution=known.execution)

    def _move(self) -> None:
        if self._known:
            known, delay = self._draw.choice(self._known), self._delay()
            self._settle("move", known.job, lambda: self.move(known, delay), execution=known.execution)

    def _new_name(self) -> str:
        return uuid.UUID(int=self._draw.getrandbits(128)).hex

    def _delay(self) -> int:
        left = max(_DELAYS[0], min(_DELAYS[1], self._until - time.monotonic()))
        return int(self._draw.uniform(_DELAYS[0], left))

    # ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _change(self) -> None:
        key, step = self._draw.choice(self.edited), self._draw.choice(load.STEPS)
        self._settle("change", key, lambda: self.change(key, step), step=step)

    def _pause(self) -> None:
        key = self._draw.choice(self.edited)
        self._paused.add(key)
        self._settle("pause", key, lambda: self.pause(key))

    def _resume(self) -> None:
        if self._paused:
            key = self._draw.choice(sorted(self._paused))
            if self._settle("resume", key, lambda: self.resume(key)) != NOT_KNOWN:
                self._paused.discard(key)

    def _make(self) -> None:
        if len(self._made) >= _MOST_MADE:
            self._archive()
            return
        key, step = f"made-{self.name}-{self._new_name()[:8]}", self._draw.choice((1, 2))
        self._settle("create", key, lambda: self.create(key, step), step=step)
        self._made.append(key)  # also if nobody knows whether it is there

    def _archive(self) -> None:
        if self._made:
            key = self._made.pop(self._draw.randrange(len(self._made)))
            self._settle("archive", key, lambda: self.archive(key))

    def _settle(self, deed: str, job: str, do: Callable[[], dict[str, Any]], **facts: Any) -> str:
        entry = self._journal.begin(self.name, deed, job, **facts)
        try:
            said = do()
        except NoAnswer:
            return NOT_KNOWN
        answered(entry, said.pop("outcome", "done"), **said)
        return entry.outcome

    # ── How ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def run(self, job: str, mark: str, delay: float | None, run_key: str) -> tuple[str, bool]: ...

    @abstractmethod
    def cancel(self, known: Known) -> dict[str, Any]: ...

    @abstractmethod
    def move(self, known: Known, delay: float) -> dict[str, Any]: ...

    @abstractmethod
    def change(self, key: str, step: int) -> dict[str, Any]: ...

    @abstractmethod
    def pause(self, key: str) -> dict[str, Any]: ...

    @abstractmethod
    def resume(self, key: str) -> dict[str, Any]: ...

    @abstractmethod
    def create(self, key: str, step: int) -> dict[str, Any]: ...

    @abstractmethod
    def archive(self, key: str) -> dict[str, Any]: ...


class RestCaller(Caller):
    name = load.CALLERS[0]

    def __init__(self, journal: Journal, seed: int, until: float, *, url: str, secret: str) -> None:
        super().__init__(journal, seed, until)
        self._address = urlsplit(url).netloc
        self._secret = secret

    def run(self, job: str, mark: str, delay: float | None, run_key: str) -> tuple[str, bool]:
        body: dict[str, Any] = {"kwargs": {**_own_kwargs(job), "mark": mark}}
        body |= {"delay": delay} if delay is not None else {}
        body |= {"run_key": run_key} if run_key else {}
        answer = self._call("POST", f"/jobs/{job}/runs", body, idempotency_key=mark)
        return answer["id"], answer["is_new"]

    def cancel(self, known: Known) -> dict[str, Any]:
        return self._call("POST", f"/executions/{known.execution}/cancel", {"reason": "by the harness"}, once=True)

    def move(self, known: Known, delay: float) -> dict[str, Any]:
        return self._call("PUT", f"/jobs/{known.job}/runs/{known.run_key}", {"delay": delay}, once=True)

    def change(self, key: str, step: int) -> dict[str, Any]:
        return _version(self._call("PATCH", f"/jobs/{key}", {"schedule": {"cron": load.cron_of(step)}}, once=True))

    def pause(self, key: str) -> dict[str, Any]:
        return _version(self._call("POST", f"/jobs/{key}/pause", {"reason": "by the harness"}, once=True))

    def resume(self, key: str) -> dict[str, Any]:
        return _version(self._call("POST", f"/jobs/{key}/resume", {}, once=True))

    def create(self, key: str, step: int) -> dict[str, Any]:
        target = {"task": "chaos.work", "lives_elsewhere": True}
        body = {"target": target, "schedule": {"cron": load.cron_of(step)}, "max_lost": load.MANY}
        return _version(self._call("PUT", f"/jobs/by-key/{quote(key)}", body))

    def archive(self, key: str) -> dict[str, Any]:
        return _version(self._call("DELETE", f"/jobs/{key}", None, once=True))

    def _call(
        self, method: str, path: str, body: Any, *, idempotency_key: str = "", once: bool = False
    ) -> dict[str, Any]:
        """The answer. Who may ask again does, until there is one; a refusal is an answer as well."""
        headers = {"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"}
        headers |= {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        deadline = time.monotonic() + _ASK_FOR_SECONDS
        while True:
            status, said = self._ask_once(method, path, body, headers)
            if 200 <= status < 300:
                return said
            is_unknown = status == 0 or status >= 500 or (status == 409 and bool(idempotency_key))
            if status in (404, 409, 412, 422) and not is_unknown:
                return {"outcome": f"refused: {said.get('detail', status)}"}
            if not is_unknown:
                raise AssertionError(f"{method} {path} was answered {status}: {said}")
            if once or time.monotonic() > deadline:
                raise NoAnswer
            time.sleep(_AGAIN_SECONDS)

    def _ask_once(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Status 0: no answer came."""
        connection = http.client.HTTPConnection(self._address, timeout=_ANSWER_SECONDS)
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
        except (OSError, http.client.HTTPException, ValueError):
            return 0, {}
        finally:
            connection.close()


class PythonCaller(Caller):
    """Within this very process, which is set up as a Django app for that."""

    name = load.CALLERS[1]

    def run(self, job: str, mark: str, delay: float | None, run_key: str) -> tuple[str, bool]:
        from jobs import runs

        later = None if delay is None else timedelta(seconds=delay)
        kwargs = {**_own_kwargs(job), "mark": mark}
        asked = self._do(lambda: runs.run(job, kwargs=kwargs, delay=later, run_key=run_key), once=not run_key)
        assert not isinstance(asked, dict), asked
        return str(asked.execution_id), asked.is_new

    def cancel(self, known: Known) -> dict[str, Any]:
        from jobs import runs

        return {"outcome": _in_rests_words(self._do(lambda: runs.cancel(known.job, known.run_key), once=True))}

    def move(self, known: Known, delay: float) -> dict[str, Any]:
        from jobs import runs

        later = timedelta(seconds=delay)
        return {"outcome": str(self._do(lambda: runs.move(known.job, known.run_key, delay=later), once=True))}

    def change(self, key: str, step: int) -> dict[str, Any]:
        from jobs import definitions
        from jobs.finding import find
        from jobs.recurrence import Cron

        schedule = Cron(load.cron_of(step))
        return _version(
            self._do(lambda: definitions.change(key, version=find(key).version, schedule=schedule), once=True)
        )

    def pause(self, key: str) -> dict[str, Any]:
        from jobs import definitions

        return _version(self._do(lambda: definitions.pause(key, reason="by the harness"), once=True))

    def resume(self, key: str) -> dict[str, Any]:
        from jobs import definitions

        return _version(self._do(lambda: definitions.resume(key), once=True))

    def create(self, key: str, step: int) -> dict[str, Any]:
        job = load.Job(key, "chaos.work", step)
        return _version(self._do(lambda: load.create(job, ""), once=True))

    def archive(self, key: str) -> dict[str, Any]:
        from jobs import definitions

        return _version(self._do(lambda: definitions.archive(key), once=True))

    def _do(self, deed: Callable[[], Any], *, once: bool) -> Any:
        from django.db import Error, connection

        from jobs.refusals import Refused

        deadline = time.monotonic() + _ASK_FOR_SECONDS
        while True:
            try:
                return deed()
            except Refused as refusal:
                return {"outcome": f"refused: {refusal}"}
            except Error:
                connection.close()
                if once or time.monotonic() > deadline:
                    raise NoAnswer from None
                time.sleep(_AGAIN_SECONDS)


def _own_kwargs(job: str) -> dict[str, Any]:
    """What is given for a run replaces what the job says."""
    return next(each.kwargs for each in load.jobs() if each.key == job)


def _version(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return {"outcome": answer["outcome"]} if "outcome" in answer else {"version": answer.get("version")}
    return {"version": answer if isinstance(answer, int) else answer.version}


def _in_rests_words(outcome: Any) -> str:
    if isinstance(outcome, dict):
        return str(outcome["outcome"])
    return "cancelled" if str(outcome) == "done" else str(outcome)
