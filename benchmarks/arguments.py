"""Numbers that somebody types after the name of a benchmark."""


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def positive(text: str) -> int:
    if not (number := count(text)):
        raise ValueError
    return number


def numbers(text: str) -> list[int]:
    """Some, with commas between them."""
    return [positive(part) for part in text.split(",")]
