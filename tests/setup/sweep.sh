# Removes what test processes that no longer exist have left behind: containers, networks, and
# directories with their ids in the name.
set -euo pipefail

orphans() {
    local id pid
    while read -r id pid; do
        if [ -n "$pid" ] && [ ! -e "/proc/$pid" ]; then
            echo "$id"
        fi
    done
}

label=pool-tests.pid
containers=$(docker ps -a --filter "label=$label" --format "{{.ID}} {{.Label \"$label\"}}" | orphans)
if [ -n "$containers" ]; then
    echo "removing containers: ${containers//$'\n'/ }"
    # shellcheck disable=SC2086 # One argument each.
    docker rm -f -v $containers >/dev/null
fi
networks=$(docker network ls --filter "label=$label" --format "{{.Name}} {{.Label \"$label\"}}" | orphans)
if [ -n "$networks" ]; then
    echo "removing networks: ${networks//$'\n'/ }"
    # shellcheck disable=SC2086 # One argument each.
    docker network rm $networks >/dev/null
fi
for directory in "${TMPDIR:-/tmp}"/pool-tests-*; do
    # pool-tests-PID-… and pool-tests-mariadb-PID-…
    pid=${directory##*/pool-tests-}
    pid=${pid#mariadb-}
    pid=${pid%%-*}
    case $pid in
        '' | *[!0-9]*) continue ;;
    esac
    if [ -d "$directory" ] && [ ! -e "/proc/$pid" ]; then
        # Another user's stays.
        rm -rf "$directory" 2>/dev/null || true
    fi
done
