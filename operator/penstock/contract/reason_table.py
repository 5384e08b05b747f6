"""The rows of docs/reasons.md: what each reason means, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = "Nothing"
# A new stream begins at startingOffsets, by default with the newest records.
APPLY_ELSEWHERE = (
    "note status.committedOffsets, delete the stream, and apply it with these offsets as "
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
        "An earlier spec runs and is Ready. The newest spec was refused, or could not be "
        "applied yet.",
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
        "Reconciling: the running driver asks Spark whether it accepts the edited spec.",
        "Wait: it takes half a minute at most.",
        "kubectl describe cstream {name} -n {namespace}",
    ),
    Remedy(
        "ApplyingEdit",
        "Reconciling: the running driver stops its query after a commit and starts the edited "
        "query. If that takes longer than a minute, the operator replaces the pod.",
        "Wait: it takes two minutes at most.",
        "kubectl describe cstream {name} -n {namespace}",
    ),
    Remedy(
        "RolledBack",
        "Stalled: the newest spec, or a new default image, failed for good, or was not Ready "
        "within rollout.deadline. The last spec that was Ready runs instead, on the same "
        "checkpoint. The message says what failed.",
        "Correct the spec. To retry the same spec, set spec.restartedAt. If a default image "
        "does not run, tell whoever installed the operator, or name another image in "
        "spec.image.",
        "penstock history {name} -n {namespace}",
    ),
    Remedy(
        "ImageRolloutStopped",
        "An event: this stream and others did not become Ready with a new default image, so no "
        "other stream gets it. This stream runs with its previous image, and tries the new "
        "image once more after six hours.",
        "Find out why the stream did not run with the image. If the image is the cause, whoever "
        "installed the operator corrects sparkImage. If the stream is the cause, correct its "
        "spec.",
        "penstock history {name} -n {namespace}",
    ),
    Remedy(
        "DriverStarting DriverStopping RollingOut QueryStarting QueryRestarting "
        "WaitingForFirstEpoch WaitingForDeletion NoDriverPod",
        "The stream is on its way to Running: QueryStarting, WaitingForCores, QueryStarting "
        "once more when it has its cores, WaitingForFirstEpoch. Meanwhile the driver's pod is "
        "not ready, so its events hold a Warning of the kubelet, Unhealthy: the readiness probe "
        "failed with 503.",
        "Wait for two minutes. If it lasts longer, see the events of the driver's pod.",
        POD,
    ),
    Remedy(
        "DriverNotReady",
        "The query runs but makes no progress, or its driver does not answer the probe.",
        "See the driver's log: it says whether the query or the driver waits, and for what.",
        LOGS,
    ),
    Remedy(
        "WaitingForCores",
        "Fewer cores are registered than the source has partitions; in real-time mode those of the "
        "state count too. In continuous and real-time mode Spark would never read some partitions, "
        "so the query waits. A micro-batch starts after a minute with the cores that it has.",
        "Make room in the cluster, or lower executor.resources.requests. Executors of a query with "
        "state need room on the driver's node, unless the checkpoint is in an object store.",
        PODS,
    ),
    Remedy(
        "FewStatePartitions",
        "The query's state has fewer partitions than the stream has cores, because a checkpoint "
        "keeps its first number of them.",
        f"{NOTHING}, unless batches take too long: then set checkpoint.statePartitions to the "
        "number of cores or more. The query pauses while Spark divides the state.",
    ),
    Remedy(
        "InvalidSpec InvalidPattern InvalidPodTemplate NullField NotOneSelect "
        "UnsupportedOperation UnknownColumn InvalidSql SinkColumns SinkRouting "
        "BadRecordsVanish SinkFeedsSource SpecTooLarge QueryTooLarge MemorySinkInCluster "
        "DataSourceUnusable KafkaAsDataSource DependencyDoubtful StartsAtLatest CommentedOut",
        "Stalled: the spec cannot run. If the operator found the error, the last valid spec "
        "keeps running, and Ready stays True while it does. As a warning: the stream runs, but "
        "probably not as intended.",
        "Correct what the message names in the spec.",
        EDIT,
    ),
    Remedy(
        "TooFewExecutorsAllowed",
        "executor.maxInstances allows fewer cores than the source has partitions (in real-time "
        "mode with those of the state), which continuous and real-time mode need. Stalled. If the "
        "partitions were added later, the stream runs and reads only the earlier ones. "
        "Micro-batches run on the cores that are allowed.",
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
        "operator retries within a minute. An earlier spec keeps running and stays Ready.",
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
        "Stalled: an object with a name that the stream needs belongs to somebody else. The "
        "operator does not touch it.",
        "Delete or rename that object, or set checkpoint.volume.adopt for a volume claim.",
        "kubectl get -n {namespace} "
        "statefulsets,pvc,configmaps,serviceaccounts,roles,rolebindings,networkpolicies",
    ),
    Remedy(
        "ChangedByOthers",
        "Reconciling: another client keeps changing an object of the stream. The operator "
        "restores the object less and less often.",
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
        "The output topic requires more replicas in sync than it has, so it accepts no record "
        "from a producer that waits for all replicas. The driver checks every half minute.",
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
        "The brokers reject the credentials, or the TLS handshake fails. The driver reads the "
        "Secret anew every half minute.",
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
        "The next records are gone from Kafka (retention, or the topic was recreated). To "
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
        "Only a report: the driver has copied a record that the query cannot process to the "
        "dead-letter topic.",
        "Run the record through the query (penstock replay), correct the transform, and then "
        "read the dead-letter topic (docs/how-to/dead-letters.md).",
    ),
    Remedy(
        "DeadLetterNotWritten",
        "Two runs have failed over a record, and the dead-letter topic does not accept its "
        "copy. No query runs until it does, because it would fail over the same record and "
        "write others twice.",
        "Make the dead-letter topic accept the record. It has to exist, with enough replicas in "
        "sync, and the source's user needs Write on it. Its max.message.bytes has to be as "
        "large as that of the source's topic. If a record has no key, its cleanup.policy has to "
        "be delete. Then the driver copies the record by itself.",
        LOGS,
    ),
    Remedy(
        "MalformedRecordInParsing",
        "A record does not match the schema of from_json, whose mode is FAILFAST. The message "
        "names the field and the types. Every restart reads the same record.",
        "Correct the record's producer, or the schema (STRING takes any value), or set "
        "deadLetters.",
        EDIT,
    ),
    Remedy(
        "TooManyDeadLetters",
        "More records failed within a minute, or one after the other, than "
        "deadLetters.maxPerMinute allows, so no more become dead letters. The stream stops. If "
        "it has ever committed, the driver retries within five minutes.",
        "Correct the transform, or raise spec.source.kafka.deadLetters.maxPerMinute if that "
        "many records really are bad. Either edit resumes dead letters.",
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
        "The spec asks for dead letters, but the query does not process one record after another.",
        "Remove deadLetters, or write the query with Spark's own expressions, a Java function "
        "and a Kafka sink.",
        EDIT,
    ),
    Remedy(
        "CheckpointFull",
        "The checkpoint's volume is full. The query is stopped. The driver rechecks every two "
        "seconds. After five minutes it releases the executors and rechecks every half minute.",
        "Raise spec.checkpoint.volume.size, or delete files that are not the stream's.",
        EDIT,
    ),
    Remedy(
        "CheckpointNotAccessible",
        "The checkpoint cannot be read, written or locked. The query is stopped. The driver "
        "rechecks every two seconds. After five minutes it releases the executors and rechecks "
        "every half minute.",
        "Check the volume: who owns its files, whether it is read-only, whether it supports locks.",
        CLAIM,
    ),
    Remedy(
        "CheckpointElsewhere",
        "Stalled: the spec names another location for the checkpoint. Penstock cannot move one. "
        "The earlier spec keeps running.",
        f"Correct spec.checkpoint. For another place, {APPLY_ELSEWHERE}.",
        EDIT,
    ),
    Remedy(
        "CheckpointMissing",
        "Stalled: the volume claim with the stream's progress is gone, or its location in the "
        "object store is empty or another one.",
        f"Restore what the message names. Or {HIGHER_GENERATION}. Note these offsets before you "
        "delete the stream, because a new stream begins at startingOffsets. If it has never been "
        "Ready, delete it and apply it anew.",
        CLAIMS,
    ),
    Remedy(
        "ObjectStoreNotAccessible",
        "The checkpoint's object store does not answer, or only with errors: it is unreachable, "
        "overloaded, or refuses a connection. The driver retries.",
        f"{NOTHING} if the outage is short. If it lasts, check checkpoint.objectStore.endpoint and "
        "region, the store, the name server, and the network policies of the stream's pods.",
        LOGS,
    ),
    Remedy(
        "BucketNotFound",
        "The bucket of checkpoint.objectStore.location does not exist in the store. The driver "
        "keeps looking for it.",
        "Create the bucket, or correct endpoint and region; for another location, "
        f"{APPLY_ELSEWHERE}.",
        SHOW,
    ),
    Remedy(
        "ObjectStoreDenied",
        "The object store does not know the keys or the role of the stream's pods, or does not "
        "allow them what a checkpoint needs. The driver retries.",
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
        "Another driver has taken the checkpoint over. This driver writes nothing more, and ends.",
        f"{NOTHING} if the driver's pod was replaced. If it recurs, look for a stream of the same "
        "namespace and name with the same checkpoint.objectStore.location, such as in another "
        "cluster.",
        PODS,
    ),
    Remedy(
        "CheckpointDamaged",
        "Stalled: a file of the checkpoint is missing or broken, and without it nothing shows how "
        "far the stream had come (checkpoints.md).",
        "Restore the checkpoint, or begin another checkpoint.generation at the offsets in "
        "status.committedOffsets. Look for what has damaged it: a disk, another program, a rule of "
        "the bucket.",
        CLAIM,
    ),
    Remedy(
        "CheckpointHoldsState CheckpointHoldsNoState CheckpointOfAnotherMode "
        "CheckpointOfOtherReads",
        "Stalled: this query or trigger cannot continue the checkpoint, which another query or "
        "trigger has written (checkpoints.md).",
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
        "This generation of the checkpoint began elsewhere than checkpoint.startFrom says. It "
        "continues from its last commit.",
        "To begin elsewhere, choose a checkpoint.generation that was never used. To continue, "
        "leave the spec as it is, or restore the earlier startFrom.",
        EDIT,
    ),
    Remedy(
        "CheckpointTerminating",
        "Kubernetes deletes the volume claim once the driver's pod ends.",
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
        "Spark, Kafka or your code refuses what the spec says. Stalled, or Restarting if a "
        "record may be the cause.",
        "Correct the spec or your code. If you corrected something outside the spec, restart the "
        "stream (restartedAt).",
        EDIT,
    ),
    Remedy(
        "PythonDataSourceError",
        "A data source in Python raised an exception when Spark asked for its columns or for a "
        "reader. Restarting; Stalled if its code is at fault.",
        "The message names file, line and function. If a server is away, or refuses a password, "
        "the stream starts by itself when that is over.",
        LOGS,
    ),
    Remedy(
        "PythonSinkFailed",
        "The function of sink.python raised an exception over a batch. Restarting; the batch comes "
        "again. Stalled if the code is at fault and the stream has committed nothing yet.",
        "The message names the exception's class, the line of the function, and where it was "
        "raised. The text of the exception is not shown, because it may quote a row: log in the "
        "function what you need. If a server is away, the stream goes on by itself once it is "
        "back.",
        LOGS,
    ),
    Remedy(
        "ImageNotUsable",
        "The image lacks penstock-kafka.jar or Spark's Kafka connector, or has them for another "
        "version of Spark. Nothing is planned, read or written.",
        'Build the image from Penstock\'s (docs/python.md, "Python packages", has an example), or '
        "copy all jars of its /opt/spark/jars that begin with penstock-kafka, spark-sql-kafka, "
        "spark-token-provider-kafka, kafka-clients and commons-pool2. In a checkout, run make "
        "data-source.",
        SHOW,
    ),
    Remedy(
        "ClassNotUsable",
        "Java code needs a class or a method that is missing or has another version. The "
        "message names it if the JVM does. Stalled, or Restarting if the stream has run.",
        "Build the jar for the versions of Spark, Scala and the libraries that the image has, or "
        "put what is missing into the image or into spec.dependencies.",
        SHOW,
    ),
    Remedy(
        "ModuleMissing",
        "Python on the executors cannot import a module. The message names it, unless the name "
        "may come from a record. Stalled, or Restarting if the stream has run.",
        "Put the module into the image that spec.image names.",
        SHOW,
    ),
    Remedy(
        "PythonWorkerDied",
        "A Python process of a task ended without an exception: it was killed for its memory, "
        "or native code crashed.",
        "Give the driver, or the executors if there are some, more memory (resources, "
        "memoryOverhead), or correct the native code that your function calls.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "SchemaUnknown",
        "The schema registry does not know the schema that a record names: the record comes "
        "from another registry, or has another format. Every restart reads the same record.",
        "Filter the record, or register its schema under its id.",
        EDIT,
    ),
    Remedy(
        "Serialization",
        "A record could not be read or written. Every restart reads the same record.",
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
        "compacted topic needs. Every restart reads the same record.",
        "Correct the columns topic, partition and key that the transform writes (leave "
        "partition out if nothing needs it), or create the topic.",
        EDIT,
    ),
    Remedy(
        "ClocksDiffer",
        "Kafka rejects the records' timestamps: the clock of an executor's node differs from "
        "the broker's by more than the topic's message.timestamp.before.max.ms or after.max.ms.",
        "Synchronize the clocks of the nodes and the brokers, or set message.timestamp.type of the "
        "output topic to LogAppendTime.",
        LOGS,
    ),
    Remedy(
        "BrokerUnreachable",
        "No answer from Kafka, or its brokers' names do not resolve.",
        f"{NOTHING} if the outage is short: the stream continues when the brokers answer. If it "
        "lasts, check the brokers, the name server and the network policies.",
        INSIDE,
    ),
    Remedy(
        "DatabaseNotAvailable",
        "The database of spec.sink.jdbc does not answer, takes no more connections, is read-only "
        "or out of space, or somebody holds a lock on the table. What was not committed is "
        "written again.",
        f"{NOTHING} if it is short: the stream continues when the database takes a batch. If it "
        "lasts, check the database, its locks and the network policies.",
        LOGS,
    ),
    Remedy(
        "DatabaseIsOlder",
        "The database of spec.sink.jdbc has lost batches that it had: it was restored, or a "
        "standby without the newest commits has become the primary. Penstock writes nothing, "
        "because the batches in between would be missing.",
        "Restore what it has lost, or begin another checkpoint.generation at offsets from before "
        "(docs/how-to/rewind.md).",
        EDIT,
    ),
    Remedy(
        "DatabaseAuthentication",
        "The database rejects the user or the password, or needs TLS. The driver reads the Secret "
        "anew every half minute.",
        "Correct the Secret of sink.jdbc.credentialsSecret, or the server's pg_hba.conf.",
        SHOW,
    ),
    Remedy(
        "DatabaseAuthorization",
        "The user of spec.sink.jdbc lacks a right. The driver checks every half minute.",
        "Grant the right that the message names.",
        SHOW,
    ),
    Remedy(
        "TableMissing",
        "The database, the schema or the table of spec.sink.jdbc does not exist. The driver checks "
        "every half minute.",
        "Create it, or correct its name.",
        SHOW,
    ),
    Remedy(
        "TableTakenOver",
        "A driver with another copy of this checkpoint has written the table of spec.sink.jdbc. "
        "This one writes nothing: it would skip records, or write them again.",
        "Find the other driver and decide which copy goes on. For this one, begin another "
        "checkpoint.generation at the offsets that you choose (docs/how-to/rewind.md).",
        LOGS,
    ),
    Remedy(
        "RowNotWritable",
        "The table of spec.sink.jdbc refuses a row: a value does not fit its column, or a "
        "constraint does not hold. Every restart reads the same records.",
        "Filter or correct such rows in the transform, or change the table: the message has the "
        "column or the constraint.",
        EDIT,
    ),
    Remedy(
        "PartitionsNotRead",
        "Some partitions have records that the query does not read, although its epochs commit. "
        "The driver restarts Spark with new executors, each time after a longer wait.",
        "Check the network, the name server and the network policies between the nodes of the "
        "executors and the brokers that lead these partitions.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "HostUnknown ConnectionFailed TlsFailed SchemaRegistryFailed",
        "A service that your code calls does not answer, or answers with an error.",
        "If it lasts, check that service.",
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
        "The Kubernetes API server does not answer the driver, refuses a request, or still has "
        "executors of an earlier process. The driver retries.",
        "If it lasts, check the API server, the rights of the driver's ServiceAccount, or the "
        "nodes of its executors.",
        "kubectl auth can-i --list -n {namespace} "
        "--as=system:serviceaccount:{namespace}:{name}-driver",
    ),
    Remedy(
        "ApiServerUnauthorized",
        "The API server rejects the token of the driver's pod (401). A running query continues, "
        "but gets no new executors, and the driver cannot report.",
        "Delete the driver's pod: the next one gets a new token. If all pods are rejected, repair "
        "the API server's authentication.",
        "kubectl delete pod {name}-driver-0 -n {namespace}",
    ),
    Remedy(
        "ServiceAccountRecreated",
        "Somebody deleted the driver's ServiceAccount and created another one, which ends the "
        "token of its pod. The operator replaces the pod, once.",
        f"{NOTHING}. Find out who deleted the account.",
        "kubectl get serviceaccount {name}-driver -n {namespace} --show-managed-fields -o yaml",
    ),
    Remedy(
        "ServiceAccountMissing",
        "Warning: the ServiceAccount that spec.serviceAccountName names is gone. A running "
        "query continues, but gets no new executors.",
        "Create the account. The operator then replaces the pod.",
        "kubectl get serviceaccounts -n {namespace}",
    ),
    Remedy(
        "HeldByFinalizers",
        "An object of the stream was deleted, but a finalizer keeps it, so Penstock cannot "
        "create another one. As a Warning: the query continues.",
        "Ask whoever has set the finalizer to remove it. If nobody will, the message has the "
        "command.",
        PODS,
    ),
    Remedy(
        "NoProgress CommitsStuck TasksMissing",
        "The query makes no progress. The driver restarts it from its checkpoint.",
        "Find out in the log of driver and executors what the query waits for.",
        f"{LOGS} --executors",
    ),
    Remedy(
        "CoresLost ClockSetBack ExecutorLost TaskFailed "
        "QueryEnded SessionStopped OffsetOutOfRange TopicRecreated DriverHung DriverStartTimeout",
        "The query or the driver restarts from the checkpoint.",
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
        "The query, or a task of it in the driver's pod, did not stop in time. The process ends.",
        "Check the checkpoint's volume, or its object store: it may be slow. If the message is "
        "about a task, look for a function that never returns.",
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
        "the query reads nothing behind it, not even records of other producers, and the lag "
        "does not count them. The brokers abort it after the producer's transaction.timeout.ms; "
        "one that hangs (KIP-664) stays.",
        "If its producer is alive, wait, or let it commit more often. Otherwise find and abort the "
        "transaction with kafka-transactions.sh (find-hanging, describe-producers, abort): the "
        "message has the commands.",
        LOGS,
    ),
    Remedy(
        "ProducerFenced",
        "Kafka refuses what a task sends with delivery ExactlyOnce: another driver of the stream "
        "has taken its transactional ids over, or a transaction was open for longer than "
        "transaction.timeout.ms. The query continues with the offsets of the last transaction.",
        "If it recurs, look for a second driver with a copy of this checkpoint, or raise "
        "kafka.transaction.timeout.ms in sink.kafka.options.",
        LOGS,
    ),
    Remedy(
        "ExactlyOnceImpossible",
        "The stream writes exactly once (sink.kafka.delivery ExactlyOnce, or sink.jdbc), and that "
        "is not possible now. Penstock writes nothing, rather than at least once.",
        "Do what the message says. Kafka also takes delivery AtLeastOnce.",
        EDIT,
    ),
    Remedy(
        "ReplayDiffers",
        "Warning: a batch that was written exactly once ran again, and made other rows than those "
        "that it had written. The sink keeps those, and a query's state may be that of the others.",
        "If the query was edited while the batch was unfinished, that is why. Otherwise look for "
        "what depends on the order of records, on the time or on something outside: functions of "
        "your own, dropDuplicates with other columns, sums of DOUBLE. To compare, begin another "
        "checkpoint.generation with another topic or table.",
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
        "The driver's process or pod has ended. Another one starts.",
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
        "The node of the driver's pod does not confirm that the pod has ended, so Kubernetes "
        "starts no other pod.",
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
        "Warning: the API server refused a part of the status. The CRD may be older than the "
        "operator.",
        "Apply the operator's own CRD; if that does not help, report it.",
        "penstock crd | kubectl apply --server-side -f -",
    ),
    Remedy(
        "StartingOffsetsIgnored",
        "Warning: an edit changed where the stream starts, but the stream has commits. It "
        "continues from these.",
        "To read from elsewhere, begin another checkpoint.generation (docs/how-to/rewind.md). "
        "Otherwise undo the edit.",
        EDIT,
    ),
    Remedy(
        "PythonInContinuousMode OptionIgnored PlainCredential NotJudged BatchErrorIgnored",
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
        "An Event: the driver has repaired the checkpoint, or an earlier stream of this name "
        "has left it.",
        f"{NOTHING}.",
        CLAIM,
    ),
)
