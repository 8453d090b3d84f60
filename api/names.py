"""What the domain calls by one name and a body by another.

Owns the way back from a refusal to the body that caused it. Invariant: a problem points at a place that exists in the
body, and its sentence uses the body's words.
"""

import re

# By the domain's field. What is called the same in both stands at the top of a body.
_POINTERS = {
    "task": "/target/task",
    "http": "/target/http",
    "http.url": "/target/http/url",
    "http.method": "/target/http/method",
    "http.headers": "/target/http/headers",
    "http.body": "/target/http/body",
    "http.timeout_seconds": "/target/http/timeout",
    "http.expected": "/target/http/expected",
    "http.secret": "/target/http/secret",
    "http.is_asynchronous": "/target/http/asynchronous",
    "cron": "/schedule/cron",
    "timezone": "/schedule/timezone",
    "every": "/schedule/every",
    "anchor": "/schedule/anchor",
    "once": "/schedule/once",
    "start": "/schedule/start",
    "end": "/schedule/end",
    "max_fires": "/schedule/max_fires",
    "jitter_seconds": "/schedule/jitter",
    "misfire": "/schedule/misfire/policy",
    "misfire_grace_seconds": "/schedule/misfire/grace",
    "misfire_limit": "/schedule/misfire/limit",
    "timeout_seconds": "/timeout",
    "stop_grace_seconds": "/stop_grace",
    "late_after_seconds": "/late_after",
    "retry.initial_seconds": "/retry/initial_delay",
    "retry.cap_seconds": "/retry/max_delay",
}
_WORDS = {
    "say so with task_lives_elsewhere=True": 'say so with "lives_elsewhere": true in the target',
    "use Every(seconds=…, anchor=…)": 'use "every" in place of "cron"',
    "misfire_grace_seconds": "misfire.grace",
    "misfire_limit": "misfire.limit",
    "jitter_seconds": "jitter",
    "stop_grace_seconds": "stop_grace",
    "late_after_seconds": "late_after",
    "timeout_seconds": "timeout",
    "is_asynchronous": "asynchronous",
    "initial_seconds": "initial_delay",
    "cap_seconds": "max_delay",
}
_ANY_WORD = re.compile("|".join(map(re.escape, _WORDS)))


def pointer_of(field: str) -> str:
    return _POINTERS.get(field) or "/" + field.replace(".", "/")


def in_words_of_a_body(sentence: str) -> str:
    return _ANY_WORD.sub(lambda found: _WORDS[found[0]], sentence)
