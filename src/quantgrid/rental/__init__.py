"""Rented machines: what is asked of a platform, who pays for what, and until when."""
