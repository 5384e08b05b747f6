"""A checkpoint in an object store: its parts, and the Secrets that it needs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.v1alpha1 import Checkpoint, CheckpointVolume, ObjectStore, StreamSpec
from penstock.contract.secrets import query_secret_keys, secret_keys
from testkit.streams.streams import RATE_TO_CONSOLE

STORE = {"location": "s3a://bucket/prefix"}
KEYS = {
    "accessKeyIdSecret": {"name": "checkpoint-keys", "key": "id"},
    "secretAccessKeySecret": {"name": "checkpoint-keys", "key": "secret"},
}


def spec(**store: Any) -> StreamSpec:
    return StreamSpec.model_validate({**RATE_TO_CONSOLE, "checkpoint": {"objectStore": store}})


@pytest.mark.parametrize(
    ("location", "bucket", "below"),
    [
        ("s3a://bucket", "bucket", "s3a://bucket/payments/flags"),
        ("s3a://bucket/", "bucket", "s3a://bucket/payments/flags"),
        ("s3a://bucket/a/b/", "bucket", "s3a://bucket/a/b/payments/flags"),
    ],
)
def test_a_stream_has_a_location_of_its_own(location: str, bucket: str, below: str) -> None:
    store = ObjectStore(location=location)
    assert store.bucket == bucket
    assert store.location_of("payments", "flags") == below


def test_a_checkpoint_has_a_volume_unless_it_is_in_an_object_store() -> None:
    assert Checkpoint().claimed_volume == CheckpointVolume()
    assert Checkpoint(volume=CheckpointVolume(size="2Gi")).claimed_volume is not None
    assert spec(**STORE).checkpoint.claimed_volume is None


def test_the_keys_are_mounted_in_the_pods_like_those_of_kafka() -> None:
    """Under their names; without them, the identity of the pod needs nothing."""
    keyed = spec(**STORE, **KEYS)
    assert secret_keys(keyed) == {"checkpoint-keys": ("id", "secret")}
    assert query_secret_keys(keyed) == {}
    assert secret_keys(spec(**STORE)) == {}


def test_a_newline_ends_no_location() -> None:
    """As RE2 reads the expression."""
    with pytest.raises(ValidationError, match="a bucket of 3 to 63 characters"):
        spec(location="s3a://bucket/a\n")
