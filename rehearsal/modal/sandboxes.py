"""Remote calls about sandboxes.  The newer ones (V2) answer as the older ones do."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from grpclib import GRPCError, Status
from modal_proto import api_pb2 as api

from rehearsal.modal.boxes import CAP_S
from rehearsal.modal.control import web_token
from rehearsal.modal.state import Box, Mount, fresh_id
from rehearsal.modal.volumes import Volumes

_PAGE = 100
_BOUNDS = ("milli_cpu", "milli_cpu_max", "memory_mb", "memory_mb_max")
_TASK_WITHIN_S = 2.0


class Sandboxes(Volumes):
    """Sandboxes."""

    # -- making -----------------------------------------------------------------------------------

    async def SandboxCreate(self, stream: Any) -> None:  # noqa: D102 - named by its remote call
        asked = await stream.recv_message()
        box = self._new_box(asked, stream, "V1", list(asked.definition.secret_ids))
        metadata = api.SandboxHandleMetadata(app_id=box.app)
        await stream.send_message(api.SandboxCreateResponse(sandbox_id=box.id, metadata=metadata))

    async def SandboxCreateV2(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        secrets = [each.secret_id for each in asked.secret_sources if each.secret_id]
        plain = [each.env.contents for each in asked.secret_sources if not each.secret_id]
        box = self._new_box(asked, stream, "V2", secrets, *plain)
        access = api.CommandRouterAccess(url=self.router, jwt=web_token())
        metadata = api.SandboxHandleMetadata(app_id=box.app)
        await stream.send_message(
            api.SandboxCreateV2Response(
                sandbox_id=box.id, task_id=box.task, metadata=metadata, command_router_access=access
            )
        )

    def _new_box(self, asked: Any, stream: Any, kind: str, secrets: list[str], *plain: Any) -> Box:
        key = f"{kind}/{stream.metadata.get('x-idempotency-key')}"
        if key in self.state.replied:  # the SDK repeats a call whose reply got lost
            return self.state.boxes[self.state.replied[key]]
        self._refuse(asked, stream)
        box = self._box(asked, self.workspace(stream), kind)
        variables, box.secrets = self.seen(secrets)
        box.environment = {k: v for each in (variables, *plain) for k, v in dict(each).items()}
        self.state.replied[key] = box.id
        self.boxes.add(box)
        self.state.save()
        return box

    def _refuse(self, asked: Any, stream: Any) -> None:
        wanted, app = asked.definition, self.state.apps.get(asked.app_id)
        if app is None or app["kind"] == "stopped" or not self._is_mine(app["key"], stream):
            raise GRPCError(Status.NOT_FOUND, f"App {asked.app_id} not found")
        if not 0 < wanted.timeout_secs <= CAP_S:
            raise GRPCError(Status.INVALID_ARGUMENT, f"timeout must be at most {CAP_S} seconds")
        if wanted.image_id not in self.state.images:
            raise GRPCError(Status.NOT_FOUND, f"Image {wanted.image_id} not found")
        if wanted.name and any(
            box.name == wanted.name and box.app == asked.app_id and not box.is_over
            for box in self.state.boxes.values()
        ):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox '{wanted.name}' already exists")
        for each in wanted.volume_mounts:
            self.own(each.volume_id, stream)

    def _is_mine(self, key: str, stream: Any) -> bool:
        return key.partition("/")[0] == self.workspace(stream)

    def _box(self, asked: Any, workspace: str, kind: str) -> Box:
        wanted = asked.definition
        # the shape of an id is all that tells the SDK which of its backends a sandbox has
        box_id = fresh_id("sb", 22) if kind == "V1" else fresh_id("sb", 26)
        gpu = wanted.resources.gpu_config
        return Box(
            id=box_id,
            task=fresh_id("ta"),
            app=asked.app_id,
            workspace=workspace,
            name=wanted.name,
            tags={each.tag_name: each.tag_value for each in asked.tags},
            words=list(wanted.entrypoint_args),
            environment={},
            secrets=[],
            mounts=[
                Mount(each.volume_id, each.mount_path, each.read_only, each.sub_path)
                for each in wanted.volume_mounts
            ],
            device=f"{gpu.gpu_type}:{gpu.count}" if gpu.gpu_type else "cpu",
            timeout_s=wanted.timeout_secs,
            created_s=time.time(),
            image=wanted.image_id,
            regions=list(wanted.scheduler_placement.regions),
            bounds={name: getattr(wanted.resources, name) for name in _BOUNDS},
        )

    # -- looking ----------------------------------------------------------------------------------

    def _box_of(self, stream: Any, box_id: str) -> Box:
        box = self.state.boxes.get(box_id)
        if box is None or box.workspace != self.workspace(stream):
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {box_id} not found")
        return box

    def _shown(self, stream: Any) -> list[Box]:
        """Sandboxes of whoever asks, the newest first, without those too young to be shown."""
        latest_s = time.time() - stream.hidden_s
        mine = [b for b in self.state.boxes.values() if b.workspace == self.workspace(stream)]
        shown = [box for box in mine if box.created_s <= latest_s]
        return sorted(shown, key=lambda box: -box.created_s)

    async def SandboxList(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        wanted = {each.tag_name: each.tag_value for each in asked.tags}
        found = [
            box
            for box in self._shown(stream)
            if (not asked.app_id or box.app == asked.app_id)
            and (asked.include_finished or not box.is_over)
            and wanted.items() <= box.tags.items()
            and (not asked.before_timestamp or box.created_s < asked.before_timestamp)
        ]
        infos = [_info(box) for box in found[:_PAGE]]
        await stream.send_message(api.SandboxListResponse(sandboxes=infos))

    async def SandboxGetFromName(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        key = f"{self.place(stream, asked.environment_name)}/{asked.app_name}"
        is_ended_too = getattr(asked, "include_terminated", False)  # from SDK 1.6 on
        found = [
            box
            for box in self._shown(stream)
            if box.name == asked.sandbox_name
            and self.state.apps[box.app]["key"] == key
            and (is_ended_too or not box.is_over)
        ]
        if not found:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox '{asked.sandbox_name}' not found")
        box = min(found, key=lambda each: each.is_over)
        metadata = api.SandboxHandleMetadata(app_id=box.app)
        await stream.send_message(
            api.SandboxGetFromNameResponse(sandbox_id=box.id, metadata=metadata)
        )

    async def SandboxWait(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        if asked.timeout and not box.is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.boxes.over[box.id].wait(), asked.timeout)
        metadata = api.SandboxHandleMetadata(app_id=box.app)
        await stream.send_message(api.SandboxWaitResponse(result=_result(box), metadata=metadata))

    async def SandboxGetTaskId(self, stream: Any) -> None:
        """The task as soon as there is a container, which is what the SDK's create waits for."""
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        until_s = time.monotonic() + _TASK_WITHIN_S
        while not box.started_s and not box.is_over and time.monotonic() < until_s:
            await asyncio.sleep(0.02)
        task = box.task if box.started_s else ""
        result = _result(box)
        await stream.send_message(api.SandboxGetTaskIdResponse(task_id=task, task_result=result))

    async def SandboxGetStats(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        told = api.SandboxGetStatsResponse(duration_hours=box.ran_s / 3600)
        if box.started_s:  # unset where no usage was recorded
            usd = self.state.price(box.device) / 1e6 * box.ran_s / 3600
            told.cost, told.num_datapoints = f"{usd:.12f}", 1
        await stream.send_message(told)

    async def SandboxTagsGet(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        tags = [api.SandboxTag(tag_name=k, tag_value=v) for k, v in box.tags.items()]
        await stream.send_message(api.SandboxTagsGetResponse(tags=tags))

    # -- ending and logs --------------------------------------------------------------------------

    async def SandboxTerminate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        earlier = _result(box)
        self.boxes.stop(box)
        await stream.send_message(api.SandboxTerminateResponse(existing_result=earlier))

    async def AppFetchLogs(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        boxes = [b for b in self.state.boxes.values() if asked.task_id in {"", b.task}]
        batches = [
            api.TaskLogsBatch(task_id=box.task, items=[item])
            for box in boxes
            if box.app == asked.app_id and box.workspace == self.workspace(stream)
            for item in self._lines(box)
        ]
        limit = asked.limit or len(batches)
        await stream.send_message(api.AppFetchLogsResponse(batches=batches[-limit:]))

    def _lines(self, box: Box) -> list[Any]:
        sources = (("stdout", api.FILE_DESCRIPTOR_STDOUT), ("stderr", api.FILE_DESCRIPTOR_STDERR))
        return [
            api.TaskLogs(data=line, file_descriptor=number, timestamp=box.started_s)
            for source, number in sources
            for line in self.boxes.said(box, source)
            .decode(errors="replace")
            .splitlines(keepends=True)
        ]

    async def SandboxGetLogs(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        box = self._box_of(stream, asked.sandbox_id)
        is_out = asked.file_descriptor == api.FILE_DESCRIPTOR_STDOUT
        until_s, sent = time.monotonic() + (asked.timeout or 0), int(asked.last_entry_id or 0)
        is_over = False
        while not is_over and time.monotonic() < until_s:
            is_over = box.is_over  # before what it said last is read
            said = self.boxes.said(box, "stdout" if is_out else "stderr")[sent:]
            if said:
                sent += len(said)
                item = api.TaskLogs(data=said.decode(), file_descriptor=asked.file_descriptor)
                await stream.send_message(api.TaskLogsBatch(entry_id=str(sent), items=[item]))
            await asyncio.sleep(0 if is_over else 0.05)
        if is_over:
            await stream.send_message(api.TaskLogsBatch(eof=True))

    # -- the way to the router --------------------------------------------------------------------

    async def TaskGetCommandRouterAccess(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        access = api.TaskGetCommandRouterAccessResponse(url=self.router, jwt=web_token())
        await stream.send_message(access)

    async def SandboxGetCommandRouterAccess(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        access = api.SandboxGetCommandRouterAccessResponse(url=self.router, jwt=web_token())
        await stream.send_message(access)

    SandboxListV2, SandboxGetFromNameV2 = SandboxList, SandboxGetFromName
    SandboxWaitV2, SandboxGetTaskIdV2 = SandboxWait, SandboxGetTaskId
    SandboxTagsGetV2, SandboxTerminateV2 = SandboxTagsGet, SandboxTerminate


def _result(box: Box) -> Any:
    if not box.is_over:
        return None
    status = getattr(api.GenericResult, f"GENERIC_STATUS_{box.status}")
    return api.GenericResult(status=status, exitcode=box.code)


def _info(box: Box) -> Any:
    return api.SandboxInfo(
        id=box.id,
        created_at=box.created_s,
        app_id=box.app,
        name=box.name,
        task_info=api.TaskInfo(id=box.task, result=_result(box)),
        metadata=api.SandboxHandleMetadata(app_id=box.app),
    )
