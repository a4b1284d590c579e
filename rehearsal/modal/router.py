"""The second server of a sandbox: reloading its volumes, and what it wrote, from outside."""

from typing import Any

from grpclib import GRPCError, Status
from modal_proto import task_command_router_pb2 as router

from rehearsal.modal.boxes import Boxes
from rehearsal.modal.state import Box, State


class Router:
    """Remote calls to a task, as methods named by them."""

    def __init__(self, state: State, boxes: Boxes) -> None:
        self.state, self.boxes = state, boxes

    def _box_of(self, task: str) -> Box:
        for box in self.state.boxes.values():
            if box.task == task:
                return box
        raise GRPCError(Status.NOT_FOUND, f"Task {task} not found")

    async def TaskReloadVolumes(self, stream: Any) -> None:  # noqa: D102 - named by its remote call
        asked = await stream.recv_message()
        box = self._box_of(asked.task_id)
        if box.is_over:
            raise GRPCError(Status.FAILED_PRECONDITION, "the sandbox is not running")
        if found := self.boxes.reload(box):
            said = f"there are open files preventing the operation: {found[0]}"
            raise GRPCError(Status.FAILED_PRECONDITION, said)
        await stream.send_message(router.TaskReloadVolumesResponse())

    async def SandboxStdioReadV2(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(asked.task_id)
        is_out = asked.file_descriptor == router.SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
        await self.boxes.over[box.id].wait()
        if said := self.boxes.said(box, "stdout" if is_out else "stderr")[asked.offset :]:
            await stream.send_message(
                router.SandboxStdioReadV2Response(data=said, starting_offset=asked.offset)
            )
