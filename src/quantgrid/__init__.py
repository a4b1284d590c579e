"""The plumbing of quantgrid: grids, plan, corpus protocol, runner, store and archive.

Nothing here imports torch.  The science lives in `quantlm` and `scripts/`.
"""

RECORD_VERSION = 1
CONTRACT_VERSION = 1
