"""Commands for whoever keeps the platform running: queues, workers, beats, statistics, retention."""
