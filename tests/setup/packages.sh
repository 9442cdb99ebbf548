# packages.sh LOGS GROUP...: installs the Debian packages that are missing. Groups: build, servers.
set -euo pipefail

log=$1/packages.log
shift
missing=()

# want PACKAGE COMMAND...: unless every command is there already, however it was installed.
want() {
    local package=$1 command
    shift
    for command in "$@"; do
        command -v "$command" >/dev/null || { missing+=("$package"); return 0; }
    done
}

for group in "$@"; do
    case $group in
        build)
            want build-essential cc make
            want pkg-config pkg-config
            [ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
            ;;
        servers)
            # A client alone is no daemon. Later Debians have the client in a package of its own.
            want docker.io dockerd
            if ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then
                missing+=(docker-cli)
            fi
            want debootstrap debootstrap
            # Without the service of mariadb-server, which would start a server of the machine.
            want mariadb-server-core "${POOL_TESTS_MARIADBD:-mariadbd}" mariadb-install-db
            # mariadb-install-db calls it.
            want mariadb-client-core my_print_defaults
            [ "$(id -u)" -eq 0 ] || want acl setfacl
            ;;
        *)
            echo "no such group: $group" >&2
            exit 2
            ;;
    esac
done

if [ "${#missing[@]}" -eq 0 ]; then
    echo "nothing is missing"
    exit 0
fi
echo "missing: ${missing[*]}"
command -v apt-get >/dev/null || { echo "no apt-get here: install them by hand" >&2; exit 1; }
as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "needs root or sudo to install packages" >&2; exit 1; }
    as_root=(sudo "${as_root[@]}")
fi
# A source of the machine that does not answer need not be one that has these packages.
"${as_root[@]}" apt-get update -qq || echo "apt-get update failed; going on with the lists there are"
echo "installing, log in $log"
if ! "${as_root[@]}" apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 \
    "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    exit 1
fi
