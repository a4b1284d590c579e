"""`python -m rehearsal.plain FOLDER`: the platform, until it is ended."""

import argparse
import signal
from pathlib import Path

from rehearsal.plain.server import Server

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path, help="where its state is")
parser.add_argument("--port", type=int, default=0, help="where it listens; any free one if 0")
options = parser.parse_args()
server = Server(options.folder.absolute(), options.port)
signal.signal(signal.SIGTERM, server.leave)
server.serve()
