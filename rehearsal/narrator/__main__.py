"""`python -m rehearsal.narrator`: the grid on the doubles, then every incident, and a page."""

import argparse
import os
import sys
import time
from pathlib import Path

from rehearsal.narrator import playing, scenes
from rehearsal.narrator.page import publish
from rehearsal.narrator.scenes import Scene
from rehearsal.narrator.told import Act, Play, acts_of
from rehearsal.narrator.voice import Voice

FAILED, BROKEN = 1, 70


def main() -> int:
    """Play, tell and publish; 1 when a guard stopped nothing."""
    options = _options()
    voice = Voice(sys.stdout, is_coloured=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    begin_s = time.monotonic()
    try:
        grids = _grids(options, voice)
        acts = _incidents(options, voice)
    except playing.Broken as error:
        print(f"failed: pytest could not play the tests\n{error}", file=sys.stderr)
        return BROKEN
    wall_s = time.monotonic() - begin_s
    publish(options.page, grids, acts, wall_s)
    voice.summary(acts, wall_s, str(options.page))
    lost = [platform for platform, play in grids.items() if play.outcome == "failed"]
    voice.lost(lost, str(_log(options, "grids")))
    return FAILED if lost or any(act.outcome == "NOT STOPPED" for act in acts) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rehearse", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("--page", type=Path, default=playing.ROOT / "results" / "rehearsal.html")
    parser.add_argument("--workers", type=int, default=2, help="tests at once (default: 2)")
    parser.add_argument("--nightly", action="store_true", help="the long incidents too")
    parser.add_argument("--only", default="", help="part of the name of the files to be played")
    parser.add_argument("--no-grid", action="store_true", help="incidents alone")
    options = parser.parse_args()
    if not _known(options):  # pytest without a file plays everything
        parser.error(f"no file of tests/incidents has {options.only!r} in its name")
    return options


def _known(options: argparse.Namespace) -> list[Scene]:
    """The incidents that are meant."""
    return [each for each in scenes.all_of(playing.INCIDENTS) if options.only in each.name]


def _log(options: argparse.Namespace, part: str) -> Path:
    """Pytest's own words, beside the page."""
    options.page.parent.mkdir(parents=True, exist_ok=True)
    return Path(options.page.with_suffix(f".{part}.log"))


def _grids(options: argparse.Namespace, voice: Voice) -> dict[str, Play]:
    """A whole small grid on each double, by platform."""
    if options.no_grid:
        return {}
    voice.title("A grid of 14 cells, from text to table, on this machine and on each double")
    platforms = {test.rpartition("::")[2]: name for name, test in playing.GRIDS.items()}
    found: dict[str, Play] = {}
    for news in playing.played(
        [*playing.GRIDS.values()], options.workers, log=_log(options, "grids")
    ):
        if news.play:
            found[platforms[news.play.name]] = news.play
            voice.grid(platforms[news.play.name], news.play)
    return found


def _incidents(options: argparse.Namespace, voice: Voice) -> list[Act]:
    """Every incident; each is told as soon as all its tests are over."""
    known = _known(options)
    voice.title(f"{len(known)} incidents: what happened elsewhere, and what stops it here")
    waiting: dict[str, set[str]] = {}
    plays: list[Play] = []
    told: list[str] = []
    files = [str(playing.INCIDENTS / f"{each.name}.py") for each in known]
    log = _log(options, "incidents")
    for news in playing.played(files, options.workers, log=log, nightly=options.nightly):
        for test in news.collected:
            waiting.setdefault(Path(test.partition("::")[0]).stem, set()).add(test)
        if news.play:
            plays.append(news.play)
            waiting[news.play.scene].discard(news.play.test)
            voice.wait(len(plays), len(plays) + sum(map(len, waiting.values())))
        for act in acts_of(known, plays):
            if act.plays and not waiting[act.scene.name] and act.scene.name not in told:
                told.append(act.scene.name)
                voice.act(len(told), len(known), act)
    acts = acts_of(known, plays)
    for act in acts:
        if not act.plays:
            told.append(act.scene.name)
            voice.act(len(told), len(known), act)
    return acts


if __name__ == "__main__":
    sys.exit(main())
