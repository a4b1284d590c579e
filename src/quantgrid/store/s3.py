"""A store in a bucket of an S3 service: AWS, R2, SeaweedFS, Ceph, MinIO.

Creation is `PUT` with `If-None-Match: *`, the only condition that all good services honour; one
that ignores it is refused before the first write.  Buckets are neither made nor deleted.
"""

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

from quantgrid import atomic, layout
from quantgrid.errors import ConfigRefusal, PlatformFault, Unanswered
from quantgrid.store import Entry
from quantgrid.store.s3_calls import PATIENCE, Absent, Calls, Ignored, Patience, There
from quantgrid.store.s3_place import parse_place

_PART = 32 << 20
"""Bytes of a part of a large file; S3 allows 10,000 parts, so that 312 GiB is the largest file."""
_CHUNK = 1 << 20
_WRITER = "qg-writer"
_ABANDONED = timedelta(days=7)


class S3Store:
    """Keys are objects below a prefix.

    Args:
        address: `s3://bucket/prefix`, with `?endpoint_url=...` when it is not AWS.
        memory: Folder that remembers which services were found to honour conditions.
        patience: How long calls are repeated.
    """

    def __init__(self, address: str, memory: Path, patience: Patience = PATIENCE) -> None:
        self._place = parse_place(address)
        self._memory = memory
        self._calls = Calls(self.address, self._place.endpoint_url, patience)
        self._facts: dict[str, bool] | None = None

    @property
    def address(self) -> str:
        """Bucket, prefix and endpoint."""
        return self._place.address

    @property
    def is_remote(self) -> bool:
        """A listing costs a request for a thousand keys; see `Store.is_remote`."""
        return True

    @property
    def num_requests(self) -> int:
        """HTTP requests so far, repeats included."""
        return self._calls.num_requests

    # -- reading ----------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """The bytes of a key; see `Store.get`."""
        data = self.find(key)
        if data is None:
            raise KeyError(key)
        return data

    def find(self, key: str) -> bytes | None:
        """The bytes of a key, or None; see `Store.find`."""
        where = self._where(key)
        try:
            return self._calls.repeat(
                f"read {key}", lambda client: bytes(client.get_object(**where)["Body"].read())
            )
        except Absent:
            return None

    def size(self, key: str) -> int | None:
        """The size in bytes of a key, or None; see `Store.size`."""
        head = self._head(key)
        return None if head is None else int(head["ContentLength"])

    def _head(self, key: str) -> dict[str, Any] | None:
        where = self._where(key)
        try:
            return dict(
                self._calls.repeat(f"look at {key}", lambda client: client.head_object(**where))
            )
        except Absent:
            self._ask_bucket()  # a bare 404 does not say whether key or bucket is not there
            return None

    def fetch(self, key: str, cache: Path) -> Path:
        """A copy in `cache`; see `Store.fetch`."""
        path = cache / key
        if path.exists():
            return path
        try:
            with atomic.writing(path) as file:
                self._calls.repeat(f"read {key}", lambda client: self._stream(client, key, file))
        except Absent:
            raise KeyError(key) from None
        except OSError as error:
            raise PlatformFault(
                f"cannot keep a copy of {key}",
                seen=error.strerror or error,
                where=path.parent,
                do="Nothing half-written is left; make room there and run again.",
            ) from error
        return path

    def _stream(self, client: Any, key: str, file: Any) -> None:
        """Append what a file still lacks; a repeat goes on where the last attempt was cut."""
        done = file.tell()
        wanted = {"Range": f"bytes={done}-"} if done else {}
        answer = client.get_object(**self._where(key), **wanted)
        if done and answer["ResponseMetadata"]["HTTPStatusCode"] != 206:
            file.seek(0)
            file.truncate()
        for chunk in answer["Body"].iter_chunks(_CHUNK):
            file.write(chunk)

    def list(self, prefix: str) -> Iterator[str]:
        """Every key below a prefix; see `Store.list`."""
        for entry in self.entries(prefix):
            yield entry.key

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every key below a prefix with its facts; see `Store.entries`."""
        skip = len(self._place.key(""))
        token: dict[str, str] = {}
        while True:
            page = self._page(prefix, token)
            for item in page.get("Contents", ()):
                modified = item["LastModified"].astimezone(UTC)
                yield Entry(item["Key"][skip:], item["Size"], modified)
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _page(self, prefix: str, token: dict[str, str], most: int = 1000) -> dict[str, Any]:
        below = f"{self._where(prefix)['Key']}/"
        return dict(
            self._calls.repeat(
                f"list {prefix}",
                lambda client: client.list_objects_v2(
                    Bucket=self._place.bucket, Prefix=below, MaxKeys=most, **token
                ),
            )
        )

    def now(self) -> datetime:
        """The date of the service's answer; see `Store.now`."""
        answer = self._ask_bucket()
        date = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
        return parsedate_to_datetime(date).astimezone(UTC)

    def _ask_bucket(self) -> dict[str, Any]:
        """Any answer of the bucket; a fault when there is none: some services make it at a put."""
        return self._page(layout.STORE_PROBES, {}, 1)

    # -- writing ----------------------------------------------------------------------------------

    def put_once(self, key: str, data: bytes) -> bool:
        """Create a key; see `Store.put_once`."""
        self._prove()
        return self._put(key, data)

    def _put(self, key: str, data: bytes) -> bool:
        """Create a key; when an attempt stayed open, the writer's mark tells whose object it is."""
        writer, was_open = os.urandom(16).hex(), False
        body = {"Body": data, "ContentMD5": _md5(data), "Metadata": {_WRITER: writer}}
        try:
            for attempt in self._calls.attempts(f"write {key}"):
                with attempt:
                    self._calls.client.put_object(**self._where(key), **body, IfNoneMatch="*")
                    return True
                was_open = True
        except There:
            return was_open and self._is_by(key, writer)
        except Unanswered:
            if self._is_by(key, writer):
                return True
            raise
        raise AssertionError("attempts end with a fault")

    def _is_by(self, key: str, writer: str) -> bool:
        head = self._head(key)
        return head is not None and head["Metadata"].get(_WRITER) == writer

    def put_file_once(self, key: str, source: Path) -> bool:
        """Create a key from a file; see `Store.put_file_once`."""
        facts = self._prove()
        if source.stat().st_size <= _PART or not facts["complete"]:
            return self._put(key, source.read_bytes())
        return self._head(key) is None and self._put_parts(key, source)

    def _put_parts(self, key: str, source: Path) -> bool:
        """Create a key in parts: nothing is there before the last call, which is conditional."""
        writer = os.urandom(16).hex()
        begun = self._calls.repeat(
            f"write {key}",
            lambda client: client.create_multipart_upload(
                **self._where(key), Metadata={_WRITER: writer}
            ),
        )
        upload = {**self._where(key), "UploadId": begun["UploadId"]}
        try:
            parts = [*self._parts(key, upload, source)]
            return self._complete(key, upload, parts, writer)
        except BaseException:
            self._abort(upload)
            raise

    def _parts(self, key: str, upload: dict[str, str], source: Path) -> Iterator[dict[str, Any]]:
        with source.open("rb") as file:
            number = 1
            while data := file.read(_PART):
                part = {**upload, "ContentMD5": _md5(data), "PartNumber": number}
                put = partial(_put_part, part=part, data=data)
                tag = self._calls.repeat(f"write part {number} of {key}", put)
                yield {"PartNumber": number, "ETag": tag}
                number += 1

    def _complete(
        self, key: str, upload: dict[str, str], parts: Sequence[dict[str, Any]], writer: str
    ) -> bool:
        try:
            self._calls.repeat(
                f"complete {key}",
                lambda client: client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": [*parts]}, IfNoneMatch="*"
                ),
            )
        except There:
            is_ours = self._is_by(key, writer)
            if not is_ours:
                self._abort(upload)
            return is_ours
        except Absent:  # the upload is gone: completed by an attempt whose answer was lost
            if self._is_by(key, writer):
                return True
            raise self._calls.fault(
                f"complete {key}", "its parts are gone", do="Run again; nothing was stored."
            ) from None
        return True

    def _abort(self, upload: dict[str, str]) -> None:
        """Give up the parts of an upload; what fails here is removed by `clear_dead` later."""
        try:
            self._calls.client.abort_multipart_upload(**upload)
        except Exception:  # noqa: BLE001 - the error that led here is the one to tell
            return

    def delete(self, key: str) -> None:
        """Remove a key; see `Store.delete`."""
        where = self._where(key)
        try:
            self._calls.repeat(f"delete {key}", lambda client: client.delete_object(**where))
        except Absent:
            return

    def clear_dead(self) -> int:
        """Give up uploads that were begun a week ago and never completed; how many."""
        before = self.now() - _ABANDONED
        try:
            answer = self._calls.repeat(
                "list unfinished uploads",
                lambda client: client.list_multipart_uploads(
                    Bucket=self._place.bucket, Prefix=self._place.key("")
                ),
            )
        except (Absent, Ignored):
            return 0
        dead = [each for each in answer.get("Uploads", ()) if each["Initiated"] < before]
        for each in dead:
            self._abort(
                {
                    "Bucket": self._place.bucket,
                    "Key": each["Key"],
                    "UploadId": each["UploadId"],
                }
            )
        return len(dead)

    # -- what the service honours -----------------------------------------------------------------

    def _prove(self) -> dict[str, bool]:
        """What the service honours, found out once per working copy.

        Raises:
            ConfigRefusal: when it overwrites what was to be created once.
        """
        if self._facts is None:
            self._facts = self._remembered() or self._probe()
        return self._facts

    def _remembered(self) -> dict[str, bool] | None:
        """What an earlier process found; the bucket must still be there."""
        try:
            found = json.loads(self._memory_file.read_bytes())
            if found["address"] != self.address:
                return None
            facts = {"complete": bool(found["complete"])}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self._ask_bucket()
        return facts

    def _probe(self) -> dict[str, bool]:
        """Create a key twice: the second must be refused, and must leave the first as it was."""
        self._ask_bucket()
        key = f"{layout.STORE_PROBES}/{os.urandom(8).hex()}"
        try:
            is_kept = self._put(key, b"first") and not self._put(key, b"second")
            is_kept = is_kept and self.find(key) == b"first"
        except Ignored:
            is_kept = False
        if not is_kept:
            self.delete(key)
            raise ConfigRefusal(
                "this store overwrites objects that must be created once",
                expected="HTTP 412 to the second PUT with If-None-Match: *",
                seen="another answer",
                where=self.address,
                do="Use a service with conditional writes: AWS, R2, MinIO, Ceph or SeaweedFS.",
            )
        facts = {"complete": self._completes_once(key)}
        self.delete(key)
        atomic.publish_json(self._memory_file, {"address": self.address, **facts})
        return facts

    def _completes_once(self, key: str) -> bool:
        """Whether an upload in parts to a key that is there is refused as well."""
        where = self._where(key)
        try:
            begun = self._calls.repeat(
                "probe", lambda client: client.create_multipart_upload(**where)
            )
            upload = {**where, "UploadId": begun["UploadId"]}
            tag = self._calls.repeat(
                "probe",
                lambda client: client.upload_part(**upload, Body=b"third", PartNumber=1)["ETag"],
            )
            parts = [{"PartNumber": 1, "ETag": tag}]
            is_once = not self._complete(key, upload, parts, "nobody")
        except (Ignored, Absent):
            return False
        return is_once and self.find(key) == b"first"

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _memory_file(self) -> Path:
        return self._memory / layout.store_facts(self.address)

    def _where(self, key: str) -> dict[str, str]:
        if key.startswith("/") or ".." in key.split("/"):
            raise ConfigRefusal(f"{key!r} is not a key", expected="a relative path without ..")
        return {"Bucket": self._place.bucket, "Key": self._place.key(key)}


def _put_part(client: Any, *, part: dict[str, Any], data: bytes) -> str:
    return str(client.upload_part(**part, Body=data)["ETag"])


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
