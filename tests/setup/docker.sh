# docker.sh LOGS: makes sure that a container daemon answers this user.
set -euo pipefail

logs=$1
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

answers() { timeout 10 docker version --format '{{.Server.Version}}' 2>/dev/null; }

# A daemon that only root may talk to: let this user in, until the daemon's next start.
let_in() {
    [ "${#as_root[@]}" -gt 0 ] && [ -S /var/run/docker.sock ] || return 0
    sudo setfacl -m "u:$(id -un):rw" /var/run/docker.sock
}

wait_for_answer() {
    local deadline=$((SECONDS + $1))
    until answers; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.5
        let_in || true
    done
}

if wait_for_answer 0; then
    exit 0
fi
let_in
# One that the package has just started may need a moment.
pid=$(cat /var/run/docker.pid 2>/dev/null || true)
if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && wait_for_answer 30; then
    exit 0
fi

if [ -n "${DOCKER_HOST:-}" ]; then
    echo "the daemon at DOCKER_HOST does not answer" >&2
    exit 1
fi
# Without an init system nobody may have mounted these.
mountpoint -q /sys/fs/cgroup || "${as_root[@]}" mount -t cgroup2 cgroup2 /sys/fs/cgroup

echo "starting dockerd, log in $logs/dockerd.log"
"${as_root[@]}" setsid dockerd >"$logs/dockerd.log" 2>&1 </dev/null &
if ! wait_for_answer 60; then
    echo "dockerd does not answer; the end of its log:" >&2
    tail -n 20 "$logs/dockerd.log" >&2
    exit 1
fi
