"""Roles are in one line, and people get theirs by groups."""

from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser

from access.roles import Role, role_of

IN_ORDER = [Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.ADMIN]


def test_the_values_are_lower_case_and_in_order() -> None:
    assert list(Role) == IN_ORDER
    assert [role.value for role in Role] == ["viewer", "operator", "editor", "admin"]


@pytest.mark.parametrize("role", IN_ORDER)
@pytest.mark.parametrize("other", IN_ORDER)
def test_each_role_includes_itself_and_those_before_it(role: Role, other: Role) -> None:
    assert role.includes(other) is (IN_ORDER.index(role) >= IN_ORDER.index(other))


def test_each_role_says_what_it_may() -> None:
    assert [role.may for role in Role] == [
        "look",
        "run, pause, cancel and replay",
        "change jobs",
        "everything, also API keys, secrets and the audit trail",
    ]


def test_each_role_has_a_group_of_its_own() -> None:
    assert [role.group for role in Role] == ["Onbeat viewers", "Onbeat operators", "Onbeat editors", "Onbeat admins"]


def test_an_active_superuser_is_admin_without_any_group() -> None:
    assert role_of(SimpleNamespace(is_active=True, is_superuser=True)) is Role.ADMIN


def test_a_superuser_who_is_not_active_has_no_role() -> None:
    assert role_of(SimpleNamespace(is_active=False, is_superuser=True)) is None


def test_nobody_in_particular_has_no_role() -> None:
    assert role_of(AnonymousUser()) is None
