"""Checkpoints: when to keep the state of a stage, in which files, and when to leave."""
