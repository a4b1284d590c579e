"""The control plane but for sandboxes: who asks, apps, images, secrets, volumes."""

import asyncio
import base64
import json
import time
from collections.abc import Iterable
from typing import Any

from google.protobuf.empty_pb2 import Empty
from grpclib import GRPCError, Status
from grpclib.events import RecvRequest
from modal_proto import api_pb2 as api

from rehearsal.modal.boxes import Boxes
from rehearsal.modal.faults import Faults, Faulty, refuse
from rehearsal.modal.state import State, fresh_id

BUILDER = "2025.06"
HEARTBEAT_S = 60
"""An attached app whose client was silent for so long is stopped; the SDK beats every 15 s."""
_EPHEMERAL, _DETACHED, _DEPLOYED, _STOPPED = "ephemeral", "detached", "deployed", "stopped"


def web_token(lasts_s: float = 1200) -> str:
    """A token of the form that the SDK reads an expiry from."""
    parts = ({"alg": "none"}, {"exp": time.time() + lasts_s})
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b".".join([*coded, b"x"]).decode()


class Control:
    """Who asks, apps, images, secrets and volumes, as methods named by their remote calls."""

    def __init__(self, state: State, boxes: Boxes) -> None:
        self.state, self.boxes, self.faults = state, boxes, Faults(state.root)
        self.router = ""

    async def admit(self, event: RecvRequest) -> None:
        """Check the token of a request, write the request down, and let its faults strike."""
        call = event.method_name.rpartition("/")[2]
        said = dict(event.metadata)
        self._note(call, said)
        struck = self.faults.struck(call, str(said.get("x-idempotency-key")))
        serve = event.method_func
        self._refuse_unknown(said)

        async def served(stream: Any) -> None:
            refuse(struck)
            await serve(Faulty(stream, struck))

        event.method_func = served

    def _note(self, call: str, said: dict[str, Any]) -> None:
        line = {"at_s": time.time(), "call": call, "key": said.get("x-idempotency-key")}
        with (self.state.root / "calls.jsonl").open("a") as calls:
            calls.write(json.dumps(line) + "\n")

    def _refuse_unknown(self, said: dict[str, Any]) -> None:
        token = self.state.tokens().get(said.get("x-modal-token-id", ""))
        if token is None or token["secret"] != said.get("x-modal-token-secret"):
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")
        if token.get("unpaid"):
            raise GRPCError(Status.PERMISSION_DENIED, "The workspace has reached its spend limit")

    def workspace(self, stream: Any) -> str:
        """The workspace that the token of a request belongs to."""
        return self.state.tokens()[stream.metadata["x-modal-token-id"]]["workspace"]

    def place(self, stream: Any, environment: str) -> str:
        """Workspace and environment of a request, as the beginning of keys."""
        environment = environment or "main"
        if environment not in self.state.environments():
            raise GRPCError(Status.NOT_FOUND, f"Environment '{environment}' not found")
        return f"{self.workspace(stream)}/{environment}"

    # -- who asks ---------------------------------------------------------------------------------

    async def ClientHello(self, stream: Any) -> None:  # noqa: D102 - named by its remote call
        await stream.recv_message()
        await stream.send_message(api.ClientHelloResponse(image_builder_version=BUILDER))

    async def AuthTokenGet(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        await stream.send_message(api.AuthTokenGetResponse(token=web_token()))

    async def WorkspaceNameLookup(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        name = self.workspace(stream)
        await stream.send_message(
            api.WorkspaceNameLookupResponse(workspace_name=name, username=name)
        )

    async def TokenInfoGet(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        name, token = self.workspace(stream), stream.metadata["x-modal-token-id"]
        await stream.send_message(
            api.TokenInfoGetResponse(token_id=token, workspace_id=f"ac-{name}", workspace_name=name)
        )

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        environment = self.place(stream, asked.deployment_name).partition("/")[2]
        settings = api.EnvironmentSettings(image_builder_version=BUILDER)
        metadata = api.EnvironmentMetadata(name=environment, settings=settings)
        await stream.send_message(
            api.EnvironmentGetOrCreateResponse(
                environment_id=f"en-{environment}", metadata=metadata
            )
        )

    # -- apps -------------------------------------------------------------------------------------

    async def AppGetOrCreate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        key = f"{self.place(stream, asked.environment_name)}/{asked.app_name}"
        found = next((k for k, v in self.state.apps.items() if v["key"] == key), None)
        if found is None:
            if asked.object_creation_type != api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"App '{asked.app_name}' not found")
            found = self._app(_DEPLOYED, key)
        more = {}
        if hasattr(api, "AppHandleMetadata"):
            more = {"handle_metadata": api.AppHandleMetadata(app_id=found)}
        await stream.send_message(api.AppGetOrCreateResponse(app_id=found, **more))

    def _app(self, kind: str, key: str) -> str:
        app = fresh_id("ap")
        self.state.apps[app] = {"key": key, "kind": kind, "beat_s": time.time()}
        self.state.save()
        return app

    async def AppCreate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        kind = _DETACHED if asked.app_state == api.APP_STATE_DETACHED else _EPHEMERAL
        app = self._app(kind, f"{self.place(stream, asked.environment_name)}/{fresh_id('run')}")
        await stream.send_message(
            api.AppCreateResponse(app_id=app, app_page_url="http://localhost")
        )

    async def AppPublish(self, stream: Any) -> None:  # noqa: D102
        await stream.recv_message()
        await stream.send_message(api.AppPublishResponse(url="http://localhost"))

    async def AppHeartbeat(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        self.state.apps[asked.app_id]["beat_s"] = time.time()
        await stream.send_message(Empty())

    async def AppClientDisconnect(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        await stream.send_message(Empty())
        if self.state.apps[asked.app_id]["kind"] == _EPHEMERAL:
            self._end_app(asked.app_id)

    async def end_silent_apps(self) -> None:
        """Stop attached apps whose client does not beat any more; for ever."""
        while True:
            await asyncio.sleep(0.1)
            oldest_s = time.time() - HEARTBEAT_S / self.state.factor - 1
            for app, kept in self.state.apps.items():
                if kept["kind"] == _EPHEMERAL and kept["beat_s"] < oldest_s:
                    self._end_app(app)

    def _end_app(self, app: str) -> None:
        self.state.apps[app]["kind"] = _STOPPED
        self.state.save()
        for box in list(self.state.boxes.values()):
            if box.app == app:
                self.boxes.stop(box)

    # -- images and secrets -----------------------------------------------------------------------

    async def ImageGetOrCreate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        commands = list(asked.image.dockerfile_commands)
        known = {said: image for image, said in self.state.images.items()}
        said = json.dumps(commands)
        image = known.get(said) or fresh_id("im")
        self.state.images[image] = said
        self.state.save()
        result = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
        if any("no-such-image" in line for line in commands):
            failed = api.GenericResult.GENERIC_STATUS_FAILURE
            result = api.GenericResult(status=failed, exception="manifest unknown")
        metadata = api.ImageMetadata(image_builder_version=BUILDER)
        await stream.send_message(
            api.ImageGetOrCreateResponse(image_id=image, result=result, metadata=metadata)
        )

    async def SecretGetOrCreate(self, stream: Any) -> None:  # noqa: D102
        asked = await stream.recv_message()
        if asked.deployment_name:
            name = f"{self.place(stream, asked.environment_name)}/{asked.deployment_name}"
            if name not in self.state.secrets():
                raise GRPCError(Status.NOT_FOUND, f"Secret '{asked.deployment_name}' not found")
            secret = f"st-named:{name}"
        else:
            secret = fresh_id("st")
            self.state.passing[secret] = dict(asked.env_dict)
        await stream.send_message(api.SecretGetOrCreateResponse(secret_id=secret))

    def seen(self, secrets: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Plain variables, and the names of named secrets, behind ids of secrets."""
        plain: dict[str, str] = {}
        named = []
        for secret in secrets:
            if secret.startswith("st-named:"):
                named.append(secret.removeprefix("st-named:"))
            else:
                plain |= self.state.passing.get(secret, {})
        return plain, named
