"""A double of RunPod: REST v2 over real HTTP, real processes as pods, and a bill.

It shares no code with what it tests.  `python -m rehearsal.runpod --state DIR` serves it; its state
is on disk, so that a killed double goes on with the same pods, whose processes never noticed.
What it does, and from where that is known, is in docs/platforms/runpod.md and contract.yaml.
"""
