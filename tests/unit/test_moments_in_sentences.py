"""Sentences of the domain name moments in UTC; the pages of the admin show them as all others."""

import pytest

from console.templatetags.onbeat import with_moments


def test_a_moment_in_a_sentence_is_one_that_the_page_can_turn_into_the_viewers_zone() -> None:
    shown = with_moments("Attempt 1 runs since 2026-11-17 22:39:54 UTC. It was asked to stop.", "Asia/Tokyo")
    assert shown.startswith("Attempt 1 runs since <time ")
    assert 'datetime="2026-11-17T22:39:54+00:00"' in shown
    assert "2026-11-18 07:39:54 Asia/Tokyo" in shown
    assert shown.endswith("2026-11-17 22:39:54 UTC</time>. It was asked to stop.")


def test_every_moment_of_a_sentence_is_shown() -> None:
    assert with_moments("from 2026-11-17 22:00:00 UTC to 2026-11-17 23:00:00 UTC").count("<time ") == 2


@pytest.mark.parametrize("sentence", ["", "no moment", "at 2026-13-45 99:00:00 UTC", "7 since 12:00:00 UTC"])
def test_what_is_no_moment_stays_as_it_was_written(sentence: str) -> None:
    assert with_moments(sentence) == sentence


def test_what_people_wrote_around_a_moment_is_text() -> None:
    shown = with_moments('<script>"2026-11-17 22:39:54 UTC"</script>')
    assert "<script>" not in shown
    assert shown.count("<time ") == 1
