"""What the watches have shown, so that a reconcile need not ask the API server.

It may be behind, so it serves to see that there is nothing to do, and to report. What is created,
changed or deleted is decided on a fresh read: see `Reconciler.reconcile`.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.cluster import kinds
from penstock.cluster.kinds import Key, Kind, Manifest, kind_of
from penstock.cluster.objects import Object
from penstock.cluster.stream_image import StreamImage
from penstock.contract import naming
from penstock.controller.kubernetes.api_client import KubernetesReads
from penstock.controller.kubernetes.bounded_objects import slim

# For so long an answer about an object that no watch shows is as good as new: there is none, or it
# has not the labels of a stream, such as the ServiceAccount that a spec names.
_ANSWER_SECONDS = 60.0
_MANY_ANSWERS = 10_000
# So much of one namespace is held, which is all of four thousand streams. The rest is asked for
# when it is needed.
_NAMESPACE_BYTES = 48 * 2**20
# Others of a kind are not watched. Executors are many, and matter only while cores are missing.
WATCHED_LABELS: Mapping[Kind, Mapping[str, str]] = {
    kinds.POD: {naming.LABEL_COMPONENT: naming.COMPONENT_DRIVER}
}


@dataclass(frozen=True, slots=True)
class _Held:
    uid: str
    version: str
    packed: bytes | None
    """As compressed JSON: parsed, it would need ten times the memory. None: the server has it."""
    stream: Key | None
    image: StreamImage | None = None
    """Of a stream."""
    intent: object = None
    """Of a stream: all but its status, which only the operator writes."""


class ObjectCache:
    """Streams and their objects, and the API server for what was not shown.

    Call all methods from the event loop's thread.
    """

    def __init__(
        self, api: KubernetesReads, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._monotonic = monotonic
        self._held: defaultdict[Kind, dict[Key, _Held]] = defaultdict(dict)
        self._of_stream: defaultdict[tuple[Kind, Key], set[Key]] = defaultdict(set)
        self._bytes: Counter[str] = Counter()
        """How much is held, by namespace."""
        self._listed: set[tuple[Kind, str]] = set()
        self._unshown: dict[Key, tuple[str, float]] = {}
        """The operator's last write to a stream, until the watch shows it, and since when."""
        self._answers: dict[tuple[Kind, Key], tuple[float, Manifest | None]] = {}

    # Reading.

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Returns an object, or None if there is none; of what was not shown, a recent answer."""
        key = Key(namespace, name)
        held = self._held[kind].get(key)
        if held is not None and held.packed is not None:
            return _unpacked(held.packed)
        until, answer = self._answers.get((kind, key), (0.0, None))
        if until > self._monotonic():
            return answer
        answer = await self._api.get(kind, namespace, name)
        if _is_soon_old(answer):
            return answer
        if len(self._answers) > _MANY_ANSWERS:
            self._answers.clear()
        self._answers[kind, key] = (self._monotonic() + _ANSWER_SECONDS, answer)
        return answer

    async def list(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str],
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """Returns the objects of a stream, or asks the API server for others."""
        stream, watched = labels.get(naming.LABEL_STREAM), WATCHED_LABELS.get(kind, {})
        is_listed = not self._listed.isdisjoint({(kind, namespace), (kind, "")})
        if stream is None or fields or not is_listed or not watched.items() <= labels.items():
            return await self._api.list(kind, namespace, labels, fields)
        keys = self._of_stream.get((kind, Key(namespace, stream)), ())
        packed = [self._held[kind][key].packed for key in sorted(keys)]
        if None in packed:
            return await self._api.list(kind, namespace, labels)
        return [_unpacked(each) for each in packed if each is not None]

    def streams(self) -> Sequence[Key]:
        """The keys of all streams."""
        return sorted(self._held[kinds.STREAM])

    def is_edited(self, key: Key) -> bool:
        """Whether the status of a stream does not know its newest spec."""
        held = self._held[kinds.STREAM].get(key)
        return held is not None and held.image is not None and held.image.edited

    def intent(self, key: Key) -> object:
        """What people may change of a stream: another value after each edit of theirs."""
        held = self._held[kinds.STREAM].get(key)
        return None if held is None else held.intent

    def images(self) -> Sequence[tuple[Key, StreamImage]]:
        """How far all streams are with the operator's image. From any thread."""
        streams = list(self._held[kinds.STREAM].items())
        return [(key, held.image) for key, held in streams if held.image is not None]

    @property
    def unshown(self) -> float:
        """For how many seconds a write to a stream was not shown, or 0. From any thread."""
        begun = min((since for _, since in self._unshown.copy().values()), default=None)
        return 0.0 if begun is None else self._monotonic() - begun

    # What the watches show.

    def wrote(self, stream: Manifest) -> None:
        """Takes a stream as the operator's own write has left it, unless it is gone by now."""
        if Object(stream).uid != self._uid(Object(stream).key):
            return
        key = self._take(stream)
        if key is not None:
            _, since = self._unshown.get(key, ("", self._monotonic()))
            self._unshown[key] = (Object(stream).version, since)

    def _uid(self, key: Key) -> str:
        """Of the stream that was shown or answered last; empty if there was none."""
        held = self._held[kinds.STREAM].get(key)
        if held is not None:
            return held.uid
        _, answer = self._answers.get((kinds.STREAM, key), (0.0, None))
        return Object(answer or {}).uid

    def put(self, manifest: Manifest, *, listed: bool = False) -> Key | None:
        """Takes an object that is newer. Returns the key of its stream, or None if it was known.

        One that was `listed` counts whatever its version: after a restore from a backup the
        versions begin anew.
        """
        if kind_of(manifest) is kinds.STREAM:
            self._shown(Object(manifest))
        return self._take(manifest, listed=listed)

    def _shown(self, stream: Object) -> None:
        written, _ = self._unshown.pop(stream.key, ("", 0.0))
        if is_newer(written, stream.version):
            self._unshown[stream.key] = (written, self._monotonic())

    def _take(self, manifest: Manifest, *, listed: bool = False) -> Key | None:
        observed, kind = Object(manifest), kind_of(manifest)
        held = self._held[kind].get(observed.key)
        if held is not None and held.uid == observed.uid:
            known = held.version == observed.version
            if known or not (listed or is_newer(observed.version, held.version)):
                return None
        # What may fail comes before what is held is dropped.
        stream = _stream_of(observed)
        image = StreamImage.of(observed) if kind is kinds.STREAM else None
        intent = None
        if kind is kinds.STREAM:  # the generation stands for the spec
            intent = hash((observed.generation, str(observed.labels), str(observed.annotations)))
        packed: bytes | None = _packed(manifest)
        self._drop(kind, observed.key)
        size = len(packed or b"")
        if self._bytes[observed.namespace] + size > _NAMESPACE_BYTES:
            packed = None
        else:
            self._bytes[observed.namespace] += size
        self._held[kind][observed.key] = _Held(
            observed.uid, observed.version, packed, stream, image, intent
        )
        if stream is not None:
            self._of_stream[kind, stream].add(observed.key)
        return stream

    def remove(self, manifest: Manifest) -> Key | None:
        """Forgets an object that is gone, or no longer has its labels; returns its stream's key."""
        removed, kind = Object(manifest), kind_of(manifest)
        held = self._held[kind].get(removed.key)
        if held is not None and held.uid == removed.uid:
            self._drop(kind, removed.key)
        if kind is kinds.STREAM:
            self._unshown.pop(removed.key, None)
            self._answers.pop((kind, removed.key), None)
        return _stream_of(removed)

    def retain(self, kind: Kind, namespace: str, listed: Iterable[Key]) -> Sequence[Key]:
        """Forgets what a whole list (of all namespaces if empty) has not; returns the streams."""
        self._listed.add((kind, namespace))
        gone = self._held[kind].keys() - set(listed)
        streams = []
        for key in sorted(gone):
            if namespace in ("", key.namespace):
                streams.append(self._held[kind][key].stream)
                self._drop(kind, key)
        return [stream for stream in streams if stream is not None]

    def forget_stream(self, seen: Manifest) -> None:
        """Forgets a stream that is gone, or that another write has changed: it is read again.

        What the watch has shown after the one that was `seen` stays.
        """
        stream = Object(seen)
        held = self._held[kinds.STREAM].get(stream.key)
        if held is not None and held.uid != stream.uid:
            return
        if held is not None and is_newer(held.version, stream.version):
            return
        self._drop(kinds.STREAM, stream.key)
        self._unshown.pop(stream.key, None)

    def _drop(self, kind: Kind, key: Key) -> None:
        self._answers.pop((kind, key), None)
        held = self._held[kind].pop(key, None)
        if held is not None and held.packed is not None:
            self._bytes[key.namespace] -= len(held.packed)
        if held is not None and held.stream is not None:
            of_stream = self._of_stream[kind, held.stream]
            of_stream.discard(key)
            if not of_stream:
                del self._of_stream[kind, held.stream]


def _stream_of(observed: Object) -> Key | None:
    if observed.kind is kinds.STREAM:
        return observed.key
    name = observed.labels.get(naming.LABEL_STREAM)
    return Key(observed.namespace, name) if name is not None else None


def _is_soon_old(answer: Manifest | None) -> bool:
    """Whether it is an object of a stream, which the watch shows soon, or never: one of another
    class, which goes with the stream that had the name before.
    """
    return answer is not None and naming.LABEL_STREAM in Object(answer).labels


def is_newer(version: str, than: str) -> bool:
    """Versions of one kind are numbers that grow, which Kubernetes has long promised its own."""
    if not version:
        return False
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


def _packed(manifest: Manifest) -> bytes:
    # The fastest level: the others save less than a tenth of it (measured).
    return zlib.compress(json.dumps(slim(manifest), separators=(",", ":")).encode(), level=1)


def _unpacked(packed: bytes) -> Manifest:
    return dict(json.loads(zlib.decompress(packed)))
