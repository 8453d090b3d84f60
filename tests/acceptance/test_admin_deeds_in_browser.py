"""What people do in the admin, with a real browser, beat, worker and services behind."""

import uuid
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from access.roles import Role
from tests.acceptance.room import Room
from tests.browser import Browse
from tests.tiers import once_full
from tests.waiting import wait_until

pytestmark = once_full
JOBS, EXECUTIONS = "/admin/onbeat_jobs/job/", "/admin/onbeat_executions/execution/"


def new_key(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def make(room: Room, task: str, *args: object, attempts: int = 1, **fields: Any) -> str:
    """A job of the test's own that runs only when asked; its key."""
    key = new_key("job")
    retry = f"RetryPolicy(max_attempts={attempts}, initial_seconds=3600)"
    said = {"key": key, "task": task, "args": list(args), "task_lives_elsewhere": True, **fields}
    room.ask(f"definitions.create(retry={retry}, **{said!r}).key")
    return key


def id_of(room: Room, key: str) -> int:
    return int(room.ask(f"[job.pk for job in definitions.Job.objects.filter(key={key!r})][0]"))


def run_by_button(room: Room, page: Page, key: str) -> None:
    """From the job's page to that of the execution."""
    page.goto(f"{room.url}{JOBS}{id_of(room, key)}/change/")
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("link", name="See the execution").click()


def becomes(page: Page, state: str) -> None:
    """The execution that the page shows, sooner or later."""

    def is_there() -> bool:
        page.reload()
        return page.locator(".ob-pill", has_text=state).first.is_visible()

    wait_until(is_there, what=f"{page.url} is {state}")


def test_an_editor_makes_a_cron_job_with_its_check_while_typing_and_sees_it_succeed(room: Room, browse: Browse) -> None:
    page = room.let_in(browse(timezone="Asia/Tokyo"), Role.EDITOR, path=JOBS)
    page.get_by_role("link", name="New job").click()
    key = new_key("report")
    page.get_by_label("Key").fill(key)
    page.get_by_label("Task", exact=False).first.fill("onbeat.echo")
    page.get_by_label("Named arguments").fill('{"message": "from the form"}')
    page.get_by_label("Cron", exact=False).first.fill("61 9 * * 1-5")
    expect(page.locator("[data-check] .ob-bad")).to_contain_text("61")
    page.get_by_label("Cron", exact=False).first.fill("0 9 * * 1-5")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(page.locator("[data-check]")).to_contain_text("Every weekday at 09:00, Berlin")
    expect(page.locator("[data-check] tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_text(f"{key} is made.")).to_be_visible()
    expect(page.get_by_text("Every weekday at 09:00, Berlin").first).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("link", name="See the execution").click()
    becomes(page, "SUCCEEDED")
    expect(page.locator("pre", has_text="from the form").first).to_be_visible()


def test_what_is_wrong_in_the_form_stands_beside_its_field_and_what_was_typed_stays(room: Room, browse: Browse) -> None:
    page = room.let_in(browse(allowed=["422: POST"]), Role.EDITOR, path=f"{JOBS}add/")
    page.get_by_label("Key").fill(new_key("wrong"))
    page.get_by_label("Task", exact=False).first.fill("onbeat.echoo")
    page.get_by_label("Cron", exact=False).first.fill("0 9 * * 1-5")
    page.get_by_role("button", name="Make the job").click()
    expect(page.get_by_text("Nothing was saved.")).to_be_visible()
    expect(page.locator(".ob-wrong")).to_have_count(1)
    expect(page.locator(".ob-wrong")).to_contain_text("onbeat.echo")
    assert page.get_by_label("Cron", exact=False).first.input_value() == "0 9 * * 1-5"


def test_an_operator_replays_a_dead_letter_and_the_two_point_to_one_another(
    room: Room, browse: Browse, tmp_path: Path
) -> None:
    page = room.let_in(browse(), Role.OPERATOR)
    key = make(room, "crew.work", str(tmp_path / "no" / "such" / "folder"))
    run_by_button(room, page, key)
    becomes(page, "DEAD")
    expect(page.get_by_text("It waits for a person.")).to_be_visible()
    dead = page.url
    page.get_by_role("link", name="Dead letters").click()
    group = page.get_by_role("row").filter(has_text=key)
    expect(group).to_contain_text("FileNotFoundError")
    group.get_by_role("link", name="Replay…").click()
    page.get_by_role("button", name="Replay 1 dead letter").click()
    expect(page.get_by_text("1 dead letter runs again as a new execution.")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=key).filter(has_text="FileNotFoundError")).to_have_count(0)
    page.goto(dead)
    page.locator("dt", has_text="Replayed by").locator("xpath=following-sibling::dd[1]").get_by_role("link").click()
    page.wait_for_url(lambda url: url != dead)
    replay_of = page.locator("dt", has_text="Replay of").locator("xpath=following-sibling::dd[1]").get_by_role("link")
    assert dead.endswith(str(replay_of.get_attribute("href")))


def test_an_operator_pauses_a_job_with_a_reason_until_a_moment_of_their_zone_and_resumes_it(
    room: Room, browse: Browse
) -> None:
    key = new_key("nightly")
    room.ask(f"definitions.create(key={key!r}, task='onbeat.echo', schedule=Cron('0 3 * * *')).key")
    page = room.let_in(browse(timezone="Asia/Tokyo"), Role.OPERATOR, path=f"{JOBS}?search={key}")
    page.get_by_role("link", name=f"Pause {key}").click()
    page.get_by_label("Reason").fill("the bank is closed")
    page.get_by_label("Until").fill("2099-01-02T09:00:00")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text(f"{key} is paused until 2 Jan 2099, 09:00:00.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=key)
    expect(row).to_contain_text("PAUSED")
    expect(row).to_contain_text("the bank is closed")
    row.get_by_role("button", name=f"Resume {key}").click()
    expect(page.get_by_role("row").filter(has_text=key)).to_contain_text("ACTIVE")


def test_an_operator_cancels_what_runs(room: Room, browse: Browse, tmp_path: Path) -> None:
    key = make(room, "crew.wait_for", str(tmp_path / "never"))
    page = room.let_in(browse(), Role.OPERATOR)
    run_by_button(room, page, key)
    becomes(page, "RUNNING")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_label("Reason").fill("a mistake")
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_text("It runs, and was asked to stop.")).to_be_visible()
    becomes(page, "CANCELLED")


def test_a_selection_is_cancelled_after_its_count_was_shown(room: Room, browse: Browse) -> None:
    key = make(room, "onbeat.echo")
    wanted = "[runs.Wanted(delay=timedelta(hours=1 + n)) for n in range(3)]"
    room.ask(f"len(runs.run_many({key!r}, {wanted}))")
    page = room.let_in(browse(), Role.OPERATOR, path=f"{EXECUTIONS}?job={key}&when=coming")
    cancel = page.get_by_role("button", name="Cancel…").first
    expect(cancel).to_be_disabled()
    for box in page.get_by_role("checkbox", name="Select the execution").all()[:2]:
        box.check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    cancel.click()
    expect(page.get_by_text("2 executions selected: 2 scheduled.")).to_be_visible()
    page.get_by_role("button", name="Cancel 2 executions").click()
    expect(page.get_by_text("2 executions cancelled, 0 asked to stop.")).to_be_visible()
    assert room.ask(f"Execution.objects.filter(job__key={key!r}, state='SCHEDULED').count()") == 1


def test_a_viewer_sees_everything_and_can_do_none_of_it(room: Room, browse: Browse) -> None:
    key = make(room, "onbeat.echo")
    run = str(room.ask(f"runs.run({key!r}, delay=timedelta(hours=1)).execution_id"))
    window = browse(allowed=["403: GET"])
    page = room.let_in(window, Role.VIEWER, path=f"{JOBS}?search={key}")
    pk = id_of(room, key)
    own = ("Show", "Show or hide the menu", "Show the menu", "Live")
    for address in (
        f"{JOBS}?search={key}",
        f"{JOBS}{pk}/change/",
        f"{EXECUTIONS}{run}/change/",
        f"{EXECUTIONS}?job={key}&when=any",
    ):
        page.goto(f"{room.url}{address}")
        expect(page.get_by_text(key).first).to_be_visible()
        buttons = page.locator("#main").get_by_role("button").all()
        assert [
            name for button in buttons if (name := button.get_attribute("aria-label") or button.inner_text()) not in own
        ] == []
        for word in ("Pause", "Edit", "Backfill", "Archive", "Replay", "Cancel", "New job"):
            assert page.locator("#main").get_by_role("link", name=word).count() == 0
    for address in (f"{JOBS}add/", f"{JOBS}{pk}/edit/", f"{JOBS}{pk}/pause/", f"{EXECUTIONS}{run}/cancel/"):
        answer = page.goto(f"{room.url}{address}")
        assert answer is not None
        assert answer.status == 403


def test_the_dashboard_refreshes_itself_and_can_be_held(room: Room, browse: Browse) -> None:
    window = browse()
    window.page.clock.install()
    page = room.let_in(window, Role.VIEWER)
    with page.expect_response("**/admin/living/") as living:
        page.clock.fast_forward(11_000)
    assert living.value.ok
    expect(page.get_by_text("Executions by hour").first).to_be_visible()
    asked: list[str] = []
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Held")).to_have_attribute("aria-pressed", "true")
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(60_000)
    page.reload()  # remembered, and whatever was asked for before is heard by now
    expect(page.get_by_role("button", name="Held")).to_be_visible()
    assert [url for url in asked if url.endswith("/living/")] == []


def test_times_are_of_the_viewers_zone_by_the_browser_or_by_choice(room: Room, browse: Browse) -> None:
    key = new_key("zoned")
    cron = "Cron('30 4 1 1 *', 'America/New_York')"
    room.ask(f"definitions.create(key={key!r}, task='onbeat.echo', schedule={cron}).key")
    page = room.let_in(browse(timezone="Asia/Kolkata"), Role.VIEWER, path=f"{JOBS}{id_of(room, key)}/change/")
    fire = page.locator("time[data-style=short]").first
    expect(fire).to_contain_text("15:00")
    assert "09:30:00 UTC" in str(fire.get_attribute("title"))
    assert "04:30:00 America/New_York (the job's)" in str(fire.get_attribute("title"))
    page.get_by_label("Show times in the zone").select_option("UTC")
    expect(fire).to_contain_text("09:30")
    page.reload()
    expect(page.locator("time[data-style=short]").first).to_contain_text("09:30")


def test_an_admin_makes_an_api_key_whose_secret_is_shown_once(room: Room, browse: Browse) -> None:
    page = room.let_in(browse(), Role.ADMIN, path="/admin/onbeat_access/apikey/add/")
    page.get_by_label("Name").fill("billing server")
    page.get_by_role("button", name="Make the key").click()
    message = page.get_by_text("it is shown only this once")
    expect(message).to_be_visible()
    page.reload()
    expect(message).to_have_count(0)
