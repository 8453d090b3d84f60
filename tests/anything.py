"""Values of every kind that a caller may hand over, for properties of the form "taken or refused"."""

from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st

TEXT = st.text(st.characters(), max_size=12)  # lone surrogates and NULs among them
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**63, -1, 0, 10**4000])
    | st.floats(allow_nan=True, allow_infinity=True)
    | TEXT
    | st.binary(max_size=5)
)
ODD = st.sampled_from(
    [
        date(2026, 1, 1),
        datetime(2026, 1, 1),  # noqa: DTZ001 - naive on purpose
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        timedelta.min,
        timedelta.max,
        timedelta(0),
        {1, 2},
        object(),
        int,
        range(3),
        1j,
    ]
)
ANYTHING = st.recursive(
    PLAIN | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.integers(), inner, max_size=3),
    max_leaves=5,
)
