"""The page of a deed: what will happen, what is still to be said, and a button.

Owns the frame of everything that changes something. Invariants: looking at the page (GET) changes nothing; a POST does
all of it or nothing, with its entry in the audit trail; what is refused is told beside its field, and what was typed
stays.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied as NotAllowed
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

from console import glance
from jobs.refusals import Refused

__all__ = ["Deed", "NotAllowed", "at_once", "came_from", "page", "refuse", "show"]

Crumbs = Sequence[tuple[str, str]]


@dataclass
class Deed:
    """One thing that a person may do on a page of its own."""

    title: str
    verb: str  # on the button
    back: str  # the address to return to
    do: Callable[[dict[str, Any]], str]  # with what the form says; what it answers is told on the next page
    form: type[forms.Form] = forms.Form
    form_options: dict[str, Any] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    explains: Sequence[str] = ()
    is_destructive: bool = False
    is_whole: bool = True  # in one transaction
    crumbs: Crumbs = ()
    hidden: Sequence[tuple[str, str]] = ()  # what the next request has to say again
    template: str = "console/deed.html"
    context: dict[str, Any] = field(default_factory=dict)


def page(request: HttpRequest, deed: Deed) -> HttpResponse:
    is_confirmed = request.method == "POST" and "confirmed" in request.POST
    form = deed.form(request.POST if is_confirmed else None, initial=deed.initial, **deed.form_options)
    if is_confirmed and form.is_valid():
        try:
            with transaction.atomic() if deed.is_whole else nullcontext():
                told = deed.do(form.cleaned_data)
        except Refused as refused:
            refuse(form, refused)
        else:
            glance.forget()
            messages.success(request, told)
            return HttpResponseRedirect(deed.back)
    return show(request, deed, form, status=422 if is_confirmed else 200)


def at_once(request: HttpRequest, back: str, do: Callable[[], str]) -> HttpResponse:
    """What needs no page of its own: done by one press, and told on the page that the button stands on."""
    try:
        with transaction.atomic():
            told = do()
    except Refused as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, told)
    return HttpResponseRedirect(back)


def show(request: HttpRequest, deed: Deed, form: forms.Form, *, status: int = 200) -> HttpResponse:
    """The page, with a form as it is."""
    context = {
        **admin.site.each_context(request),
        "title": deed.title,
        "crumbs": deed.crumbs,
        "deed": deed,
        "form": form,
        **deed.context,
    }
    return TemplateResponse(request, deed.template, context, status=status)


def refuse(form: forms.Form, refused: Refused) -> None:
    """Beside the field it is about, if the form has one of that name."""
    name = refused.field.replace(".", "_").replace("/", "_")
    form.add_error(name if name in form.fields else None, str(refused))


def came_from(request: HttpRequest, otherwise: str) -> str:
    """The page of ours that a button was pressed on."""
    named = request.POST.get("back", "") or request.GET.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(named, allowed_hosts=None) and named.startswith("/admin/")
    return named if is_ours else otherwise
