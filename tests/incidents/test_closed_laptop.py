"""The laptop was closed, and the jobs ended with it.

Incident: remote jobs were children of a client on a laptop.  Its lid was closed for the night, the
connection went, and the platform ended all jobs as those of a dead client; twice after hours.

Guards: machines belong to leases in the store and to no client (`quantgrid.rental.executor`
detaches whatever ends it), and `quantgrid launch --on` (`quantgrid.rental.coordinating`) lets the
controller itself run on the platform.
"""

from rented_copy import RATES, Gate, RentedCopy
from working_copy import table


def test_coordinator_goes_on_alone_and_brings_its_log_home(place: RentedCopy, gate: Gate) -> None:
    """Launched there, all is made while nobody looks; attach shows it, and a call here folds."""
    said = place.quantgrid("launch", "--on", "plain")
    assert "This computer may be closed" in said.text
    gate.await_starts(2)
    assert "a coordinator on plain" in place.quantgrid("status").text
    assert "rented already" in place.quantgrid("launch", "--on", "plain", code=78).text
    gate.open()

    assert "3/3 cells" in place.quantgrid("attach").text
    assert gate.starts() == dict.fromkeys(map(str, RATES), 1)
    assert len(place.double.machines()) == 3
    assert "restore 3, make 0" in place.snakemake(table("waiting")).text
    place.assert_paid()
