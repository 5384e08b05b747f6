#!/bin/sh
# Start the broker. INTERNAL_ADDRESS and EXTERNAL_ADDRESS are how clients in the cluster and on the
# machine reach it; DATA is kept as long as the volume is.
set -eu
DATA=${DATA:-/data}
mkdir -p "$DATA/config"
properties=$DATA/config/server.properties
{
  cat /opt/kafka/server.properties
  echo "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
  echo "listeners=INTERNAL://:9092,EXTERNAL://:9094,CONTROLLER://127.0.0.1:9093"
  echo "advertised.listeners=INTERNAL://$INTERNAL_ADDRESS,EXTERNAL://$EXTERNAL_ADDRESS"
  echo "controller.quorum.voters=1@127.0.0.1:9093"
  echo "log.dirs=$DATA/log"
} > "$properties"

set -- "-Xmx${HEAP:-384m}" -XX:+UseSerialGC \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info \
  -cp "/opt/kafka/jars/*"
java "$@" kafka.tools.StorageTool format --ignore-formatted \
  -t penstockTestKafkaAAAAA -c "$properties" >&2
exec java "$@" kafka.Kafka "$properties"
