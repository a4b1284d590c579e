"""What documents say about cells, compared with the ledger and the archive (incident 6)."""
