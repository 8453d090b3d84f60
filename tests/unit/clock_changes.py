"""Clock changes of all kinds, for the tests of recurrence: zone and instant."""

CHANGES = [
    ("America/New_York", "2026-11-01 06:00"),
    ("America/New_York", "2027-03-14 07:00"),
    ("Europe/Berlin", "2026-10-25 01:00"),
    ("Europe/Berlin", "2027-03-28 01:00"),
    ("Europe/Dublin", "2027-03-28 01:00"),  # summer is the standard time here, and winter the exception
    ("Australia/Lord_Howe", "2026-10-03 15:30"),  # half an hour forward
    ("Australia/Lord_Howe", "2027-04-03 15:00"),  # half an hour back
    ("America/Santiago", "2026-09-06 04:00"),  # midnight does not exist
    ("America/Santiago", "2027-04-04 03:00"),  # the hour before midnight comes twice
    ("Antarctica/Troll", "2027-03-28 01:00"),  # two hours
    ("Pacific/Apia", "2011-12-30 10:00"),  # a whole day does not exist
    ("Asia/Kathmandu", "1985-12-31 18:30"),  # a quarter of an hour, at midnight of the new year
    ("Africa/Casablanca", "2026-02-15 02:00"),  # back for Ramadan
    ("Africa/Casablanca", "2026-03-22 02:00"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("America/Sao_Paulo", "2018-11-04 03:00"),  # midnight, and the last time
    ("America/St_Johns", "2010-03-14 03:31"),  # one minute past midnight
    ("America/St_Johns", "2010-11-07 02:31"),
    ("America/Recife", "2000-10-08 03:00"),  # a summer time of one week
    ("Europe/Dublin", "2026-10-25 01:00"),
]
