"""When the trainings of a probe lie far enough apart to tell a step from a start."""

import pytest

from quantgrid.probing import is_enough


@pytest.mark.parametrize(
    ("wall_s", "cpu_s", "start_s", "expected"),
    [
        (6.0, 6.0, 1.0, True),
        (4.0, 4.0, 0.5, False),  # seconds are few
        (6.0, 6.0, 2.0, False),  # starts are few
        (20.0, 3.0, 1.0, False),  # others had the machine
        (30.0, 0.0, 9.0, True),  # a device did it all, or a model whose steps are long
    ],
)
def test_trainings_are_apart_when_noise_of_a_start_is_small_in_them(
    wall_s: float, cpu_s: float, start_s: float, *, expected: bool
) -> None:
    """Five seconds and four starts, of the clock and of processors; at most half a minute."""
    gained = {"wall_s": wall_s, "cpu_s": cpu_s}

    assert is_enough(gained, {"wall_s": start_s, "cpu_s": start_s}) is expected
