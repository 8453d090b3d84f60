"""The groups are made by a migration, and give the people in them a role."""

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from access.roles import Role, role_of
from tests.tiers import once_embedded

pytestmark = [pytest.mark.django_db, once_embedded]
GROUPS = ["Onbeat viewers", "Onbeat operators", "Onbeat editors", "Onbeat admins"]
migration = import_module("access.migrations.0002_groups")


def migrate() -> None:
    migration.make_groups(apps, SimpleNamespace(connection=connection))


@pytest.fixture
def user() -> User:
    migrate()
    return User.objects.create_user("ada")


def test_the_migration_makes_the_group_of_each_role() -> None:
    Group.objects.all().delete()
    migrate()
    assert sorted(Group.objects.values_list("name", flat=True)) == sorted(GROUPS)
    assert {role.group for role in Role} == set(GROUPS)


def test_the_migration_leaves_groups_that_are_there_as_they_are(user: User) -> None:
    before = list(Group.objects.order_by("pk").values_list("pk", "name"))
    migrate()
    assert list(Group.objects.order_by("pk").values_list("pk", "name")) == before


@pytest.mark.parametrize("role", list(Role))
def test_a_group_gives_its_role(user: User, role: Role) -> None:
    user.groups.add(Group.objects.get(name=role.group))
    assert role_of(user) is role


def test_of_several_groups_the_highest_counts(user: User) -> None:
    user.groups.set(Group.objects.filter(name__in=["Onbeat viewers", "Onbeat editors", "Onbeat operators"]))
    assert role_of(user) is Role.EDITOR


def test_without_a_group_of_ours_nobody_has_a_role(user: User) -> None:
    user.is_staff = True
    user.groups.add(Group.objects.create(name="Onbeat fans"))
    assert role_of(user) is None


def test_who_is_no_longer_active_has_no_role(user: User) -> None:
    user.groups.add(Group.objects.get(name="Onbeat admins"))
    user.is_active = False
    assert role_of(user) is None


def test_in_the_admin_the_groups_of_roles_can_be_neither_renamed_nor_deleted(admin_client: Client) -> None:
    migrate()
    ours, other = Group.objects.get(name="Onbeat viewers"), Group.objects.create(name="Others")
    for group in (ours, other):
        admin_client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "Renamed", "permissions": []})
        admin_client.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"})
    chosen = {"action": "delete_selected", "_selected_action": [ours.pk], "post": "yes"}
    admin_client.post("/admin/auth/group/", chosen)
    assert sorted(Group.objects.values_list("name", flat=True)) == sorted(GROUPS)
