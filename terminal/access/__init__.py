"""Commands for keys and secrets: who may come in, and what callbacks are signed with."""
