"""The proof that a sceptic can run: the real platform under load while faults strike, and a judge who compares."""
