"""What is held against a Dockerfile: small, nobody's secret, nobody's root, and what stops when it is told to."""

import re
from collections.abc import Callable

from tests.unit.image_files import Instruction, instructions, of_the_final_stage

_PINNED = re.compile(r"[a-z0-9./-]+:\d+\.\d+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?( AS [a-z]+)?")
_SECRET = re.compile(r"(KEY|PASSWORD|SECRET|TOKEN)\b", re.IGNORECASE)


def findings(text: str) -> list[str]:
    found = instructions(text)
    return [says for says, holds in _RULES.items() if not holds(found)]


def _of(found: list[Instruction], *words: str) -> list[Instruction]:
    return [each for each in found if each.word in words]


def _are_bases_pinned(found: list[Instruction]) -> bool:
    return all(_PINNED.fullmatch(each.value) for each in _of(found, "FROM"))


def _is_user_last_and_a_number(found: list[Instruction]) -> bool:
    words = [each.word for each in of_the_final_stage(found)]
    users = _of(of_the_final_stage(found), "USER")
    changes = [i for i, word in enumerate(words) if word in ("COPY", "ADD", "RUN")]
    is_last = bool(users) and words.index("USER") > max(changes, default=-1)
    return is_last and all(re.fullmatch(r"[1-9]\d*:[1-9]\d*", each.value) for each in users)


def _is_exec_form(found: list[Instruction]) -> bool:
    told = _of(found, "CMD", "ENTRYPOINT", "HEALTHCHECK")
    return all(each.words and each.value.startswith(("[", "--", "CMD")) for each in told)


def _say_what_runs_and_whether_it_is_well(found: list[Instruction]) -> bool:
    return {"CMD", "HEALTHCHECK"} <= {each.word for each in of_the_final_stage(found)}


def _names_no_secret(found: list[Instruction]) -> bool:
    return not any(_SECRET.search(each.value.partition("=")[0]) for each in _of(found, "ENV", "ARG"))


def _has_no_debug(found: list[Instruction]) -> bool:
    return not any(re.search(r"\bDEBUG\b", each.value) for each in _of(found, "ENV", "ARG", "RUN"))


def _is_apt_tidy(found: list[Instruction]) -> bool:
    runs = [each.value for each in _of(found, "RUN") if re.search(r"\bapt(-get)? install", each.value)]
    return all("--no-install-recommends" in run and "rm -rf /var/lib/apt/lists" in run for run in runs)


def _keeps_no_pip_cache(found: list[Instruction]) -> bool:
    return any(each.word == "ENV" and "PIP_NO_CACHE_DIR=1" in each.value for each in found) or not any(
        "pip install" in each.value or "prepare_environment" in each.value for each in found
    )


def _copies_from_a_builder_alone(found: list[Instruction]) -> bool:
    return all("--from=" in each.value for each in _of(of_the_final_stage(found), "COPY"))


def _is_unbuffered(found: list[Instruction]) -> bool:
    return any("PYTHONUNBUFFERED=1" in each.value for each in _of(of_the_final_stage(found), "ENV"))


_RULES: dict[str, Callable[[list[Instruction]], bool]] = {
    "a base image without a version": _are_bases_pinned,
    "ADD, which fetches and unpacks": lambda found: not _of(found, "ADD"),
    "sudo, or a shell that pipes from elsewhere": lambda found: (
        not any(re.search(r"\bsudo\b|(curl|wget) .*\|", each.value) for each in _of(found, "RUN"))
    ),
    "a last user that is root, a name, or not the last word on files": _is_user_last_and_a_number,
    "a shell between the engine and the process": _is_exec_form,
    "no CMD or no HEALTHCHECK": _say_what_runs_and_whether_it_is_well,
    "a secret in a layer": _names_no_secret,
    "DEBUG": _has_no_debug,
    "apt with more than is needed, or with its lists": _is_apt_tidy,
    "pip's cache": _keeps_no_pip_cache,
    "a final stage that copies from the context": _copies_from_a_builder_alone,
    "lines that wait in a buffer": _is_unbuffered,
}
