"""The pictures of the figures: readable by people and programs, wherever they are shown."""

from xml.etree import ElementTree

import pytest

from benchmarks.report import pictures, plots
from benchmarks.report.plots import Bar, Mark, Panel
from tests.unit import made_up_figures

SVG = "{http://www.w3.org/2000/svg}"
# How wide letters are at most, of their height, on a narrow page: of an ordinary and of a bold text.
LETTER_WIDTH, BOLD_WIDTH = 0.56, 0.64
DRAWN = pictures.all_of(made_up_figures.report())


def texts(picture: str, kind: str) -> list[str]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}text")
    return [each.text or "" for each in found if each.get("class") == kind]


def lengths(picture: str) -> list[float]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}rect")
    return [float(each.get("width") or 0) for each in found if each.get("class") != "card"]


def test_there_is_a_picture_of_each_thing_that_the_page_tells() -> None:
    assert set(DRAWN) == {
        "dispatch",
        "lateness",
        "stored",
        "failover",
        "scale-out",
        "worker",
        "memory",
        "growth",
    }


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_has_a_title_and_says_what_it_shows(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])
    assert root.get("role") == "img"
    named = {each.get("id"): each.text for each in root if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.get("aria-labelledby") == " ".join(filter(None, named))
    values = texts(DRAWN[name], "value")
    assert values
    assert all(value in (named["desc"] or "") for value in values)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_told_in_colours_for_light_and_dark_and_loads_nothing(name: str) -> None:
    assert "prefers-color-scheme: dark" in DRAWN[name]
    assert "href" not in DRAWN[name]
    assert "url(" not in DRAWN[name]


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_is_wider_than_the_card_or_runs_into_another_where_letters_are_largest(name: str) -> None:
    for kind, (_, height) in plots._LETTERS.items():
        width = BOLD_WIDTH if kind in ("title", "head", "value") else LETTER_WIDTH
        for text in texts(DRAWN[name], kind):
            assert len(text) * height * width <= plots.WIDTH - 40, text
    height = plots._LETTERS["label"][1]
    for label, value in zip(texts(DRAWN[name], "label"), texts(DRAWN[name], "value"), strict=False):
        assert (len(label) * LETTER_WIDTH + len(value) * BOLD_WIDTH + 1) * height <= plots.WIDTH - 56, label


def test_bars_are_as_long_as_their_values_are_large() -> None:
    picture = plots.bars("a", "b", [Panel([Bar("x", 100), Bar("y", 50), Bar("z", 0)], "s")])
    one, half, none = lengths(picture)
    assert one == pytest.approx(2 * half, abs=0.2)
    assert 0 < none < 5  # still to be seen


def test_on_a_scale_of_powers_each_tenfold_is_as_long() -> None:
    picture = plots.bars("a", "b", [Panel([Bar("x", 20_000), Bar("y", 2000), Bar("z", 200)], "s", is_log=True)])
    long, middle, short = lengths(picture)
    assert long - middle == pytest.approx(middle - short, abs=0.2)
    assert texts(picture, "tick") == ["100", "1,000", "10,000", "100,000"]


def test_a_budget_is_within_the_scale_and_told() -> None:
    picture = plots.bars("a", "b", [Panel([Bar("x", 3)], "s", mark=Mark(50, "budget: at most 50 s"))])
    assert texts(picture, "sub") == ["b", "budget: at most 50 s"]
    marks = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}line") if each.get("class") == "mark"]
    assert all(float(each.get("x2") or 0) <= plots.WIDTH for each in marks)


def test_signs_of_markup_in_a_text_do_no_harm() -> None:
    picture = plots.bars('<b> & "c"', "d", [Panel([Bar("x < y", 1)], "s")])
    assert texts(picture, "title") == ['<b> & "c"']
    assert texts(picture, "label") == ["x < y"]
