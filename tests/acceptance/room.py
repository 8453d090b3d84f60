"""The platform as people meet it: its pages, a beat, and a worker that has something to do.

Started once for all tests that look at pages. They share it, so each makes jobs of its own, and lets those of others
be.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page

from access.roles import Role
from tests.acceptance.crew import Crew, a_crew
from tests.browser import Window

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Person:
    name: str
    password: str = PASSWORD


class Room:
    def __init__(self, crew: Crew, url: str) -> None:
        self.crew = crew
        self.url = url
        self._people: dict[Role | None, Person] = {}
        self._cookies: dict[Role | None, Any] = {}

    def at(self, url: str) -> "Room":
        """The same, by another web process: the same people come in."""
        other = Room(self.crew, url)
        other._people = self._people
        return other

    def ask(self, expression: str) -> Any:
        """The value of a Python expression within the platform."""
        return self.crew.ask(expression)

    def person(self, role: Role | None = None) -> Person:
        """Somebody who may do what the role may, or who set the platform up and may do everything; the same one each
        time."""
        if role not in self._people:
            one = Person(f"some-{role}" if role else "founder")
            facts = {"is_staff": True, "is_superuser": role is None}
            groups = [role.group] if role else []
            make = f"User.objects.create_user({one.name!r}, password={one.password!r}, **{facts!r})"
            self.ask(f"{make}.groups.set(Group.objects.filter(name__in={groups!r}))")
            self._people[role] = one
        return self._people[role]

    def let_in(self, window: Window, role: Role | None = None, path: str = "/admin/") -> Page:
        """The window's page, logged in: by the form, and by its cookie when the same person was here before."""
        window.context.add_cookies(self._cookies.get(role, []))
        window.page.goto(f"{self.url}{path}")
        if "/login/" in window.page.url:  # also if the person has logged out since
            person = self.person(role)
            window.log_in(self.url, person.name, person.password)
            window.page.wait_for_url(f"{self.url}{path}")
            self._cookies[role] = window.context.cookies()
        return window.page


@contextmanager
def a_room(factory: pytest.TempPathFactory, **environment: str) -> Iterator[Room]:
    with a_crew(factory, **environment) as crew:
        prefix = crew.platform.name
        url = crew.platform.web()
        with crew.working("worker", "-Q", f"{prefix}.default,{prefix}.http"):
            yield Room(crew, url)
