"""Remote calls about volumes: by name and by id, in one workspace and environment only."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from modal_proto import api_pb2 as api

from rehearsal.modal.control import Control
from rehearsal.modal.state import fresh_id


class Volumes(Control):
    """Volumes: an id for ever; a name means whatever volume has it now."""

    def _metadata(self, volume: str) -> Any:
        kept = self.state.volumes[volume]
        made = api.CreationInfo(created_at=kept["created_s"], created_by=kept["key"])
        name = kept["key"].rpartition("/")[2]
        return api.VolumeMetadata(version=kept["version"], name=name, creation_info=made)

    def _named(self, key: str) -> str | None:
        return next((k for k, v in self.state.volumes.items() if v["key"] == key), None)

    async def VolumeGetOrCreate(self, stream: Any) -> None:  # noqa: D102 - named by its remote call
        asked = await stream.recv_message()
        key = f"{self.place(stream, asked.environment_name)}/{asked.deployment_name}"
        found, kind = self._named(key), asked.object_creation_type
        if found and kind == api.OBJECT_CREATION_TYPE_CREATE_FAIL_IF_EXISTS:
            raise GRPCError(Status.ALREADY_EXISTS, f"Volume '{asked.deployment_name}' exists")
        if not found and kind == api.OBJECT_CREATION_TYPE_UNSPECIFIED:
            raise GRPCError(Status.NOT_FOUND, f"Volume '{asked.deployment_name}' not found")
        volume = found or self._new_volume(key, asked.version or api.VOLUME_FS_VERSION_V2)
        metadata = self._metadata(volume)
        await stream.send_message(
            api.VolumeGetOrCreateResponse(
                volume_id=volume, version=metadata.version, metadata=metadata
            )
        )

    def _new_volume(self, key: str, version: int) -> str:
        volume = fresh_id("vo")
        self.state.volumes[volume] = {"key": key, "version": version, "created_s": time.time()}
        self.state.committed(volume).mkdir()
        self.state.save()
        return volume

    async def VolumeGetById(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        self.own(asked.volume_id, stream)
        metadata = self._metadata(asked.volume_id)
        await stream.send_message(
            api.VolumeGetByIdResponse(volume_id=asked.volume_id, metadata=metadata)
        )

    def own(self, volume: str, stream: Any) -> None:
        """Refuse a volume of another workspace in the words for one that is not there."""
        kept = self.state.volumes.get(volume)
        if kept is None or kept["key"].partition("/")[0] != self.workspace(stream):
            raise GRPCError(Status.NOT_FOUND, f"Volume {volume} not found")

    async def VolumeDelete(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        self.own(asked.volume_id, stream)
        del self.state.volumes[asked.volume_id]
        self.state.save()
        shutil.rmtree(self.state.committed(asked.volume_id))
        await stream.send_message(Empty())

    async def VolumeList(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        begin = f"{self.place(stream, asked.environment_name)}/"
        items = [
            api.VolumeListItem(
                label=kept["key"].removeprefix(begin),
                volume_id=volume,
                created_at=kept["created_s"],
                metadata=self._metadata(volume),
            )
            for volume, kept in self.state.volumes.items()
            if kept["key"].startswith(begin)
        ]
        await stream.send_message(api.VolumeListResponse(items=items))

    async def VolumeListFiles2(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        self.own(asked.volume_id, stream)
        entries = _entries(self.state.committed(asked.volume_id))
        await stream.send_message(api.VolumeListFiles2Response(entries=entries))

    async def VolumeListFiles(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        self.own(asked.volume_id, stream)
        entries = _entries(self.state.committed(asked.volume_id))
        await stream.send_message(api.VolumeListFilesResponse(entries=entries))


def _entries(tree: Path) -> list[Any]:
    paths = [Path(folder) / name for folder, _, names in os.walk(tree) for name in names]
    return [
        api.FileEntry(
            path=str(path.relative_to(tree)),
            type=api.FileEntry.FILE,
            mtime=int(path.stat().st_mtime),
            size=path.stat().st_size,
        )
        for path in paths
    ]
