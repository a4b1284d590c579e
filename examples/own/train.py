"""Fit a line to data by gradient descent; an ordinary script, as people write them.

It reads ./data, writes beside itself, has one name for its log and for its checkpoint, changes
directory, and prints its numbers.  It assumes that it is alone.
"""

import argparse
import json
import os
import random
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKPOINT = os.path.join(HERE, "checkpoint.json")


def read_points():
    with open("./data/points.csv") as file:
        next(file)
        return [tuple(float(number) for number in line.split(",")) for line in file]


def load(seed):
    if os.path.exists(CHECKPOINT):
        with open(CHECKPOINT) as file:
            saved = json.load(file)
        return saved["step"], saved["slope"], saved["offset"]
    start = random.Random(seed)
    return 0, start.gauss(0, 1), start.gauss(0, 1)


def save(step, slope, offset):
    with open(CHECKPOINT, "w") as file:
        json.dump({"step": step, "slope": slope, "offset": offset}, file)


def batch(points, seed, step, size=8):
    return random.Random(f"{seed}/{step}").sample(points, size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait at each step")
    options = parser.parse_args()

    points = read_points()
    os.makedirs("runs", exist_ok=True)
    os.chdir("runs")
    first, slope, offset = load(options.seed)
    with open(os.path.join(HERE, "log.txt"), "a") as log:
        for step in range(first, options.steps):
            error, slope_push, offset_push = 0.0, 0.0, 0.0
            for x, y in batch(points, options.seed, step):
                off = slope * x + offset - y
                error += off * off / 8
                slope_push += 2 * off * x / 8
                offset_push += 2 * off / 8
            slope -= options.lr * slope_push
            offset -= options.lr * offset_push
            log.write(f"{step},{error!r}\n")
            log.flush()
            if (step + 1) % options.save_every == 0:
                save(step + 1, slope, offset)
            time.sleep(options.pause)
    loss = sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)
    with open("fit.txt", "w") as file:
        file.write(f"{slope!r} {offset!r}\n")
    print(f"done: loss {loss!r} slope {slope!r}")


if __name__ == "__main__":
    main()
