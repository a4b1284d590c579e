"""Runs somebody's own program as a stage: privately, resumable, watched, and with its numbers."""
