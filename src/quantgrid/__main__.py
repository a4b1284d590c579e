"""`python -m quantgrid` is the same program as `quantgrid`."""

from quantgrid.main import main

main()
