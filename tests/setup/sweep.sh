# Removes what test processes that no longer exist have left behind: containers, networks, and the
# data directories of MariaDB servers.
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
    echo "removing containers:" $containers
    # shellcheck disable=SC2086 # One argument each.
    docker rm -f -v $containers >/dev/null
fi
networks=$(docker network ls --filter "label=$label" --format "{{.Name}} {{.Label \"$label\"}}" | orphans)
if [ -n "$networks" ]; then
    echo "removing networks:" $networks
    # shellcheck disable=SC2086 # One argument each.
    docker network rm $networks >/dev/null
fi
for directory in "${TMPDIR:-/tmp}"/pool-tests-mariadb-*; do
    pid=${directory##*/pool-tests-mariadb-}
    pid=${pid%%-*}
    if [ -d "$directory" ] && [ ! -e "/proc/$pid" ]; then
        echo "removing $directory"
        rm -rf "$directory"
    fi
done
