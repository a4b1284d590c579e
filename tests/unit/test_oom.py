"""Kills for lack of memory are counted where the kernel counts them."""

from pathlib import Path

import pytest

from quantgrid import oom


def _lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "count"),
    [
        (
            {
                oom.OWN_GROUPS: "0::/a/b\n",
                oom.GROUP_EVENTS.format(group="a/b"): "low 0\noom 3\noom_kill 2\n",
            },
            2,
        ),
        (
            {
                oom.OWN_GROUPS: "0::/out/side\n",
                oom.GROUP_EVENTS.format(group=""): "oom_kill 4\n",
            },
            4,
        ),
        (
            {
                oom.OWN_GROUPS: "4:memory:/x\n3:cpu:/\n0::/\n",
                oom.GROUP_OOM_CONTROL.format(group="x"): "under_oom 0\noom_kill 5\n",
            },
            5,
        ),
        ({oom.OWN_GROUPS: "0::/a\n", oom.VMSTAT: "pgfault 9\noom_kill 7\n"}, 7),
        ({}, 0),
    ],
)
def test_oom_kills_are_counted_wherever_the_kernel_tells(
    tmp_path: Path, files: dict[str, str], count: int
) -> None:
    """Cgroups of both versions, seen from inside or outside a container, then the machine."""
    assert oom.find_count(_lay(tmp_path, files)) == count


def test_oom_kills_of_this_machine_can_be_read() -> None:
    """The real system gives a number."""
    assert oom.find_count() >= 0
