"""Jobs in the admin."""
