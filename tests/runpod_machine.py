"""What a pod of a test runs: a machine of docs/formats/rental.md, without any work.

`python runpod_machine.py STORE NONCE BEAT_S WORK_S DEADLINE [hang]`: claims, beats, writes its exit
record after WORK_S, ends its own pod with the key that the platform gave it, and never returns.
With `hang` it writes its record and does not end itself, as when its own end fails for ever.
"""

import os
import sys
import time
from pathlib import Path

from quantgrid.errors import PlatformFault
from quantgrid.rental import register as keys
from quantgrid.rental.lease import End, Exit
from quantgrid.rental.register import exit_bytes, sign_key
from quantgrid.rental.runpod import from_environment
from quantgrid.store import open_store


def main(address: str, nonce: str, beat_s: float, work_s: float, deadline_s: float) -> None:
    """Live and end."""
    store, me = open_store(address, Path()), os.environ["RUNPOD_POD_ID"]
    number = 0
    while not store.put_once(sign_key(nonce, keys.START, f"{number:06d}"), b""):
        number += 1
    store.put_once(sign_key(nonce, keys.CLAIM), me.encode())
    is_mine = store.find(sign_key(nonce, keys.CLAIM)) == me.encode()
    if is_mine and store.find(sign_key(nonce, keys.EXIT)) is None:
        print(f"works, start {number}", flush=True)
        end_s, count = min(time.time() + work_s, deadline_s), 0
        while time.time() < end_s:
            count += 1
            beat = f"{number * 1_000_000 + count:08d}"
            store.put_once(sign_key(nonce, keys.BEAT, beat, str(count)), b"")
            time.sleep(beat_s)
        is_done = time.time() < deadline_s
        reason, code = (End.DONE, 0) if is_done else (End.CAP, 75)
        record = Exit(nonce, me, reason, code, count, (nonce,) if is_done else ())
        store.put_once(sign_key(nonce, keys.EXIT), exit_bytes(record))
    if "hang" in sys.argv:
        return  # and the container starts again
    while True:
        try:
            from_environment(os.environ).stop(me)
        except PlatformFault as fault:
            print(fault, flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:6]))
