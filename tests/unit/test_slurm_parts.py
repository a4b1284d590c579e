"""What SLURM is asked for, what its programs say, and what a submission leaves behind."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from checkpoint_parts import HandClock
from quantgrid import layout, processes
from quantgrid.errors import ConfigRefusal, PlatformFault, Unanswered
from quantgrid.slurm import batch, coordinator, queue
from quantgrid.slurm.batch import Ask, Order
from quantgrid.slurm.follow import Follower, Manners
from quantgrid.slurm.ledger import Entry, Ledger
from quantgrid.slurm.queue import Queue, Seen

SUBJECT = "receipts/cell/n0-t20k-s0/none.abc.json"


def order(command: str = "true", runtime: int | None = 5) -> Order:
    """A job."""
    return Order(SUBJECT, command, Ask((), 1, runtime), ("logs/a.log",))


def test_submission_is_found_by_its_comment_and_signalled_where_asked() -> None:
    """What a lab host loses work without."""
    words = batch.submission(order(runtime=240), "t0", "name", grace_s=60)

    assert "--signal=TERM@60" in words
    assert f"--comment={SUBJECT}#t0" in words
    for runtime, grace_s in ((240, 0), (None, 60), (1, 60)):
        words = batch.submission(order(runtime=runtime), "t0", "n", grace_s=grace_s)
        assert not [word for word in words if "--signal" in word], (runtime, grace_s)


SRUN = """#!/bin/sh
{first}
while [ "$1" != sh ]; do shift; done
"$@"
code=$?
{last}
exit ${{SRUN_GIVES:-$code}}
"""


def play(
    folder: Path,
    command: str,
    name: str = "t0",
    number: int = 1,
    srun_gives: str = "",
    srun_first: str = "",
    srun_last: str = "",
) -> int:
    """Run the script of a submission as a node does, without SLURM around it."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/srun").write_text(SRUN.format(first=srun_first, last=srun_last))
    (folder / "bin/srun").chmod(0o755)
    (folder / layout.SLURM).mkdir(parents=True, exist_ok=True)
    given = batch.script(order(command), name, folder, number)
    path = f"{folder}/bin:{os.environ['PATH']}"
    environment = {"PATH": path, "SLURM_JOB_ID": "12", "SRUN_GIVES": srun_gives}
    done = subprocess.run(["/bin/sh"], input=given, text=True, env=environment, check=False)
    return done.returncode


@pytest.mark.parametrize("code", [0, 1, 75, 78, 137])
def test_submission_leaves_its_exit_code(tmp_path: Path, code: int) -> None:
    """SLURM forgets it; the file does not."""
    assert play(tmp_path, f"exit {code}") == code
    assert Ledger(tmp_path).find_code(SUBJECT, "t0") == code
    assert Ledger(tmp_path).ended() == {"t0"}


def test_submission_tells_its_code_where_srun_tells_another(tmp_path: Path) -> None:
    """Seen with a node that failed: the job was ended by SIGTERM, and srun gave 0."""
    assert play(tmp_path, "exit 75", srun_gives="0") == 0
    assert Ledger(tmp_path).find_code(SUBJECT, "t0") == 75


def test_submission_tells_its_code_after_sigterm(tmp_path: Path) -> None:
    """The signal reaches its shell too, which stays until the job has saved and left."""
    command = "trap 'exit 75' TERM; kill -TERM $PPID; kill -TERM $$; exit 1"

    assert play(tmp_path, command) == 75
    assert Ledger(tmp_path).find_code(SUBJECT, "t0") == 75


def test_controller_inside_a_job_forgets_the_job_and_knows_the_cluster() -> None:
    """Otherwise what it submits would inherit the job's limits, or find no cluster at all."""
    own = {"SLURM_JOB_ID": "1", "SRUN_CPUS": "2", "SLURM_CONF": "c", "PATH": "p"}

    queue.leave_job(own)

    assert own == {"SLURM_CONF": "c", "PATH": "p"}


def test_submission_begins_when_srun_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen when slurmctld was restarted at that moment: no step, no word, and a failed cell."""
    monkeypatch.setattr(batch, "_PAUSE_S", 0)
    away = '[ -e away ] || { touch away; echo "Unable to contact slurm controller"; exit 1; }'

    assert play(tmp_path, "echo x >> ran", srun_first=away) == 0

    assert (tmp_path / "ran").read_text() == "x\n"
    assert Ledger(tmp_path).find_code(SUBJECT, "t0") == 0


def test_submission_begins_once_when_its_controller_forgets_it_before_srun_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a busy machine: the code was there, all was cleared away, and the job ran again."""
    monkeypatch.setattr(batch, "_PAUSE_S", 0)

    assert play(tmp_path, "echo x >> ran", srun_last=f"rm -f {layout.SLURM}/*") == 0

    assert (tmp_path / "ran").read_text() == "x\n"
    assert not list((tmp_path / layout.SLURM).iterdir())


def test_submission_begins_once(tmp_path: Path) -> None:
    """A second start of the same one, as a requeue makes it, does nothing."""
    command = "echo x >> ran"

    assert [play(tmp_path, command), play(tmp_path, command)] == [0, 0]

    assert (tmp_path / "ran").read_text() == "x\n"


def test_submission_that_was_given_up_never_begins(tmp_path: Path) -> None:
    """Whoever creates the start first decides, and the other one sees it."""
    ledger = Ledger(tmp_path)
    (tmp_path / layout.SLURM).mkdir(parents=True)

    assert ledger.give_up(SUBJECT, "t0")
    assert play(tmp_path, "touch ran") == 0
    assert not (tmp_path / "ran").exists()
    play(tmp_path, "true", name="t1")
    assert not ledger.give_up(SUBJECT, "t1")


def test_submission_knows_when_slurm_will_end_it(tmp_path: Path) -> None:
    """Its own clock needs no signal: five minutes from now, where SLURM tells no time itself."""
    play(tmp_path, "echo $QG_ENDS_AT $(date +%s) > told")

    ends_at, now = map(int, (tmp_path / "told").read_text().split())
    assert 295 <= ends_at - now <= 300


def test_successor_leaves_the_log_of_its_predecessor_alone(tmp_path: Path) -> None:
    """A process on a node that SLURM gave up may still write there."""
    (tmp_path / "logs").mkdir()
    with (tmp_path / "logs/a.log").open("w") as left_behind:
        play(tmp_path, "echo new > logs/a.log", name="t1", number=2)
        left_behind.write("old")

    assert (tmp_path / "logs/a.log").read_text() == "new\n"
    assert (tmp_path / "logs/a.log.before-t1").read_text() == "old"


def test_ledger_counts_ends_in_a_row_and_keeps_the_newest(tmp_path: Path) -> None:
    """What is written is read again; a submission that is open is no end."""
    entry = Entry(SUBJECT)
    for end in ("TIMEOUT", "handed over", "NODE_FAIL", "lost"):
        entry = entry.intending(1.0).with_newest(job="5", end=end)
    entry = entry.intending(2.0)
    ledger = Ledger(tmp_path)
    ledger.write(entry)

    assert ledger.read(SUBJECT) == entry
    assert ledger.entries() == [entry]
    assert entry.num_in_a_row({"NODE_FAIL", "lost", "TIMEOUT"}) == 2
    assert entry.open
    assert (entry.number, len({each.token for each in entry.attempts})) == (5, 5)


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"schema": "other", "version": 1}'])
def test_ledger_that_cannot_be_read_is_empty(tmp_path: Path, torn: bytes) -> None:
    """The holds and the fence of each start keep the cell from running twice."""
    path = tmp_path / layout.slurm_file(SUBJECT, "json")
    path.parent.mkdir(parents=True)
    path.write_bytes(torn)

    assert Ledger(tmp_path).read(SUBJECT) == Entry(SUBJECT)
    assert Ledger(tmp_path).entries() == []


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in front of all others."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            "echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1",
            ConfigRefusal,
        ),
        ("echo 'sbatch: error: invalid partition specified: x' >&2; exit 1", ConfigRefusal),
        ("echo 'Requested node configuration is not available' >&2; exit 1", ConfigRefusal),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", Unanswered),
        (
            "echo 'Job violates accounting policy (QOSMaxSubmitJobPerUserLimit)' >&2; exit 1",
            Unanswered,
        ),
        ("exit 0", Unanswered),
        ("echo Submitted batch job 5", Unanswered),
        ("exec sleep 60", Unanswered),
    ],
)
def test_call_of_sbatch_has_three_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception]
) -> None:
    """A refusal is told once and for all; what may have been taken is looked for."""
    tool(tmp_path, "sbatch", said, monkeypatch)

    with pytest.raises(error):
        Queue("n", patience_s=1.0).submit(["sbatch"], "")


def test_call_of_sbatch_gives_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a cluster of clusters."""
    tool(tmp_path, "sbatch", "cat > /dev/null; echo '123;lab'", monkeypatch)

    assert Queue("n").submit(["sbatch"], "true") == "123"


@pytest.mark.parametrize("code", [0, 70, 75])
def test_submission_without_an_answer_is_followed_when_it_ended_before_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Its code tells that it began, so nobody waits for SLURM to tell of it, and it runs once."""
    monkeypatch.chdir(tmp_path)
    play(tmp_path, "true")  # srun is there
    taken = "for word; do case $word in --comment=*) echo ${word#--comment=} >> taken;; esac; done"
    lost = "echo 'Socket timed out on send/recv operation' >&2; exit 1"
    tool(tmp_path / "bin", "sbatch", f"{taken}; SLURM_JOB_ID=12 sh; {lost}", monkeypatch)
    list_all = 'while read c; do echo "12|COMPLETED|$c|n1"; done < taken'
    tool(tmp_path / "bin", "squeue", list_all, monkeypatch)
    queue_, clock = Queue("n"), HandClock()
    follower = Follower(tmp_path, queue_, clock, Manners(), lambda _: None)
    follower.begin(order(f"exit {code}"), is_retry=False)

    assert follower.look_around({SUBJECT}) == []
    clock.seconds += 2
    ended = follower.look_around({SUBJECT})

    verdicts = {0: ["done"], 70: ["failed"], 75: []}
    assert [judgement.verdict for _, judgement in ended] == verdicts[code]
    assert Ledger(tmp_path).read(SUBJECT).open is None
    assert len((tmp_path / "taken").read_text().split()) == 1


@pytest.mark.parametrize("was_missing", [True, False])
def test_submission_is_not_repeated_when_it_ended_while_the_next_controller_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_missing: bool
) -> None:
    """Its output was missing in the plan and is there now; one that was there is made anew."""
    monkeypatch.chdir(tmp_path)
    ledger, entry = Ledger(tmp_path), Entry(SUBJECT).intending(1.0).with_newest(job="12")
    ledger.write(entry)
    play(
        tmp_path,
        f"mkdir -p receipts/cell/n0-t20k-s0; touch {SUBJECT}",
        name=entry.attempts[0].token,
    )
    tool(tmp_path / "bin", "sbatch", "cat > /dev/null; touch asked; echo 13", monkeypatch)
    tool(tmp_path / "bin", "squeue", "true", monkeypatch)
    follower = Follower(tmp_path, Queue("n"), HandClock(), Manners(), lambda _: None)
    follower.begin(order(), is_retry=False, was_missing=was_missing)

    ended = follower.look_around({SUBJECT})

    assert [judgement.verdict for _, judgement in ended] == ["done"] * was_missing
    assert (tmp_path / "asked").exists() is not was_missing


@pytest.mark.parametrize(
    ("sbatch", "words"),
    [
        ("echo 'invalid partition specified: x' >&2; exit 1", "refused: SLURM refuses"),
        ("cat > /dev/null; echo 5", "failed: somebody cancelled SLURM job 5"),
    ],
)
def test_log_of_a_job_tells_what_the_job_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sbatch: str, words: str
) -> None:
    """After what an earlier attempt left there, which is no news any more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/a.log").write_text("interrupted: it was ended by SIGTERM\n")
    tool(tmp_path, "sbatch", sbatch, monkeypatch)
    clock = HandClock()
    follower = Follower(tmp_path, Queue("n"), clock, Manners(), lambda _: None)
    follower.begin(order(), is_retry=False)

    ended = follower.look_around({SUBJECT})
    token = Ledger(tmp_path).read(SUBJECT).attempts[-1].token
    tool(tmp_path, "squeue", f"echo '5|CANCELLED|{SUBJECT}#{token}|n1'", monkeypatch)
    clock.seconds += 20
    ended += follower.look_around({SUBJECT})

    assert [judgement.verdict for _, judgement in ended] == ["failed"]
    assert (tmp_path / "logs/a.log").read_text().splitlines()[-1].startswith(words)


def test_job_that_is_over_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended between the look and the call; any other complaint is one."""
    over = "scancel: error: Kill job error on job id 9: Invalid job id specified"
    tool(tmp_path, "scancel", f"echo '{over}' >&2; exit 1", monkeypatch)
    Queue("n").cancel(["9"])

    tool(tmp_path, "scancel", f"printf '{over}\\nUnable to contact\\n' >&2; exit 1", monkeypatch)
    with pytest.raises(Unanswered):
        Queue("n").cancel(["9", "10"])


def test_queue_is_read_by_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row a submission; states have more words in accounting."""
    rows = f"5|RUNNING|{SUBJECT}#t0|n1\\n6|PENDING|{SUBJECT}#t1|(Resources)\\n"
    tool(tmp_path, "squeue", f"printf '{rows}'", monkeypatch)
    past = f"5|CANCELLED by 0|{SUBJECT}#t0|n1\\n6|TIMEOUT||n2\\n7|FAILED||n2\\n"
    tool(tmp_path, "sacct", f"printf '{past}'", monkeypatch)

    seen = Queue("n").look()
    past_seen = Queue("n").recall(1e9, {"t0": "5", "t1": "6"})

    assert seen == {"t0": Seen("5", "RUNNING", "n1"), "t1": Seen("6", "PENDING", "(Resources)")}
    assert past_seen["t0"] == Seen("5", "CANCELLED", "n1")
    assert past_seen["t1"] == Seen("6", "TIMEOUT", "n2")


@pytest.mark.parametrize(
    ("code", "row", "polled"),
    [
        ("0", "", 0),
        ("78", "", 78),
        (None, "", 1),
        ("0", "5|RUNNING|x#c|n1", None),
        ("0", "5|RUNNING|x#c|n1\\n6|PENDING|x#c|(Dependency)", None),  # the one that follows it
    ],
)
def test_controller_that_ran_as_a_job_has_its_own_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str | None, row: str, polled: int | None
) -> None:
    """Its script leaves it in a file; one that was killed left none."""
    (tmp_path / "bin").mkdir()
    tool(tmp_path / "bin", "sbatch", "echo 5", monkeypatch)
    tool(tmp_path / "bin", "squeue", f"printf '{row}'", monkeypatch)
    tool(tmp_path / "bin", "scancel", "exit 0", monkeypatch)
    controller = coordinator.start(tmp_path, "c", ["true"], [])
    if code is not None:
        script = (tmp_path / layout.slurm_file("c", "controller")).read_text()
        played = re.sub(
            r"^\S+ -P -m quantgrid.supervisor .*$", f"(exit {code})", script, flags=re.M
        )
        done = subprocess.run(["/bin/sh"], input=played, text=True, check=False)
        assert done.returncode == int(code)

    assert controller.poll() == polled


def test_queue_without_slurm_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a laptop the profile of the lab host fails with one sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PlatformFault, match="there is no squeue on this machine"):
        Queue("n").look()


def test_submission_inherits_nothing_of_the_controllers_own_job() -> None:
    """Else srun would meet two memory limits, and a supervisor would end jobs as its own."""
    own = {"SLURM_CONF": "c", "SLURM_MEM_PER_CPU": "1", "SRUN_DEBUG": "1", "PATH": "p"}

    kept = queue.environment({**own, processes.MARK: "x", "SBATCH_ACCOUNT": "lab"})

    assert kept == {"SLURM_CONF": "c", "PATH": "p", "SBATCH_ACCOUNT": "lab"}


def test_subjects_are_told_by_their_owner() -> None:
    """A person reads no digests."""
    assert layout.subject_name(SUBJECT) == "cell/n0-t20k-s0/none"
    assert layout.subject_name("some/file") == "some/file"
