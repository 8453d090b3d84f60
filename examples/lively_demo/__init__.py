"""An installation that looks alive, for a first look at the admin and for its pictures: made up, the same each time.

`python -m examples.lively_demo` fills an empty database. Nothing of it runs: the tasks belong to a company that is not.
"""
