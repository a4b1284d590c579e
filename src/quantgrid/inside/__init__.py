"""Inside a rented machine: its first process, which works, beats, and ends the machine."""
