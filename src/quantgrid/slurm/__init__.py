"""Jobs on a SLURM cluster: submitted once, found again, followed to their end, handed over.

Two ends meet in the shared working copy (`layout.SLURM`): whoever follows writes the ledger of a
subject before and after each submission; each submission writes that it begins, and how it ended.
So neither needs the memory of a controller, and nothing is trusted to SLURM's accounting alone.
"""
