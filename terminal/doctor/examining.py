"""The verb: go through the areas, and tell what was found, the worst first."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from executions.words import count
from terminal.doctor.examinations import AREAS, Area, chosen, examine
from terminal.doctor.findings import ORDER, Examined, Finding, Severity
from terminal.doctor.visit import Visit
from terminal.frame import Asked, Exit, Told, Verb
from terminal.paper import coloured, facts, strong, table

_SIGNS = {None: ("✓", "ok"), Severity.NOTE: ("✓", "ok"), Severity.WARNING: ("!", "warn"), Severity.ERROR: ("✗", "bad")}
_TONES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "run"}
Results = Sequence[tuple[Area, Examined]]


class Examine(Verb):
    does = "look at the whole installation and tell what is wrong, with its meaning and remedy"
    explains = """\
Nothing is changed. An area that cannot be reached is a finding of its own, and the others are still looked at.
The exit code is 1 if there is an error, else 0. What each finding means: docs/reference/findings.md."""
    examples = ("doctor", "doctor --only database --only rabbitmq", "doctor --json", "doctor --list")

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = [area.name for area in AREAS]
        parser.add_argument(
            "--only",
            action="append",
            choices=names,
            metavar="AREA",
            help=f"One of {', '.join(names)}; may be repeated.",
        )
        parser.add_argument("--list", action="store_true", help="Tell what is looked at, and look at nothing.")

    def act(self, asked: Asked) -> Told:
        if asked["list"]:
            return _listed(chosen(asked["only"]) if asked["only"] else AREAS)
        areas, visit = chosen(asked["only"]), Visit()
        results: list[tuple[Area, Examined]] = []
        with asked.paper.progress("Examining", len(areas), is_whole=True) as done:
            for area in areas:
                results.append((area, examine(area, visit)))
                done(1)
        findings = [finding for _, examined in results for finding in examined.findings]
        is_ill = any(finding.severity is Severity.ERROR for finding in findings)
        shown = [*_lines(results), *_told(findings), "", _closing(findings)]
        return Told(_as_json(results, findings), shown, Exit.FAILED if is_ill else Exit.DONE)


def _listed(areas: Iterable[Area]) -> Told:
    rows = [(strong(area.name), area.looks_at, area.why_not()) for area in areas]
    data = [
        {
            "name": area.name,
            "looks_at": area.looks_at,
            "concerns": not area.why_not(),
            "findings": [{"id": fault.id, "severity": fault.severity} for fault in area.faults],
        }
        for area in areas
    ]
    return Told({"areas": data}, [table(("AREA", "LOOKS AT", "NOT HERE"), rows)])


def _lines(results: Results) -> list[RenderableType]:
    width = max(len(area.name) for area, _ in results)
    return [_line(area.name.ljust(width), examined) for area, examined in results]


def _line(name: str, examined: Examined) -> Text:
    sign, tone = _SIGNS[examined.worst] if examined.is_examined else ("-", "calm")
    return Text.assemble(coloured(sign, tone), " ", strong(name), "  ", examined.says)


def _told(findings: Sequence[Finding]) -> list[RenderableType]:
    """Errors first; within one severity in the order of the areas, since the first is often why of the next.

    What was found several times is explained once.
    """
    alike: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: ORDER.index(finding.severity)):
        alike.setdefault(finding.id, []).append(finding)
    parts: list[RenderableType] = []
    for same in alike.values():
        head = coloured(same[0].severity, _TONES[same[0].severity])
        head.stylize("not dim")  # as the names beside it are
        said = [Text.assemble(strong(finding.id), "  ", finding.says) for finding in same]
        rows: list[tuple[str | Text, Any]] = [(head, said[0]), *(("", each) for each in said[1:])]
        parts += ["", facts([*rows, ("means", same[0].means), ("remedy", same[0].remedy)])]
    return parts


def _closing(findings: Sequence[Finding]) -> Text:
    numbers = {severity: sum(finding.severity is severity for finding in findings) for severity in ORDER}
    said = ", ".join(count(number, severity.lower()) for severity, number in numbers.items() if number)
    worst = next((severity for severity, number in numbers.items() if number), Severity.NOTE)
    tone = "ok" if worst is Severity.NOTE else _TONES[worst]
    return Text.assemble(coloured(said or "Nothing is wrong", tone), "; nothing was changed.")


def _as_json(results: Results, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "areas": [
            {
                "name": area.name,
                "is_examined": examined.is_examined,
                "says": examined.says,
                "findings": [_finding(finding) for finding in examined.findings],
            }
            for area, examined in results
        ],
        **{f"{severity.lower()}s": sum(finding.severity is severity for finding in findings) for severity in Severity},
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "says": finding.says,
        "means": finding.means,
        "remedy": finding.remedy,
        "facts": dict(finding.facts),
    }
