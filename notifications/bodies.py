"""What is sent: a notice as each kind of receiver takes it. Pure: no Django.

Owns the form of the bodies, and how long their texts may be there. PagerDuty's routing key stands in the body; whoever
makes one to look at it gives none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from executions.storable import storable_text
from notifications.kinds import Kind, Template
from notifications.wording import Words, of_notice

_SLACK_CHARACTERS = 3000  # of a block's text
_SLACK_TITLE_CHARACTERS = 150
_SUMMARY_CHARACTERS = 1024
_SEVERITY = {Kind.FAILURE: "warning", Kind.LATENESS: "warning", Kind.DEAD_LETTER: "error", Kind.TEST: "info"}
_MARK = {Kind.FAILURE: "⚠️", Kind.LATENESS: "⏰", Kind.DEAD_LETTER: "❌", Kind.RECOVERY: "✅", Kind.TEST: "🔔"}
Body = dict[str, Any]


@dataclass(frozen=True)
class Letter:
    """A notice with what stands around it."""

    kind: Kind
    about: str
    said: Mapping[str, Any]
    made_at: datetime
    receiver: str
    link: str  # to the page of the execution or of the job, if it is known where this installation is reached
    source: str  # which installation this is

    @property
    def words(self) -> Words:
        return of_notice(self.kind, self.said, receiver=self.receiver)


def body_of(letter: Letter, template: Template, *, routing_key: str = "") -> Body:
    match template:
        case Template.STANDARD:
            return _standard(letter)
        case Template.SLACK:
            return _slack(letter)
        case Template.PAGERDUTY:
            return _pagerduty(letter, routing_key)


def _standard(letter: Letter) -> Body:
    """In the form that Standard Webhooks recommends."""
    said, words = letter.said, letter.words
    names = ("job", "execution", "attempt", "outcome", "error", "at", "since", "count", "began_at", "next_at", "more")
    facts = {name: said[name] for name in names if said.get(name) not in (None, "")}
    return {
        "type": f"onbeat.{letter.kind}",
        "timestamp": letter.made_at.isoformat(),
        "data": {
            "receiver": letter.receiver,
            "title": words.title,
            "text": "\n".join(words.lines),
            "dedup_key": letter.about,
            "source": letter.source,
            "link": letter.link,
            **facts,
        },
    }


def _slack(letter: Letter) -> Body:
    words = letter.words
    title = f"{_MARK[letter.kind]} {words.title}"
    lines = [_escaped(line) for line in words.lines]
    if letter.said.get("error"):
        lines = [f"`{line.replace('`', 'ˋ')}`" if line == _escaped(letter.said["error"]) else line for line in lines]
    about = [_escaped(letter.source)]
    about += [f"<{letter.link}|Open it in Onbeat>"] if letter.link else []
    heading = {"type": "plain_text", "text": storable_text(title, _SLACK_TITLE_CHARACTERS), "emoji": True}
    blocks: list[Body] = [{"type": "header", "text": heading}]
    if lines:
        text = storable_text("\n".join(lines), _SLACK_CHARACTERS)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": " · ".join(about)}]})
    # What a phone shows, and receivers that know no blocks.
    return {"text": _escaped(title), "blocks": blocks}


def _escaped(text: str) -> str:
    """A job's key or an error shall be no link and call nobody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pagerduty(letter: Letter, routing_key: str) -> Body:
    is_over = letter.kind is Kind.RECOVERY
    event: Body = {
        "routing_key": routing_key,
        "event_action": "resolve" if is_over else "trigger",
        "dedup_key": letter.about,
    }
    if is_over:
        return event
    words = letter.words
    summary = " ".join((f"{words.title}:", *words.lines)) if words.lines else words.title
    event["payload"] = {
        "summary": storable_text(summary, _SUMMARY_CHARACTERS),
        "source": letter.source,
        "severity": _SEVERITY[letter.kind],
        "timestamp": letter.made_at.isoformat(),
        "component": letter.said.get("job") or "notifications",
        "class": str(letter.kind),
        "custom_details": _standard(letter)["data"],
    }
    event["client"] = "Onbeat"
    if letter.link:
        event["client_url"] = letter.link
        event["links"] = [{"href": letter.link, "text": "Open it in Onbeat"}]
    return event
