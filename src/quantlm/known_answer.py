"""Something whose answer is known, computed on a device: `python -m quantlm.known_answer cuda:0`.

Products and sums of small whole numbers are exact in every format used here, in any order, so the
answer is the same on every device that computes right.
"""

import sys

import torch

_SIZE = 2048
_FORMATS = {torch.float32: 7, torch.bfloat16: 3, torch.float16: 3}
"""Formats, and the largest factor: sums stay below 2**24, which float32 accumulates exactly."""


def wrong(device: str) -> list[str]:
    """What a device computes wrong; empty when it computes right.

    Memory is tried as well: what was written everywhere must be read again.
    """
    found = []
    for dtype, largest in _FORMATS.items():
        row_K = torch.arange(_SIZE, device=device) % (2 * largest + 1) - largest
        left_MK = row_K.repeat(_SIZE, 1).to(dtype)
        seen_MN = (left_MK @ left_MK.T).float()
        known = float((row_K.double() ** 2).sum().item())
        rounded = float(torch.tensor(known).to(dtype))
        if not bool((seen_MN == rounded).all()):
            found.append(f"{dtype}: a product of {_SIZE} x {_SIZE} is not {rounded:.0f} everywhere")
    pattern = torch.full((1 << 26,), 0x5A5A5A5A, dtype=torch.int32, device=device)
    if not bool((pattern == 0x5A5A5A5A).all()):
        found.append("memory does not keep what is written to it")
    return found


if __name__ == "__main__":
    faults = wrong(sys.argv[1])
    print("\n".join(faults) or "computes right")
    sys.exit(bool(faults))
