"""The double as a process: `python -m rehearsal.modal --state DIR [--port N] [--factor F]`.

It writes its address into `DIR/url` and does what `DIR/acts/*.json` asks (`preempt`, `lose`).
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import grpclib.server
from grpclib import GRPCError, Status
from grpclib.events import RecvRequest, listen
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from modal._utils.grpc_utils import custom_detail_codec
from rehearsal.modal.boxes import Boxes
from rehearsal.modal.router import Router
from rehearsal.modal.sandboxes import Sandboxes
from rehearsal.modal.state import State, read

_LOOK_S = 0.1


def _whole(ours: type, base: type) -> type:
    """A server class with every remote call of the vendor's; what we lack says so."""

    def lacking(name: str) -> Any:
        async def refuse(_: Any, stream: Any) -> None:
            await stream.recv_message()
            raise GRPCError(Status.UNIMPLEMENTED, f"the double has no {name}")

        return refuse

    calls: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    missing = {name: lacking(name) for name in calls if not hasattr(ours, name)}
    return type(ours.__name__, (ours, base), missing)


async def _obey(boxes: Boxes, acts: Path) -> None:
    """Do what is asked of the double itself, for ever."""
    acts.mkdir(exist_ok=True)
    while True:
        for path in sorted(acts.glob("*.json")):
            act = read(path, {})
            box = boxes.state.boxes[act["box"]]
            if act["do"] == "preempt":
                await boxes.preempt(box, act.get("code", 137))
            else:
                boxes.kill(box)
            path.unlink()
        await asyncio.sleep(_LOOK_S)


async def serve(root: Path, port: int, factor: float) -> None:
    """Serve for ever."""
    state = State(root, factor)
    boxes = Boxes(state)
    boxes.go_on()
    router = grpclib.server.Server(
        [_whole(Router, TaskCommandRouterBase)(state, boxes)],
        status_details_codec=custom_detail_codec,
    )
    await router.start("127.0.0.1", 0)
    control = _whole(Sandboxes, ModalClientBase)(state, boxes)
    control.router = f"http://127.0.0.1:{_port(router)}"
    server = grpclib.server.Server([control], status_details_codec=custom_detail_codec)
    listen(server, RecvRequest, control.admit)
    await server.start("127.0.0.1", port)
    (root / "url~").write_text(f"http://127.0.0.1:{_port(server)}")
    (root / "url~").rename(root / "url")
    await asyncio.gather(control.end_silent_apps(), _obey(boxes, root / "acts"))


def _port(server: Any) -> int:
    port: int = server._server.sockets[0].getsockname()[1]
    return port


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--factor", type=float, default=1.0)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.state.absolute(), chosen.port, chosen.factor))
