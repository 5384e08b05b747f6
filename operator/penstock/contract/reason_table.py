"""The rows of docs/reasons.md: what each reason means, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = "Nothing"
# A new stream begins at startingOffsets, by default with the newest records.
APPLY_ELSEWHERE = (
    "note status.committedOffsets, delete the stream, and apply it again with them as "
    "checkpoint.startFrom"
)
HIGHER_GENERATION = (
    "begin a checkpoint.generation of a higher number, from Kafka with startFrom: "
    "status.committedOffsets says how far the stream had come"
)

# Only where the spec is what is wrong, for it opens an editor.
EDIT = "kubectl edit cstream {name} -n {namespace}"
# Which topics, brokers, Secrets, image or location it names, and how far it has come.
SHOW = "kubectl get cstream {name} -n {namespace} -o yaml"
LOGS = "kubectl penstock logs {name} -n {namespace}"
PREVIOUS = "kubectl penstock logs {name} -n {namespace} --previous"
RESTART = (
    "kubectl patch cstream {name} -n {namespace} --type=merge "
    '-p "{{\\"spec\\":{{\\"restartedAt\\":\\"$(date -u +%FT%TZ)\\"}}}}"'
)
POD = "kubectl describe pod {name}-driver-0 -n {namespace}"
PODS = "kubectl describe pods -l penstock.dev/stream={name} -n {namespace}"
CLAIM = "kubectl describe pvc {name}-checkpoint -n {namespace}"
CLAIMS = "kubectl get pvc -n {namespace}"
INSIDE = "kubectl penstock doctor {name} -n {namespace}"


@dataclass(frozen=True)
class Remedy:
    """What some reasons mean, and what to do."""

    reasons: str
    """Separated by spaces."""
    meaning: str
    action: str
    """In the imperative; `NOTHING`, perhaps with more words, if Penstock needs no help."""
    command: str = ""
    """The next command to run, with {namespace} and {name} of the stream; empty if none helps."""

    def command_for(self, namespace: str, name: str, *, has_claim: bool = True) -> str:
        """The command for one stream; of one without a volume claim, the log says more."""
        command = self.command if has_claim or self.command not in (CLAIM, CLAIMS) else LOGS
        return command.format(namespace=namespace, name=name)


ROWS: tuple[Remedy, ...] = (
    Remedy(
        "Running Completed",
        "The query runs, or an availableNow stream has read everything.",
        f"{NOTHING}.",
    ),
    Remedy(
        "NeverFinishes",
        "Warning: spec.ttlSecondsAfterFinished has no effect, because the query never finishes.",
        "Remove it, or use trigger.availableNow.",
        EDIT,
    ),
    Remedy(
        "Suspending Suspended",
        "spec.suspend is true: the stream is stopped, and keeps its checkpoint.",
        f"{NOTHING}; to continue, set spec.suspend to false.",
        "kubectl patch cstream {name} -n {namespace} --type=merge "
        """-p '{{"spec":{{"suspend":false}}}}'""",
    ),
    Remedy(
        "SpecNotApplied",
        "Ready, by an earlier spec: the newest one is refused, or could not be applied yet.",
        "See the condition Stalled, or Reconciling while the operator retries.",
        "kubectl describe cstream {name} -n {namespace}",
    ),
    Remedy(
        "ReconciliationPaused",
        "Reconciling: the stream has the annotation penstock.dev/pause-reconciliation, so the "
        "operator changes nothing. Ready still says what runs.",
        "Remove the annotation when the maintenance is over.",
        "kubectl annotate cstream {name} -n {namespace} penstock.dev/pause-reconciliation-",
    ),
    Remedy(
        "JudgingEdit",
        "Reconciling: the driver that runs asks Spark whether it takes the edited spec.",
        "Wait for half a minute at most.",
        "kubectl describe cstream {name} -n {namespace}",
    ),
    Remedy(
        "ApplyingEdit",
        "Reconciling: the driver that runs stops its query after a commit and starts the edited "
        "one. If it does not within a minute, its pod is replaced.",
        "Wait for two minutes at most.",
        "kubectl describe cstream {name} -n {namespace}",
    ),
    Remedy(
        "RolledBack",
        "Stalled: the newest spec, or a new default image, failed for good, or was not Ready "
        "within rollout.deadline. The last one that was Ready runs again, on the same checkpoint. "
        "The message says what failed.",
        "Correct the spec. To try it again as it is, set spec.restartedAt. If a default image does "
        "not run, tell whoever installed the operator, or name another one in spec.image.",
        "penstock history {name} -n {namespace}",
    ),
    Remedy(
        "ImageRolloutStopped",
        "An event: the stream did not become Ready with a new default image, and neither did "
        "others, so no further stream gets it. This one runs with the image before, and gets the "
        "new one again six hours later.",
        "See why it did not run with it. If the image is the cause, whoever installed the operator "
        "corrects sparkImage; if the stream is, correct its spec.",
        "penstock history {name} -n {namespace}",
    ),
    Remedy(
        "DriverStarting DriverStopping RollingOut QueryStarting QueryRestarting "
        "WaitingForFirstEpoch WaitingForDeletion NoDriverPod",
        "On the way to Running: QueryStarting, WaitingForCores, QueryStarting again once the cores "
        "are there, WaitingForFirstEpoch. Meanwhile the driver's pod is not ready, so its events "
        "hold a Warning of the kubelet, Unhealthy: the readiness probe failed with 503.",
        "Wait for two minutes. If it lasts longer, see the events of the driver's pod.",
        POD,
    ),
    Remedy(
        "DriverNotReady",
        "The query runs and makes no progress, or its driver does not answer the probe.",
        "See the driver's log: it says whether the query or the driver waits, and for what.",
        LOGS,
    ),
    Remedy(
        "WaitingForCores",
        "Fewer cores are registered than the source has partitions. In continuous and real-time "
        "mode Spark would never run some of them, so the query waits; a micro-batch starts after a "
        "minute with the cores that there are.",
        "Make room in the cluster, or lower executor.resources.requests. Executors of a query with "
        "state need room on the driver's node, unless the checkpoint is in an object store.",
        PODS,
    ),
    Remedy(
        "FewStatePartitions",
        "The query's state has fewer partitions than the stream has cores: its checkpoint keeps "
        "the number that it began with.",
        f"{NOTHING}, unless batches take too long: then set checkpoint.statePartitions to the "
        "number of cores or more. The query pauses while Spark divides the state.",
    ),
    Remedy(
        "InvalidSpec InvalidPattern InvalidPodTemplate NullField NotOneSelect "
        "UnsupportedOperation UnknownColumn UnknownFunction InvalidSql SinkColumns SinkRouting "
        "BadRecordsVanish SinkFeedsSource SpecTooLarge QueryTooLarge MemorySinkInCluster "
        "DataSourceUnusable KafkaAsDataSource DependencyDoubtful StartsAtLatest CommentedOut",
        "Stalled: the spec cannot run. If the operator found it, the last valid spec keeps "
        "running, and Ready stays True while it does. As a warning: it runs, but probably not as "
        "intended.",
        "Correct what the message names in the spec.",
        EDIT,
    ),
    Remedy(
        "TooFewExecutorsAllowed",
        "executor.maxInstances allows fewer cores than the source has partitions, which continuous "
        "and real-time mode need. Stalled; or, if partitions were added, the stream reads only the "
        "earlier ones. Micro-batches run on the cores that are allowed.",
        "Raise executor.maxInstances or executor.cores.",
        EDIT,
    ),
    Remedy(
        "PodSecurityViolation",
        "Stalled: a pod template or sparkConf asks for more than the Pod Security Standard allows.",
        "Remove the field that the message names, or ask the administrator for the chart's "
        "value podSecurity.",
        EDIT,
    ),
    Remedy(
        "OperatorNamespace",
        "Stalled: the stream is in the operator's own namespace, where its code could act as "
        "the operator.",
        "Create it in another namespace.",
    ),
    Remedy(
        "ApplyRefused",
        "Stalled: the API server refused an object (a quota, a policy, a missing right). The "
        "operator retries within a minute; what ran keeps running and stays Ready.",
        "Change what the message names.",
    ),
    Remedy(
        "ApplyFailed",
        "Reconciling: the API server failed at a write (overload, a broken admission webhook). "
        "The operator retries with back-off; Stalled after ten minutes.",
        "Repair what the message names: the API server or an admission webhook.",
        "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    ),
    Remedy(
        "ReconcileFailed",
        "Reconciling: the operator could not read the stream's objects, or hit an error of its "
        "own. Everything else in the status stays; Ready is Unknown after a minute.",
        "Look at the operator's log.",
        "kubectl logs -A -l app.kubernetes.io/name=penstock,app.kubernetes.io/component="
        "operator --prefix --tail=100",
    ),
    Remedy(
        "ForeignObject",
        "Stalled: an object of a name that the stream needs belongs to somebody else. It is "
        "not touched.",
        "Delete or rename that object, or set checkpoint.volume.adopt for a volume claim.",
        "kubectl get -n {namespace} "
        "statefulsets,pvc,configmaps,serviceaccounts,roles,rolebindings,networkpolicies",
    ),
    Remedy(
        "ChangedByOthers",
        "Reconciling: another client keeps changing an object of the stream, which the "
        "operator restores less and less often.",
        "Stop that client; give a second operator namespaces of its own.",
    ),
    Remedy(
        "TopicMissing",
        "A topic does not exist. The driver checks every half minute.",
        "Create the topic, or correct its name.",
        SHOW,
    ),
    Remedy(
        "TooFewReplicas",
        "The output topic asks for more replicas in sync than it has, so it takes no record of a "
        "producer that waits for all of them. The driver checks every half minute.",
        "Give the topic more replicas, or lower its min.insync.replicas: the message has the "
        "command.",
    ),
    Remedy(
        "PartitionMissing StartingOffsetsIncomplete",
        "Kafka's partitions and those of the spec, or of the checkpoint, differ. The driver "
        "checks every half minute.",
        "Correct what the message names.",
        EDIT,
    ),
    Remedy(
        "KafkaAuthentication",
        "The brokers reject the credentials, or TLS does. The driver reads the Secret again "
        "every half minute.",
        "Check the credentials and certificates in the options.",
        SHOW,
    ),
    Remedy(
        "KafkaAuthorization",
        "Kafka's ACLs do not allow what the stream does. The driver checks every half minute.",
        "Grant the stream's principal the missing rights.",
    ),
    Remedy(
        "SecretMissing SecretInvalid ConfigMapMissing",
        "A Secret or ConfigMap, or a key of it, is missing or cannot be used. The driver "
        "checks every half minute.",
        "Create or correct what the message names.",
        "kubectl get secrets,configmaps -n {namespace}",
    ),
    Remedy(
        "DataLoss",
        "Unread records are gone from Kafka. Stalled, or only a report with failOnDataLoss: false.",
        "The next records are gone from Kafka (retention, or the topic was created again). To "
        "continue with the records that are left, set spec.source.kafka.failOnDataLoss to "
        "false.",
        EDIT,
    ),
    Remedy(
        "RecordsLost",
        "Kafka deleted unread records, and failOnDataLoss: false accepts that.",
        "Raise the topic's retention, or give the stream more cores.",
    ),
    Remedy(
        "DeadLetter",
        "Only a report: a record that the query cannot process is in the dead-letter topic.",
        "See what happens with it (penstock replay), correct the transform, and read the topic of "
        "dead letters again (docs/how-to/dead-letters.md).",
    ),
    Remedy(
        "DeadLetterNotWritten",
        "Two runs have failed over a record, and the dead-letter topic does not take its copy. No "
        "query runs until it does, because it would only fail again and write other records again.",
        "Make the dead-letter topic take the record: it has to exist, with enough replicas in "
        "sync, and the source's user needs Write on it. Its max.message.bytes has to be as large "
        "as that of the source's topic, and its cleanup.policy has to be delete if a record has no "
        "key. The driver then copies the record by itself.",
        LOGS,
    ),
    Remedy(
        "MalformedRecordInParsing",
        "A record is not what the schema of from_json says, with mode FAILFAST. The message names "
        "the field and the types; every restart reads the record again.",
        "Correct the record's producer, or the schema (STRING takes any value), or set "
        "deadLetters.",
        EDIT,
    ),
    Remedy(
        "TooManyDeadLetters",
        "More records fail within a minute, or one after the other, than "
        "deadLetters.maxPerMinute: no more become dead letters. "
        "The stream stops, or is tried again at most five minutes later if it has ever committed.",
        "Correct the transform, or raise spec.source.kafka.deadLetters.maxPerMinute if so many "
        "records are really bad: both go on with dead letters.",
        EDIT,
    ),
    Remedy(
        "DeadLettersAreRead",
        "The source would read its own dead letters.",
        "Name a topic for dead letters that the pattern does not match.",
        EDIT,
    ),
    Remedy(
        "DeadLettersNotPossible",
        "Dead letters are asked for, and the query does not take one record after another.",
        "Remove deadLetters, or do the same with Spark's own expressions, a Java function and a "
        "Kafka sink.",
        EDIT,
    ),
    Remedy(
        "CheckpointFull",
        "The checkpoint's volume is full. The query is stopped; the driver looks every two "
        "seconds, and after five minutes, without executors, every half minute.",
        "Raise spec.checkpoint.volume.size, or delete files that are not the stream's.",
        EDIT,
    ),
    Remedy(
        "CheckpointNotAccessible",
        "The checkpoint cannot be read, written or locked. The query is stopped; the driver looks "
        "every two seconds, and after five minutes, without executors, every half minute.",
        "Check the volume: who owns its files, whether it is read-only, whether it supports locks.",
        CLAIM,
    ),
    Remedy(
        "CheckpointElsewhere",
        "Stalled: by the spec, the checkpoint is to be at another place than it is: a checkpoint "
        "does not move. What ran before keeps running.",
        f"Correct spec.checkpoint. For another place, {APPLY_ELSEWHERE}.",
        EDIT,
    ),
    Remedy(
        "CheckpointMissing",
        "Stalled: the volume claim with the stream's progress is gone, or its location in the "
        "object store is empty or another one.",
        f"Restore what the message names. Or {HIGHER_GENERATION}. Do not delete the stream before "
        "you have noted them: a new one begins at startingOffsets. If it has never been Ready, "
        "delete it, and apply it again.",
        CLAIMS,
    ),
    Remedy(
        "ObjectStoreNotAccessible",
        "The checkpoint's object store does not answer, or only with errors: it is unreachable, "
        "overloaded, or refuses a connection. The driver tries again.",
        f"{NOTHING} if it is short. If it lasts, check checkpoint.objectStore.endpoint and region, "
        "the store, the name server, and the network policies of the stream's pods.",
        LOGS,
    ),
    Remedy(
        "BucketNotFound",
        "The bucket of checkpoint.objectStore.location does not exist in the store. The driver "
        "looks again.",
        "Create the bucket, or correct endpoint and region; for another location, "
        f"{APPLY_ELSEWHERE}.",
        SHOW,
    ),
    Remedy(
        "ObjectStoreDenied",
        "The object store does not know the keys or the role of the stream's pods, or does not "
        "allow them what a checkpoint needs. The driver tries again.",
        "Correct the keys in the Secret, or the role of the service account. They need "
        "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload below the "
        "location, and s3:ListBucket on the bucket.",
        SHOW,
    ),
    Remedy(
        "ObjectStoreUnsafe",
        "Stalled: the object store ignores the condition of a write (If-None-Match, If-Match), so "
        "that two drivers could write the same checkpoint.",
        "Use a store, or a version of it, with conditional writes, such as AWS S3, or a volume: "
        f"{APPLY_ELSEWHERE}.",
        SHOW,
    ),
    Remedy(
        "CheckpointTakenOver",
        "Another driver has taken the checkpoint over. This one writes nothing more, and ends.",
        f"{NOTHING} if the driver's pod was replaced. If it goes on, look for a stream of the same "
        "namespace and name with the same checkpoint.objectStore.location, such as in another "
        "cluster.",
        PODS,
    ),
    Remedy(
        "CheckpointDamaged",
        "Stalled: the checkpoint does not show how far the stream had come (checkpoints.md).",
        "Restore the checkpoint, or begin another checkpoint.generation.",
        CLAIM,
    ),
    Remedy(
        "CheckpointHoldsState CheckpointHoldsNoState CheckpointOfAnotherMode "
        "CheckpointOfOtherReads",
        "Stalled: the checkpoint is of a query or trigger that this one cannot continue "
        "(checkpoints.md).",
        "Go back to the previous query and trigger, or begin a new checkpoint where this one is, "
        "without its state: another checkpoint.generation, with startFrom.generation.",
        EDIT,
    ),
    Remedy(
        "StartPositionUnknown",
        "Stalled: what checkpoint.startFrom names is not there.",
        "Correct checkpoint.startFrom, or say where to begin as offsets or a timestamp.",
        EDIT,
    ),
    Remedy(
        "GenerationExists",
        "The generation of the checkpoint began elsewhere than checkpoint.startFrom says, and is "
        "continued.",
        "To begin anew, choose a checkpoint.generation that was never used; to continue, leave it "
        "as it is, or restore the earlier startFrom.",
        EDIT,
    ),
    Remedy(
        "CheckpointTerminating",
        "The volume claim is being deleted, and is gone once the driver's pod ends.",
        "Keep the volume (persistentVolumeReclaimPolicy: Retain) or copy the checkpoint now.",
        CLAIM,
    ),
    Remedy(
        "StateOfAnotherQuery",
        "Stalled: Spark refuses the state in the checkpoint.",
        "The checkpoint contains the state of another query. Restore the previous query, or begin "
        "a new checkpoint where this one is, without its state: another checkpoint.generation, "
        "with startFrom.generation.",
        EDIT,
    ),
    Remedy(
        "TopicInvalid KafkaOptionInvalid OptionInvalid ClassNotFound PythonFailed "
        "JavaTransformFailed",
        "Spark, Kafka or your code refuses it. Stalled, or Restarting if a record may be the "
        "cause.",
        "Correct the spec or your code. If you corrected something outside the spec, restart the "
        "stream (restartedAt).",
        EDIT,
    ),
    Remedy(
        "ClassNotUsable",
        "Java code needs a class or a method that is missing, or has another version: the message "
        "names it where the JVM does. Stalled, or Restarting if the stream has run.",
        "Build the jar for the versions of Spark, Scala and the libraries that the image has, or "
        "put what is missing into the image or into spec.dependencies.",
        SHOW,
    ),
    Remedy(
        "ModuleMissing",
        "Python on the executors cannot import a module: the message names it where no record can "
        "have named it. Stalled, or Restarting if the stream has run.",
        "Put the module into the image that spec.image names.",
        SHOW,
    ),
    Remedy(
        "PythonWorkerDied",
        "A Python process of an executor ended without an exception: it was killed for its memory, "
        "or native code crashed.",
        "Give the executors more memory (executor.resources, executor.memoryOverhead), or correct "
        "the native code that your function calls.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "SchemaUnknown",
        "The schema registry does not know the schema that a record names: the record is of "
        "another registry, or in another format. Every restart reads it again.",
        "Filter the record, or register its schema under its id.",
        EDIT,
    ),
    Remedy(
        "Serialization",
        "A record could not be read or written; every restart reads it again.",
        "Correct the transform (try_cast), or filter the record.",
        EDIT,
    ),
    Remedy(
        "RecordTooLarge",
        "Stalled: a record is larger than the producer or the topic allows.",
        "Raise kafka.max.request.size in spec.sink.kafka.options, or the topic's "
        "max.message.bytes; or make the transform write less.",
        EDIT,
    ),
    Remedy(
        "RecordNotWritable",
        "A record asks for a topic or a partition that does not exist, or lacks the key that a "
        "compacted topic needs; every restart reads it again.",
        "Correct the columns topic, partition and key that the transform writes (leave "
        "partition out if nothing needs it), or create the topic.",
        EDIT,
    ),
    Remedy(
        "ClocksDiffer",
        "Kafka refuses the time of the records: the clock of an executor's node differs from the "
        "broker's by more than the topic's message.timestamp.before.max.ms or after.max.ms.",
        "Synchronize the clocks of the nodes and the brokers, or set message.timestamp.type of the "
        "output topic to LogAppendTime.",
        LOGS,
    ),
    Remedy(
        "BrokerUnreachable",
        "No answer from Kafka, or its brokers' names do not resolve.",
        f"{NOTHING} if it is short: the stream continues when the brokers answer. If it "
        "lasts, check the brokers, the name server and the network policies.",
        INSIDE,
    ),
    Remedy(
        "PartitionsNotRead",
        "Some partitions have records that the query does not read, although its epochs commit. "
        "Spark is restarted with new executors, after a longer time each time.",
        "Check the network, the name server and the network policies between the nodes of the "
        "executors and the brokers that lead these partitions.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "HostUnknown ConnectionFailed TlsFailed SchemaRegistryFailed",
        "A service that your code calls does not answer, or answers with an error.",
        "Check that service, if it lasts.",
        LOGS,
    ),
    Remedy(
        "KafkaClientFailed Timeout",
        "Another error of Kafka's client, or a step that took too long.",
        "Read the message and the driver's log.",
        LOGS,
    ),
    Remedy(
        "ApiServerUnreachable ApiServerRefused ExecutorsNotGone",
        "The driver asks the Kubernetes API again.",
        "Check the API server, the rights of the driver's ServiceAccount, or the nodes of its "
        "executors, if it lasts.",
        "kubectl auth can-i --list -n {namespace} "
        "--as=system:serviceaccount:{namespace}:{name}-driver",
    ),
    Remedy(
        "ApiServerUnauthorized",
        "The API server rejects the token of the driver's pod (401). A running query runs on, but "
        "can have no new executors, and the driver cannot report.",
        "Delete the driver's pod: the next one gets a new token. If all pods are rejected, repair "
        "the API server's authentication.",
        "kubectl delete pod {name}-driver-0 -n {namespace}",
    ),
    Remedy(
        "ServiceAccountRecreated",
        "The driver's ServiceAccount was deleted and created again, which ends the token of its "
        "pod. The operator replaces the pod, once.",
        f"{NOTHING}. Find out who deleted the account.",
        "kubectl get serviceaccount {name}-driver -n {namespace} --show-managed-fields -o yaml",
    ),
    Remedy(
        "ServiceAccountMissing",
        "Warning: the ServiceAccount that spec.serviceAccountName names is gone. A running query "
        "runs on, but can have no new executors.",
        "Create the account again; the operator then replaces the pod.",
        "kubectl get serviceaccounts -n {namespace}",
    ),
    Remedy(
        "HeldByFinalizers",
        "An object of the stream was deleted, and a finalizer keeps it, so there is no other one. "
        "As a Warning, the query runs on.",
        "Let whoever has set the finalizer remove it. The message has the command for one that "
        "nobody will remove.",
        PODS,
    ),
    Remedy(
        "NoProgress CommitsStuck TasksMissing",
        "The query shows no sign of work, and is restarted from its checkpoint.",
        "See in the log of driver and executors what the query waits for.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "CoresLost ClockSetBack ExecutorLost TaskFailed "
        "QueryEnded SessionStopped OffsetOutOfRange TopicRecreated DriverHung DriverStartTimeout",
        "The query or the driver is restarted from its checkpoint.",
        "Wait for the restart. If it happens again, see the log of driver and executors.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "QueryFailed Unknown",
        "The query failed, and the driver does not know why.",
        "See the driver's log.",
        LOGS,
    ),
    Remedy(
        "QueryNotStopped",
        "The query did not stop in time, so the process ends.",
        "Check the checkpoint's volume, or its object store: it may be slow.",
        CLAIM,
    ),
    Remedy(
        "OutOfMemory ExecutorOutOfMemory",
        "An executor needs more heap, or its container more memory.",
        "Give the executors more memory.",
        EDIT,
    ),
    Remedy(
        "ConsumerGroupNotCommitted ConsumerGroupHasMembers ConsumerGroupShared",
        "Only a warning: the consumer group of spec.source.kafka.consumerGroup does not show where "
        "the stream is. Kafka does not take the offsets, or somebody else commits them too.",
        "Do what the message says: grant Read on the group, or name a group of its own.",
        EDIT,
    ),
    Remedy(
        "SourceHeldByTransaction",
        "Warning: a transaction in the source has been open for minutes. With read_committed "
        "nothing behind it is read, also not what other producers have written, and the lag does "
        "not count it. The brokers abort it after the producer's transaction.timeout.ms; one that "
        "hangs (KIP-664) stays.",
        "If its producer is alive, wait, or let it commit more often. Otherwise find and abort the "
        "transaction with kafka-transactions.sh (find-hanging, describe-producers, abort): the "
        "message has the commands.",
        LOGS,
    ),
    Remedy(
        "PenstockKafkaMissing",
        "The image lacks penstock-kafka.jar. Only a warning: continuous mode then reads and writes "
        "Kafka with Spark's own data source, and each record takes longer. Stalled, if the stream "
        "asks for dead letters.",
        "Build the image from Penstock's, or copy penstock-kafka.jar from there (in a checkout: "
        "make data-source). To do without, set spark.penstock.kafka.enabled to false in sparkConf.",
        SHOW,
    ),
    Remedy(
        "ProducerFenced",
        "Kafka refuses what a task sends with delivery ExactlyOnce: another driver of the stream "
        "has taken its transactional ids over, or a transaction was open for longer than "
        "transaction.timeout.ms. The query continues with the offsets of the last transaction.",
        "If it goes on, look for a second driver with a copy of this checkpoint, or raise "
        "kafka.transaction.timeout.ms in sink.kafka.options.",
        LOGS,
    ),
    Remedy(
        "ExactlyOnceImpossible",
        "sink.kafka.delivery is ExactlyOnce, and what writes or keeps transactions is not there. "
        "Nothing is written at least once instead.",
        "Do what the message says, or set sink.kafka.delivery to AtLeastOnce.",
        EDIT,
    ),
    Remedy(
        "DriverKilled DriverOutOfMemory OOMKilled",
        "The driver, or a container of the stream, was killed, probably for its memory.",
        "If it happens again, raise driver.resources (memory), and memoryOverhead for "
        "OOMKilled and DriverKilled.",
        PREVIOUS,
    ),
    Remedy(
        "DriverCrashed DriverExited DriverRestarting DriverPodReplaced DriverPodFailed "
        "ContainerStatusUnknown Error CrashLoopBackOff Evicted",
        "The driver's process or pod has ended, and another one is started.",
        "See the log of the process that ended.",
        PREVIOUS,
    ),
    Remedy(
        "QueryRestarted",
        "The query was restarted from its checkpoint.",
        f"{NOTHING}.",
        LOGS,
    ),
    Remedy(
        "DriverRestarted",
        "The driver process was restarted. Stalled if it has exited restart.maxAttempts times "
        "in a row.",
        "If the stream is Stalled, correct the cause, then restart the stream.",
        RESTART,
    ),
    Remedy(
        "CheckpointInUse",
        "Another driver holds the checkpoint: the lock on its volume, or the lease in its object "
        "store. A lease that nobody renews is free after 45 seconds.",
        f"{NOTHING} for the first minute. If it lasts: on a volume, the previous pod's process "
        "still runs on its node: end it, or repair the node. In an object store, look for a stream "
        "of the same namespace and name with this location, such as in another cluster, and "
        "suspend one of the two. Never delete penstock/lock or penstock/owner.",
        PODS,
    ),
    Remedy(
        "DriverNodeUnreachable",
        "The node of the driver's pod does not confirm that it ended, so Kubernetes starts "
        "no other.",
        "Repair the node; or, if it is shut down for good, taint it: the message has the command.",
        "kubectl get nodes",
    ),
    Remedy(
        "FailedCreate",
        "A quota, a LimitRange or Pod Security refuses the pod.",
        "Raise the quota, or ask for less in the spec: the message quotes the API server.",
        "kubectl describe resourcequotas,limitranges -n {namespace}",
    ),
    Remedy(
        "Unschedulable SchedulingGated",
        "No node can take the pod: the message quotes the scheduler.",
        "Make room in the cluster, or correct requests, node selector and tolerations.",
        PODS,
    ),
    Remedy(
        "ImagePullBackOff ErrImagePull InvalidImageName ErrImageNeverPull ImageInspectError",
        "A node cannot pull the image: the message quotes the kubelet.",
        "Correct spec.image or imagePullSecrets, or push the image.",
        POD,
    ),
    Remedy(
        "CreateContainerConfigError CreateContainerError RunContainerError StartError",
        "The kubelet cannot start the container: the message says why.",
        "Correct what the message names: a Secret, a ConfigMap, the image's entry point.",
        POD,
    ),
    Remedy(
        "FailedMount FailedAttachVolume ProvisioningFailed FailedBinding",
        "The checkpoint's volume cannot be provisioned or mounted: the message quotes Kubernetes.",
        "Correct spec.checkpoint.volume (storageClassName, size), or repair the storage.",
        CLAIM,
    ),
    Remedy(
        "ClaimLost",
        "The volume of the checkpoint's claim is gone.",
        "Restore the volume from a snapshot, or delete the stream and the claim to start over.",
        CLAIM,
    ),
    Remedy(
        "StatusRefused",
        "Warning: the API server refused a part of the status: the CRD may be older than the "
        "operator.",
        "Apply the operator's own CRD; if that does not help, report it.",
        "penstock crd | kubectl apply --server-side -f -",
    ),
    Remedy(
        "StartingOffsetsIgnored",
        "Warning: where a stream starts was edited, and it has commits: it continues from those.",
        "To read from elsewhere, begin another checkpoint.generation (docs/how-to/rewind.md). "
        "Otherwise undo the edit.",
        EDIT,
    ),
    Remedy(
        "PythonInContinuousMode OptionIgnored PlainCredential NotJudged",
        "Warning: the stream runs.",
        "See the message.",
        EDIT,
    ),
    Remedy(
        "PythonInRealTimeMode",
        "Warning: the Python code may contain a UDF, and then Spark refuses the first batch.",
        "Use an expression of Spark instead, or another mode.",
        EDIT,
    ),
    Remedy(
        "CheckpointRepaired CheckpointFound",
        "An Event: the checkpoint was repaired, or is that of an earlier stream of this name.",
        f"{NOTHING}; after a repair with the cause Damage, check the volume, or who else writes to "
        "the location in the object store.",
        CLAIM,
    ),
)
