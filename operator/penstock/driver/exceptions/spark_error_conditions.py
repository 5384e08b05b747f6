"""What each error condition of Spark means: a verdict by SQLSTATE, and named exceptions from it.

Spark ships its conditions with their SQLSTATEs (error-conditions.json); its Kafka connector ships
some more, mostly without one. A test walks through both, so each has a verdict that somebody chose.
Conditions whose names begin with `_LEGACY_ERROR_TEMP` have no SQLSTATE: their classes decide
(rules.py).

>>> verdict("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
<Verdict.SPEC: 'spec'>
>>> verdict("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "58030")
<Verdict.DAMAGED_STATE: 'damaged state'>
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Verdict(Enum):
    """What is at fault."""

    SPEC = "spec"
    """The query, an option or an argument; in a task it may as well be a record."""
    RECORD = "record"
    """A record, or what user code did with it."""
    PROCESSOR = "processor"
    """How a stateful processor uses Spark's API of state. The messages quote no record."""
    OTHER_STATE = "other state"
    """The checkpoint has the state of another query."""
    NO_STATE = "no state"
    """The checkpoint has batches of a query without state."""
    DAMAGED = "damaged"
    """Files of the checkpoint."""
    DAMAGED_STATE = "damaged state"
    """Files of the state, or the volume that they are on."""
    DATA_LOSS = "data loss"
    """Unread records are gone from Kafka."""
    TRANSIENT = "transient"
    """A disk, a network, a service, memory, or Spark itself: a retry may help."""


# By the longest prefix of the SQLSTATE.
BY_SQLSTATE: Mapping[str, Verdict] = {
    "02": Verdict.SPEC,
    "07": Verdict.SPEC,
    "0A": Verdict.SPEC,  # feature not supported
    "21": Verdict.SPEC,  # cardinality violation
    "22": Verdict.SPEC,  # data exception: a literal, or a record
    "23": Verdict.RECORD,  # constraint violation
    "24": Verdict.SPEC,
    "2B": Verdict.SPEC,
    "38": Verdict.RECORD,  # external function
    "39": Verdict.RECORD,  # external routine
    "3F": Verdict.SPEC,
    "40": Verdict.TRANSIENT,  # transaction rollback
    "42": Verdict.SPEC,  # syntax error or access rule violation
    "46": Verdict.SPEC,  # Java
    "51": Verdict.SPEC,
    "53": Verdict.TRANSIENT,  # out of memory
    "54": Verdict.SPEC,  # program limit
    "55": Verdict.OTHER_STATE,  # the repartitioning of state
    "56": Verdict.SPEC,  # codec or feature not available
    "58": Verdict.TRANSIENT,  # system error: files
    "82": Verdict.TRANSIENT,  # out of memory
    "F0": Verdict.SPEC,  # configuration file
    "HV": Verdict.TRANSIENT,  # JDBC
    "HY": Verdict.TRANSIENT,
    "KD": Verdict.SPEC,  # data sources
    "KD001": Verdict.TRANSIENT,  # FAILED_READ_FILE
    "KD002": Verdict.DAMAGED,  # log files
    "KD010": Verdict.TRANSIENT,  # DATA_SOURCE_EXTERNAL_ERROR
    "P0": Verdict.RECORD,  # raise_error()
    "XX": Verdict.TRANSIENT,  # internal error
}

# By the longest prefix of the name, which precedes the SQLSTATE.
OF_SPARK: Mapping[str, Verdict] = {
    "BATCH_METADATA_NOT_FOUND": Verdict.DAMAGED,
    "CANNOT_LOAD_STATE_STORE": Verdict.DAMAGED_STATE,
    "CANNOT_LOAD_STATE_STORE.FAILED_TO_GET_CHANGELOG_WRITER": Verdict.TRANSIENT,
    "CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY": Verdict.TRANSIENT,
    "CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY": Verdict.TRANSIENT,
    "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR": Verdict.TRANSIENT,
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED": Verdict.DAMAGED_STATE,
    "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND": Verdict.TRANSIENT,
    "MALFORMED_PROTOBUF_MESSAGE": Verdict.RECORD,
    "MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE": Verdict.DAMAGED,
    "STATEFUL_PROCESSOR_": Verdict.PROCESSOR,
    "STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY": Verdict.PROCESSOR,
    "STATE_STORE_CANNOT_USE_COLUMN_FAMILY": Verdict.PROCESSOR,
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY": Verdict.DAMAGED_STATE,
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE": Verdict.OTHER_STATE,
    "STATE_STORE_HANDLE_NOT_INITIALIZED": Verdict.PROCESSOR,
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART": Verdict.OTHER_STATE,
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION": Verdict.OTHER_STATE,
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE": Verdict.OTHER_STATE,
    "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE": Verdict.DAMAGED_STATE,
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": Verdict.OTHER_STATE,
    "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED": Verdict.DAMAGED_STATE,
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED": Verdict.OTHER_STATE,
    "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY": Verdict.SPEC,
    "STATE_STORE_UNSUPPORTED_OPERATION_ON_MISSING_COLUMN_FAMILY": Verdict.PROCESSOR,
    "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE": Verdict.DAMAGED_STATE,
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED": Verdict.OTHER_STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": Verdict.OTHER_STATE,
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE": Verdict.DAMAGED,
    "STREAMING_QUERY_EVOLUTION_ERROR": Verdict.OTHER_STATE,
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY": Verdict.NO_STATE,
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": Verdict.OTHER_STATE,
    "STREAM_STREAM_JOIN_INCONSISTENT_STATE": Verdict.DAMAGED_STATE,
    "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE": Verdict.SPEC,
}

# The same for Spark's Kafka connector, whose conditions mostly have no SQLSTATE.
OF_KAFKA: Mapping[str, Verdict] = {
    # "The error could be transient - restart your query", says Spark of four.
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN": Verdict.TRANSIENT,
    "KAFKA_DATA_LOSS": Verdict.DATA_LOSS,
    "KAFKA_MALFORMED_RECORD_TIMESTAMP": Verdict.RECORD,
    "KAFKA_NULL_TOPIC_IN_DATA": Verdict.RECORD,
    # Penstock resolves the offsets itself, so partitions were created in between.
    "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED": Verdict.TRANSIENT,
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED": Verdict.SPEC,
    "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW": Verdict.TRANSIENT,
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED": Verdict.TRANSIENT,
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET": Verdict.TRANSIENT,
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Verdict.SPEC,
    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Verdict.SPEC,
}

# Of damage: their messages hold values of the state, which are of records.
QUOTING: frozenset[str] = frozenset(
    {
        "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "STREAM_STREAM_JOIN_INCONSISTENT_STATE.RANGE_SCAN_TIMESTAMP_OUT_OF_RANGE",
    }
)


def verdict(condition: str, sql_state: str | None) -> Verdict | None:
    """The verdict on an error condition; None if nobody chose one."""
    by_name = _longest_prefix({**OF_SPARK, **OF_KAFKA}, condition)
    if by_name is not None or sql_state is None:
        return by_name
    return _longest_prefix(BY_SQLSTATE, sql_state)


def _longest_prefix(verdicts: Mapping[str, Verdict], name: str) -> Verdict | None:
    prefixes = (prefix for prefix in verdicts if name.startswith(prefix))
    longest = max(prefixes, key=len, default=None)
    return None if longest is None else verdicts[longest]
