#!/bin/sh
# What a pod of Ridgeline's image runs. Spark starts executors with the word `executor`, and says by variables
# what they are. All other words are those of the command `ridgeline`.
set -eu

SPARK_HOME=${SPARK_HOME:-/opt/spark}
if [ "${1:-}" != executor ]; then
    exec "${RIDGELINE_COMMAND:-/opt/ridgeline/bin/ridgeline}" "$@"
fi

if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; else java=java; fi
# Options of Java are in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 and so on; one of them may have spaces.
set --
number=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$number+there}\" ]"; do
    eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
    number=$((number + 1))
done
class_path="${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*"
if [ -n "${SPARK_CONF_DIR:-}" ]; then class_path="$SPARK_CONF_DIR:$class_path"; fi
exec "$java" "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$class_path" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
