"""What the file of a platform says holds for every job; a profile is told whose it is."""

from pathlib import Path

import pytest

from quantgrid.load import load_platform
from s3_server import free_ports
from working_copy import PROJECT, WorkingCopy, lay


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    """A fresh working copy with a second platform, whose mount cannot be asked for a fresh view."""
    copy = lay(tmp_path / "copy", light=True)
    local = (copy / "config/platforms/local.yaml").read_text()
    nobody = f"rclone:127.0.0.1:{free_ports(1)}"
    (copy / "config/platforms/mounted.yaml").write_text(f"{local}reload: {nobody}\n")
    return copy


def test_seal_reloads_as_the_platform_of_the_call_says(copy: WorkingCopy) -> None:
    """Without a fresh view nothing is vouched for; the configured platform would need none."""
    copy.snakemake("corpus", "--config", "platform=mounted", code=1, grid="")

    log = next((copy / "logs/receipts/corpus").rglob("sealed.*.log")).read_text()
    assert "the mount was asked for a fresh view and gave none" in log
    assert not list((copy / "receipts").rglob("sealed.*.json"))


def test_job_reloads_before_it_looks_at_its_corpus(copy: WorkingCopy) -> None:
    """A sealed corpus is there, and still nothing is trained on a view that may be old."""
    copy.snakemake("corpus", grid="")
    said = copy.snakemake("--config", "platform=mounted", "grid=smoke", code=1, grid="").text

    assert "the mount was asked for a fresh view and gave none" in said
    assert not list((copy / "receipts/trunk").rglob("*.json"))


def test_platform_tells_its_jobs_all_that_it_limits(copy: WorkingCopy) -> None:
    """Cap, grace, mean time between interruptions and the factor of all of them."""
    path = copy / "config/platforms/spot.yaml"
    path.write_text(
        "device: cpu\nthreads: 1\ncap_s: 86400\ngrace_s: 60\ninterruption_s: 14400\n"
        "clock_factor: 120\n"
    )

    options = load_platform(copy.root, "spot").limits()

    told = dict(zip(options[::2], map(float, options[1::2]), strict=True))
    assert told == {
        "--grace-s": 60,
        "--cap-s": 86400,
        "--interruption-s": 14400,
        "--clock-factor": 120,
        "--hold-ttl-s": 120,
    }


def test_plan_names_the_copy_whose_profile_is_taken(
    fresh: WorkingCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's folder has room for one copy's profile; any other copy is told whose it is."""
    link = tmp_path / "snakemake" / "local"
    link.parent.mkdir()
    link.symlink_to(PROJECT / "profiles" / "local")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    told = f"profile local is that of {PROJECT}, not of this working copy: "

    assert f"{told}use `--profile profiles/local`\n" in fresh.look("--profile", "local").text
