#!/bin/sh
# driver [ARGUMENT...]: one query and its supervisor.
# executor: started by Spark's driver, which sets the environment variables below.
set -eu

if [ "${1:-}" = driver ]; then
  shift
  exec python3 -m penstock.driver "$@"
fi

if [ "${1:-}" != executor ]; then
  echo "This image runs 'driver' or 'executor', not '${1:-}'." >&2
  exit 64
fi

# spark.executor.extraJavaOptions, one option in each variable: SPARK_JAVA_OPT_0, _1, ...
set --
n=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$n+set}\" ]"; do
  eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$n\""
  n=$((n + 1))
done

# Spark's jars, then the others, as in the archive of classes (class_archive.py).
jars=/opt/venv/lib/python3.13/site-packages/pyspark/jars
class_path=
for jar in "$jars"/spark-*.jar; do class_path="$class_path:$jar"; done
for jar in "$jars"/*.jar; do
  case ${jar##*/} in spark-*) ;; *) class_path="$class_path:$jar" ;; esac
done

# spark.master: only on Kubernetes does Spark read the secret of its RPC from a file, and an executor
# asks its driver for the configuration, spark.master included, over this RPC.
# shellcheck disable=SC2086 # several options
exec java @/opt/spark/java-options ${PENSTOCK_JAVA_OPTIONS:-} "$@" \
  -Dspark.master=k8s:// "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${class_path#:}" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
