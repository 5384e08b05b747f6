"""An object store that holds a stream's checkpoint."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    both_or_neither,
    cel_string,
    rules_of_scalar,
)
from penstock.api.v1alpha1.base import KeyRef, SpecObject, text_like

# An object's name has at most 1024 bytes. Namespace, name, generation and the names of Spark's
# files take less than the other half.
_LONGEST_LOCATION = 512

_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
# Without what a URL, a glob of Hadoop or S3 itself reads in another way.
_SEGMENT = r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*"
_LOCATION = rf"^s3a://{_BUCKET}(/{_SEGMENT})*/?$"


def _like(pattern: str) -> Predicate:
    """The text is as a regular expression says, which RE2 and Python read alike."""
    return Predicate(
        f"self.matches({cel_string(pattern)})",
        lambda text: re.search(pattern.replace("$", r"\Z"), text) is not None,
    )


_S3A, _OTHER_S3, _EXPRESS = _like("^s3a://"), _like("^[sS]3[nNaA]?://"), _like("--x-s3(/.*)?$")
_DIGIT_LAST = _like(r"^s3a://[^/]*\.[0-9][^./]*(/.*)?$")
_LOCATION_RULES = (
    ValidationRule(
        _S3A | ~_OTHER_S3,
        "location takes the scheme s3a only, the name of S3 in Hadoop: write s3a://bucket/prefix",
    ),
    ValidationRule(
        _S3A | _OTHER_S3,
        "location takes s3a://bucket/prefix: other stores than S3, and those with its API, are "
        "not supported yet",
    ),
    ValidationRule(
        ~_S3A | (_like(_LOCATION) & ~_like(r"^s3a://[^/]*\.\.")),
        "location takes s3a://bucket/prefix: a bucket of 3 to 63 characters a-z, 0-9, '.' and '-', "
        "and a prefix of letters, digits, '.', '_', '=', '-' and '/'",
    ),
    ValidationRule(
        ~_S3A | ~_DIGIT_LAST,
        "location cannot name a bucket whose part after its last '.' begins with a digit, which "
        "Java takes for no host name: use another bucket",
    ),
    ValidationRule(
        ~_S3A | ~_EXPRESS,
        "location cannot be in a directory bucket (S3 Express One Zone), which is not supported "
        "yet: name a general purpose bucket",
    ),
)
Location = Annotated[
    str,
    StringConstraints(max_length=_LONGEST_LOCATION),
    *(AfterValidator(rule.check) for rule in _LOCATION_RULES),
    Field(json_schema_extra=rules_of_scalar(*_LOCATION_RULES)),
]


class ObjectStore(SpecObject):
    """A location in S3, or in a store with its API that has conditional writes.

    Penstock never deletes a stream's objects with the stream: a new stream of the same namespace,
    name and location continues from them. To start over, delete what is below
    status.effective.checkpointLocation, or begin another generation. `penstock run` stores the
    checkpoint in a local folder instead.
    """

    rules = (
        ValidationRule(
            both_or_neither("accessKeyIdSecret", "secretAccessKeySecret"),
            "accessKeyIdSecret and secretAccessKeySecret need each other: set both, or neither to "
            "use the identity of the pod",
        ),
    )
    location: Location = Field(
        description="The bucket and a prefix in it, which streams may share: Penstock adds "
        "<namespace>/<name>/generation-<number>. Clusters may not share it.",
        examples=["s3a://checkpoints/production"],
    )
    endpoint: (
        Annotated[
            str,
            text_like(
                r"^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/?$",
                "takes the URL of a host: write for example https://minio.example:9000",
                max_length=512,
            ),
        ]
        | None
    ) = Field(
        None,
        description="The store's URL. http sends the logs unencrypted. Default: that of AWS in "
        "the region.",
        examples=["https://minio.example:9000"],
    )
    region: (
        Annotated[
            str,
            text_like(
                r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,62}[A-Za-z0-9])?$",
                "takes the name of a region: write for example eu-central-1",
            ),
        ]
        | None
    ) = Field(
        None,
        description="The bucket's region, which signs the requests. Default: what the client "
        "finds, which takes more requests at each start.",
        examples=["eu-central-1"],
    )
    path_style_access: bool = Field(
        False,
        description="Whether the bucket is a part of the path instead of the host name, as most "
        "stores but AWS need it. Default: false.",
    )
    access_key_id_secret: KeyRef | None = Field(
        None,
        description="The Secret's key that holds the access key's id. The pods read it again when "
        "it changes, without a restart. Default: the identity of the pod, by its service account "
        "(IAM roles for service accounts, or EKS Pod Identity).",
    )
    secret_access_key_secret: KeyRef | None = Field(
        None,
        description="The Secret's key that holds the secret access key. Needs accessKeyIdSecret.",
    )

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self.location.removeprefix("s3a://").partition("/")[0]

    def location_of(self, namespace: str, name: str) -> str:
        """Where the checkpoints of a stream are, without a slash at the end.

        >>> ObjectStore(location="s3a://bucket/prefix/").location_of("payments", "flags")
        's3a://bucket/prefix/payments/flags'
        """
        return f"{self.location.rstrip('/')}/{namespace}/{name}"
