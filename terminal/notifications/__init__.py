"""`notifications`: who is told, and what."""
