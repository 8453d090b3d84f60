"""Visits to the admin: who looks, and what stands on a page."""

from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client

from access.roles import Role

LOGIN = "/admin/login/"


def a_person(role: Role | None = None, *, name: str = "ada", **more: Any) -> User:
    """Without a password: tests come in by the session, and hashing takes longer than a page."""
    user = User.objects.create_user(name, **more)
    if role is not None:
        user.groups.add(Group.objects.get(name=role.group))
    return user


def visitor(user: User | None, **options: Any) -> Client:
    client = Client(**options)
    if user is not None:
        client.force_login(user)
    return client


def a_visitor(role: Role | None = None, **more: Any) -> Client:
    return visitor(a_person(role, **more))


def root(**options: Any) -> Client:
    return visitor(User.objects.create_superuser("root"), **options)


def text(client: Client, address: str, *, status: int = 200) -> str:
    """Of a page, as it is sent."""
    response = client.get(address)
    assert response.status_code == status, (address, response.status_code)
    return response.content.decode()


def said(response: HttpResponse) -> str:
    """What an action told: on the page itself if it was refused, or else for the next one."""
    if response.status_code == 302:
        return " ".join(str(message) for message in get_messages(response.wsgi_request))
    return response.content.decode()


def confirm(client: Client, address: str, **says: Any) -> HttpResponse:
    """Press the button on the page of a deed."""
    return client.post(address, {"confirmed": "yes", "viewer_zone": "UTC", **says})


def beside(response: HttpResponse) -> dict[str, str]:
    """What a form says is wrong, by field; beside no field under an empty name."""
    assert response.status_code == 422, (response.status_code, response.get("Location"))
    errors = response.context["form"].errors
    return {"" if name == "__all__" else name: " ".join(told) for name, told in errors.items()}


class Page(HTMLParser):
    """What a browser finds on a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.posts: list[str] = []  # where buttons send to
        self.hidden: dict[str, list[str]] = {}
        self.values: dict[str, str] = {}
        self.words: list[str] = []
        self._inside, self._form = "", ""
        self._is_post = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self._inside = tag
        if tag == "a":
            self.links.append(said.get("href", ""))
        if tag == "form":
            self._form, self._is_post = said.get("action", ""), said.get("method", "").lower() == "post"
        if self._is_post and said.get("type", "submit" if tag == "button" else "") == "submit":
            self.posts.append(said.get("formaction", self._form))
        if tag == "input" and "name" in said:
            if said.get("type") == "hidden":
                self.hidden.setdefault(said["name"], []).append(said.get("value", ""))
            self.values[said["name"]] = said.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag == "form":
            self._is_post = False

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        """As people read it."""
        return " ".join(" ".join(self.words).split())
