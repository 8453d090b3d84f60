"""What is asked of a person who does something to executions."""

from django import forms


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=200, required=False, help_text="Stands on the execution.")


class NoteForm(forms.Form):
    note = forms.CharField(max_length=200, required=False, help_text="What was decided; stands on a dead letter.")
