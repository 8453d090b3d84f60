"""The groups by which people get a role. Those that are there already stay as they are, and none is ever removed."""

from django.db import migrations

NAMES = ["Onbeat viewers", "Onbeat operators", "Onbeat editors", "Onbeat admins"]


def make_groups(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in NAMES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):

    dependencies = [
        ("onbeat_access", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
