"""The admin: the pages on which people run the platform."""
