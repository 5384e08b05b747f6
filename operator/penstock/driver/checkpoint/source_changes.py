"""What happens to the topics that a running query reads, and that Spark does not report."""

from __future__ import annotations

import contextlib

from penstock.api.v1alpha1 import KafkaSource
from penstock.driver.checkpoint.data_loss_check import save_new_topics
from penstock.driver.checkpoint.folder import CheckpointFolder
from penstock.driver.checkpoint.progress import Commit
from penstock.driver.failures import DriverError, Failure
from penstock.driver.kafka import data_loss
from penstock.driver.kafka.data_loss import RunningLosses
from penstock.driver.kafka.offsets import Offsets
from penstock.driver.kafka.source_monitor import SourceView


class SourceChanges:
    """Finds lost records and new topics, each once."""

    def __init__(self, kafka: KafkaSource | None, folder: CheckpointFolder) -> None:
        self._kafka = kafka
        self._folder = folder
        self._losses = RunningLosses()
        self._before: Commit | None = None
        """The newest commit at the start, whose offsets that may have replaced."""
        self._searched: Offsets | None = None
        """The earliest offsets that were last searched for losses."""
        self._stored: frozenset[str] = frozenset()
        """The topics whose ids are stored."""

    def begin(self, source: SourceView, newest: Commit | None) -> None:
        """Takes the source as it is after the check before a start, and the newest commit then."""
        self._losses = RunningLosses(source.earliest_offsets)
        self._before = newest
        self._stored = frozenset(source.topic_ids)

    def new_losses(self, source: SourceView, commit: Commit | None) -> Failure | None:
        """A warning about records that were deleted before they were committed.

        Under failOnDataLoss, Spark fails the query itself.
        """
        earliest = source.earliest_offsets
        if self._kafka is None or self._kafka.fail_on_data_loss or commit is None:
            return None
        if earliest is None or earliest is self._searched:
            return None
        self._searched = earliest
        is_new = commit != self._before
        losses = self._losses.find(commit.offsets or {}, earliest, of_this_run=is_new)
        return data_loss.warning(losses) if losses else None

    def store_new_topics(self, source: SourceView) -> None:
        """Stores the ids of those that a pattern has found.

        They may be deleted and created again while nothing runs.
        """
        ids = source.topic_ids
        if not ids.keys() <= self._stored:
            with contextlib.suppress(OSError, DriverError):  # tried again: it is no reason to stop
                save_new_topics(self._folder, ids)
                self._stored = frozenset(ids)
