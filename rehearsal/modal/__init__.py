"""A control plane of Modal on this machine, for the vendor's own SDK; see README.md beside this."""
