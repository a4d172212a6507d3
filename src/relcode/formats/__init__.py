"""Doors for other people's files: what they have comes in as a dataset."""
