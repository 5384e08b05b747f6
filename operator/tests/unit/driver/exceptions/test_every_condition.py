"""What a failure shows of the text of each error condition that Spark ships.

Status, events, the driver's log lines and the metrics' labels are made of the failure's reason and
message, and of nothing else of an exception. Those of the Kafka connector:
integration/driver/spark/test_spark_error_conditions.py.
"""

from __future__ import annotations

import pytest

from testkit.driver.spark_error_conditions import (
    CLASSES,
    LEGACY,
    failure_of,
    is_raised_over_rows,
    of_spark,
    shows_its_text,
)
from testkit.plugins.figures import RecordFigure

# What the messages that are shown from a task tell of: names and numbers of the checkpoint, of the
# query and of partitions. No record fills any of it.
SHOWN = {
    # files, versions and operators of the checkpoint
    "actualVersion", "batchId", "batchMetadataFile", "checkpointLocation", "clazz",
    "computedChecksum", "computedSize", "dfsFile", "eligibleSnapshots", "endBatchId",
    "endFormatVersion", "expectedChecksum", "expectedSize", "expectedVersion", "fileName",
    "fileToRead", "keySize", "lastBatchId", "lastBatchShufflePartitions", "lastCommittedBatchId",
    "latestSnapshot", "lineage", "localFile", "localFileSize", "matchVersion",
    "maxSupportedVersion", "numPartitions", "operatorId", "operatorName", "partitionId",
    "provider", "selectedSnapshots", "snapshotPartitionId", "startBatchId", "startFormatVersion",
    "stateStoreId", "storeVersion", "valueSize", "version",
    "message", "msg", "text",  # a lineage, ids of state, a line of a log, a plan
    # the query's schemas, variables, options and operators
    "OpsInCurBatchSeq", "OpsInMetadataSeq", "addedColumnFamilies", "className", "colFamilyName",
    "columnName", "config", "configKey", "configName", "errorType", "existingVersion",
    "handleState", "invalidReasons", "joinSide",
    "maxSchemaEvolutions", "maxStateSchemaFiles", "name", "names", "newConfig", "newKeySchema",
    "newSchema", "newType", "newValueSchema", "numSchemaEvolutions", "numStateSchemaFiles",
    "numValues", "oldConfig", "oldSchema", "oldType", "oldValueSchema", "operation",
    "operationName", "operationType", "outputMode", "removedColumnFamilies", "sinkName",
    "sourceInfo", "sourceName", "sources", "sqlConfKey", "stateName", "stateVarName",
    "storedKeySchema", "storedValueSchema", "timeMode", "ttlEnabled", "valueIndex",
    "variableType", "windowFunc", "windowSpec",
    # offsets of Spark's own test source
    "endOffset", "endTimestamp", "startOffset", "startTimestamp",
}  # fmt: skip


@pytest.mark.proves("failures.md#what-is-shown-of-records")
@pytest.mark.parametrize("wrapped", [True, False], ids=["of a job", "thrown again"])
@pytest.mark.parametrize("classes", CLASSES.values(), ids=CLASSES)
def test_no_condition_shows_a_record(classes: tuple[str, ...], wrapped: bool) -> None:
    """What is shown tells of nothing new either: a new version of Spark fails here."""
    failures = [(each, failure_of(each, classes, wrapped=wrapped)) for each in of_spark()]
    shown = [(each, failure) for each, failure in failures if shows_its_text(failure)]
    assert {name for each, _ in shown for name in each.parameters} == SHOWN
    assert [each.name for each, failure in shown if failure.maybe_poison] == []


def test_how_many_conditions_there_are(record_figure: RecordFigure) -> None:
    """The figures in docs/testing.md."""
    named = [each for each in of_spark() if not each.name.startswith(LEGACY)]
    of_records = [
        each
        for each in named
        if is_raised_over_rows(each.name)
        and failure_of(each, CLASSES["SparkRuntimeException"]).maybe_poison
    ]
    names = {each.name for each in of_records}
    assert {"CAST_INVALID_INPUT", "INVALID_FORMAT.MISMATCH_INPUT", "MALFORMED_VARIANT"} <= names
    assert "TABLE_OR_VIEW_NOT_FOUND" not in names
    record_figure("named conditions and cases of Spark", len(named))
    record_figure("conditions of Spark without a name", len(of_spark()) - len(named))
    record_figure("conditions that a record may cause", len(of_records))
