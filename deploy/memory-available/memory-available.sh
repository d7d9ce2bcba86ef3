#!/bin/sh
# Measures the memory.available of this node, which the kubelet compares with its eviction threshold (cgroup v1 and v2):
#
#     memory.available = MemTotal - working set,   working set = usage - inactive_file (not below 0)
#
#     memory-available.sh                      prints it in Prometheus' text format
#     memory-available.sh --textfile DIR       writes DIR/memory_available.prom, for node-exporter's textfile collector
#     memory-available.sh --push URL           pushes it to a Pushgateway; the labeller queries it by default
#
# The time of measuring is a second metric, so that the last value of a script that no longer runs is not used for ever: a
# Pushgateway accepts no timestamps, and the time of a scrape says nothing about when the value was pushed or written.
#
# Run it about every 15 s on each node: by a systemd timer, or by the DaemonSet beside this file. The value is in MiB, with the metric name and job of
# dynamic-Scheduler's script, so that existing rules keep working. NODE_NAME is the node's name; default: the host name.
# HOST_ROOT is the path of the host's / when this runs in a container.
set -eu

root=${HOST_ROOT:-}
node=${NODE_NAME:-$(hostname)}
cgroup=$root/sys/fs/cgroup
meminfo=$root/proc/meminfo

fail() {
    echo "memory-available: $1" >&2
    exit 1
}

# A value of meminfo, in bytes.
info() {
    awk -v name="$1:" '$1 == name { printf "%.0f", $2 * 1024; found = 1 } END { exit !found }' "$meminfo" ||
        fail "no $1 in $meminfo"
}

# A value of memory.stat.
stat() {
    awk -v name="$2" '$1 == name { print $2; found = 1 } END { exit !found }' "$1" || fail "no $2 in $1"
}

[ -r "$meminfo" ] || fail "$meminfo cannot be read: is HOST_ROOT right?"
total=$(info MemTotal)

if [ -r "$cgroup/memory/memory.usage_in_bytes" ]; then # v1
    usage=$(cat "$cgroup/memory/memory.usage_in_bytes")
    idle=$(stat "$cgroup/memory/memory.stat" total_inactive_file)
elif [ -r "$cgroup/cgroup.controllers" ]; then # v2
    [ -r "$cgroup/memory.stat" ] || fail "$cgroup/memory.stat cannot be read: is the memory controller enabled?"
    idle=$(stat "$cgroup/memory.stat" inactive_file)
    if [ -r "$cgroup/memory.current" ]; then
        usage=$(cat "$cgroup/memory.current")
    else # a host's root cgroup has no memory.current: the kubelet uses MemTotal - MemFree
        free=$(info MemFree) # a separate assignment, so that its failure ends the script
        usage=$(awk -v total="$total" -v free="$free" 'BEGIN { printf "%.0f", total - free }')
    fi
else
    fail "$cgroup has neither cgroup v1 nor v2: is HOST_ROOT right?"
fi

measured=$(date +%s)
available=$(awk -v total="$total" -v usage="$usage" -v idle="$idle" 'BEGIN {
    working = usage > idle ? usage - idle : 0
    printf "%d", (total - working) / 1048576
}')

metric() {
    echo "# HELP k8_node_cgroups_mem_available The kubelet's memory.available, in MiB."
    echo "# TYPE k8_node_cgroups_mem_available gauge"
    echo "k8_node_cgroups_mem_available{node=\"$node\"} $available"
    echo "# HELP k8_node_cgroups_mem_available_timestamp_seconds When it was measured, in seconds since 1970."
    echo "# TYPE k8_node_cgroups_mem_available_timestamp_seconds gauge"
    echo "k8_node_cgroups_mem_available_timestamp_seconds{node=\"$node\"} $measured"
}

case ${1:-} in
"") metric ;;
--textfile)
    file=${2:?a directory is missing}/memory_available.prom
    metric >"$file.$$" && mv "$file.$$" "$file" # atomic
    ;;
--push)
    metric | curl --fail --silent --show-error --max-time 10 --data-binary @- \
        "${2:?an address is missing}/metrics/job/CollectK8sCgroupsMem/instance/$node"
    ;;
*) fail "unknown argument $1: use --textfile DIR or --push URL" ;;
esac
