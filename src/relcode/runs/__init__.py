"""A run on disk: one folder with settings, weights, state, data and log; safe to save, open and go on with."""
