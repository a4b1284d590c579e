"""A name server failed for a minute, and healthy jobs were cancelled.

Incident: one look-up of the platform's name failed while a job was submitted.  The exception left
the executor, Snakemake took it for the end of everything, and cancelled every job that ran.

Guards: nothing leaves `quantgrid.rental.executor.RentedExecutor`, nothing is concluded from a
platform that does not answer (`quantgrid.rental.rounds`), and no machine is ended unasked.
"""

from pathlib import Path

import pytest

from rented_copy import RATES, add_waiting, rented
from working_copy import table

FACTOR = 50.0
AWAY_S = 600 / FACTOR


def test_jobs_are_untouched_when_the_platform_cannot_be_reached(tmp_path: Path) -> None:
    """The platform is away for ten nominal minutes: no job is cancelled, started twice or lost."""
    with rented(tmp_path, factor=FACTOR) as place:
        gate = add_waiting(place.copy, RATES)
        with place.running(*place.command, table("waiting")) as controller:
            gate.await_starts(2)
            place.double.crash()
            with pytest.raises(Exception, match="timed out"):
                controller.wait(AWAY_S)
            gate.open()
            place.double.start()
            said, _ = controller.communicate(timeout=200)
            assert controller.returncode == 0, said

        assert gate.starts() == dict.fromkeys(map(str, RATES), 1)
        place.assert_paid()
