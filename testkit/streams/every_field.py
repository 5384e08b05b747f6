"""Specs that together use every field of the resource."""

from __future__ import annotations

from typing import Any

REF = {"name": "credentials", "key": "k"}
CONNECTION: dict[str, Any] = {
    "bootstrapServers": "kafka.kafka:9092",
    "tls": {
        "caSecret": REF,
        "clientSecret": {"name": "own", "certKey": "user.crt", "keyKey": "user.key"},
    },
    "sasl": {"mechanism": "SCRAM-SHA-512", "username": "u", "passwordSecret": REF},
    "secretOptions": {"kafka.ssl.truststore.password": REF},
}
OPTIONS = {"options": {"kafka.client.dns.lookup": "use_all_dns_ips"}}
SOURCE: dict[str, Any] = {**CONNECTION, "includeHeaders": True}
BY_SECRET: dict[str, Any] = {
    "sasl": {
        "mechanism": "GSSAPI",
        "jaasConfigSecret": REF,
        "loginCallbackHandlerClass": "com.example.Login",
        "clientCallbackHandlerClass": "com.example.Client",
        "kerberosServiceName": "kafka",
    }
}
BY_TEXT: dict[str, Any] = {
    "sasl": {"mechanism": "AWS_MSK_IAM", "jaasConfig": "com.example.Module required;"}
}
POD: dict[str, Any] = {
    "resources": {
        "requests": {"cpu": "1.5", "memory": "1.5Gi"},
        "limits": {"cpu": 2, "memory": 1536 * 2**20},
    },
    "memoryOverhead": "512Mi",
    "javaOptions": ["-XX:+UseZGC"],
    "podTemplate": {
        "metadata": {"labels": {"team": "payments"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]},
    },
}
CONSOLE = {"console": {"numRows": 5, "truncate": False}}

WIDE: tuple[dict[str, Any], ...] = (
    {
        "className": "blue",
        "suspend": True,
        "observability": {"ui": True, "eventLog": "s3a://logs/spark", "logLevel": "INFO"},
        "restartedAt": "2026-11-22T07:00:00Z",
        "image": "penstock/spark:1",
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "own",
        "source": {
            "kafka": {
                **SOURCE,
                "topics": ["a", "b"],
                "startingOffsetsByPartition": {"a": {"0": 23, "1": -2}, "b": {"0": -1}},
                "failOnDataLoss": False,
                "consumerGroup": "fraud-flags",
                "deadLetters": {"topic": "bad", "maxPerMinute": 2},
                "options": {"kafka.fetch.max.wait.ms": "10"},
            }
        },
        "transform": {
            "sql": "SELECT key, f(value) AS value FROM source",
            "functions": [
                {
                    "name": "f",
                    "parameters": [{"name": "x", "type": "BINARY"}],
                    "returns": "STRING",
                    "expression": "CAST(x AS STRING)",
                }
            ],
            "javaFunctions": [{"name": "g", "className": "com.example.G", "returns": "BIGINT"}],
            "deterministic": True,
        },
        "sink": {
            "kafka": {**CONNECTION, "topic": "out", "options": {"kafka.compression.type": "lz4"}}
        },
        "trigger": {"continuous": {"checkpointInterval": "10 seconds"}},
        "outputMode": "append",
        "checkpoint": {
            "volume": {
                "size": "2Gi",
                "storageClassName": "fast",
                "reclaimPolicy": "Delete",
                "adopt": True,
            },
            "statePartitions": 16,
            "generation": 1,
            "startFrom": {"generation": 0},
        },
        "driver": POD,
        "executor": {**POD, "cores": 2, "minInstances": 1, "maxInstances": 8},
        "restart": {"maxAttempts": 5, "stableAfter": "1 minute 30 seconds"},
        "rollout": {"deadline": "3m", "rollback": "Auto"},
        "dependencies": {
            "jars": ["local:///opt/jars/netcat.jar"],
            "packages": ["org.apache.spark:spark-avro_2.13:4.2.0"],
        },
        "sparkConf": {"spark.sql.session.timeZone": "UTC"},
        "secretSparkConf": {"spark.hadoop.fs.loud.key": REF},
    },
    {
        "source": {"kafka": {**SOURCE, "topicPattern": "a-.*", "startingOffsets": "earliest"}},
        "transform": {
            "python": {"function": "m:f", "inline": "def f(frame):\n    return frame\n"},
            "watermark": {"column": "timestamp", "delay": "3 seconds"},
        },
        "sink": CONSOLE,
        "trigger": {"microBatch": {"interval": "0 seconds"}},
        "checkpoint": {"startFrom": {"offsets": "earliest"}},
    },
    {
        "kafka": {**CONNECTION, **OPTIONS},
        "source": {"kafka": {"assign": {"a": [0, 1]}, "options": {"kafka.fetch.min.bytes": "1"}}},
        "transform": {"python": {"function": "m:f", "configMap": REF}},
        "sink": {"kafka": {"topic": "out"}},
        "trigger": {"microBatch": {"asyncProgress": {"checkpointInterval": "2s"}}},
        "checkpoint": {"startFrom": {"offsetsByPartition": {"a": {"0": 1, "1": -1}}}},
    },
    {
        "kafka": {**CONNECTION, **BY_SECRET},
        "source": {"kafka": {**SOURCE, **BY_SECRET, "topics": ["a"]}},
        "transform": {"java": {"className": "com.example.Payments"}},
        "sink": {
            "kafka": {
                **CONNECTION,
                **BY_SECRET,
                "delivery": "ExactlyOnce",
                "transactionInterval": "50ms",
            }
        },
        "trigger": {"continuous": {"checkpointInterval": "1s"}},
        "checkpoint": {"startFrom": {"consumerGroup": "before"}},
    },
    {
        "kafka": {**CONNECTION, **BY_TEXT},
        "source": {"kafka": {**SOURCE, **BY_TEXT, "topics": ["a"]}},
        "sink": {"kafka": {**CONNECTION, **BY_TEXT}},
        "trigger": {"microBatch": {}},
        "checkpoint": {
            "objectStore": {
                "location": "s3a://checkpoints/production",
                "endpoint": "https://minio.example:9000",
                "region": "eu-central-1",
                "pathStyleAccess": True,
                "accessKeyIdSecret": {"name": "checkpoint-keys", "key": "id"},
                "secretAccessKeySecret": {"name": "checkpoint-keys", "key": "secret"},
            },
            "startFrom": {"timestamp": "2026-11-26T08:00:00.5+01:00"},
        },
    },
    {
        "source": {"kafka": {"bootstrapServers": "k:9092", "topics": ["a"]}},
        "queryName": "results",
        "sink": {"memory": {}},
        "trigger": {"realTime": {"batchDuration": "1 minute"}},
    },
    {
        "source": {"rate": {"rowsPerSecond": 5, "numPartitions": 2, "rampUpTime": "5s"}},
        "sink": {"noop": {}},
        "trigger": {"availableNow": {}},
        "ttlSecondsAfterFinished": 3600,
        "executor": {"mode": "Auto"},
    },
    {
        "source": {"rate": {}},
        "sink": {
            "jdbc": {
                "url": "jdbc:postgresql://db.shop:5432/shop",
                "credentialsSecret": {
                    "name": "login",
                    "usernameKey": "user",
                    "passwordKey": "pass",
                },
                "tls": {"caSecret": REF},
                "table": "public.numbers",
                "write": "Upsert",
                "keys": ["value"],
                "latestBy": "timestamp",
                "deleteWhen": "value < 0",
                "ledgerSchema": "own",
            }
        },
        "trigger": {"microBatch": {}},
    },
    {
        "source": {"rate": {}},
        "sink": {
            "python": {
                "function": "m:f",
                "inline": "def f(rows, batch):\n    pass\n",
                "options": {"url": "https://search.shop"},
                "secretOptions": {"password": REF},
            }
        },
        "trigger": {"microBatch": {}},
    },
    {
        "source": {"rate": {}},
        "sink": {"python": {"function": "m:f", "configMap": REF}},
        "trigger": {"availableNow": {}},
    },
    {
        "source": {"socket": {"host": "h", "port": 9999, "includeTimestamp": True}},
        "sink": {
            "custom": {
                "format": "com.example.Sink",
                "options": {"path": "/data"},
                "secretOptions": {"password": REF},
                "partitionBy": ["value"],
            }
        },
        "trigger": {"continuous": {"checkpointInterval": "1s"}},
    },
    {
        "source": {
            "custom": {
                "format": "com.example.Netcat",
                "options": {"port": "9999"},
                "secretOptions": {"password": REF},
                "schema": "line STRING",
                "numPartitions": 2,
            }
        },
        "sink": CONSOLE,
        "trigger": {"continuous": {"checkpointInterval": "1s"}},
    },
)
