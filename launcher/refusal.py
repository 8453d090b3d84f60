"""The one way a launcher command gives up."""


class Refusal(Exception):
    """The command cannot go on; the text is for a person: what is wrong, and the remedy."""
