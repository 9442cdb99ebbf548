# mysql-image.sh LOGS: makes the MySQL image of the tests, which carries a data directory, unless
# it is there from an earlier run, and writes its name to LOGS/mysql-image.
set -euo pipefail

logs=$1
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
base=${POOL_TESTS_MYSQL_IMAGE:-mysql:8.4}
debian_base=pool-tests/mysql-base:debian-sid
root='' container=''
as_root=(env)
[ "$(id -u)" -eq 0 ] || as_root=(sudo env)

clean_up() {
    [ -z "$root" ] || "${as_root[@]}" rm -rf --one-file-system "$root"
    [ -z "$container" ] || docker rm -f "$container" >/dev/null
}
trap clean_up EXIT

exists() { docker image inspect "$1" >/dev/null 2>&1; }

# A registry that cannot be reached must not cost more than a moment.
pull() {
    timeout 20 docker manifest inspect "$1" >/dev/null 2>&1 && timeout 600 docker pull "$1"
}

# The mirror and the proxy that this machine uses for its own packages.
mirror() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        awk -F'|' '$1 == "Debian" && $2 == "Debian" && !found { print $3; found = 1 }'
}
proxy() {
    apt-config dump --format '%v%n' Acquire::http::Proxy
}

debian_image() {
    local http_proxy_of_apt
    http_proxy_of_apt=$(proxy)
    [ -z "$http_proxy_of_apt" ] || as_root+=("http_proxy=$http_proxy_of_apt")
    # Not /tmp, which may be small or mounted without devices. A directory inside, because the
    # outer one is closed to everybody else, and the mode of / goes into the image.
    root=$(mktemp -d /var/tmp/pool-tests-debian.XXXXXX)
    echo "installing Debian's MySQL server into an image, log in $logs/debootstrap.log"
    # shellcheck disable=SC2046 # No mirror is no argument.
    if ! "${as_root[@]}" debootstrap --variant=minbase \
        --include=mysql-server-core,mysql-client-core sid "$root/system" $(mirror) \
        >"$logs/debootstrap.log" 2>&1; then
        tail -n 20 "$logs/debootstrap.log" >&2
        return 1
    fi
    "${as_root[@]}" tar -C "$root/system" -c --exclude=./dev --exclude=./proc --exclude=./sys \
        --exclude=./var/cache/apt --exclude=./var/lib/apt/lists --exclude=./usr/share/doc \
        --exclude=./usr/share/locale --exclude=./usr/share/man . |
        docker import - "$debian_base" >/dev/null
}

if exists "$base"; then
    echo "MySQL from $base"
elif pull "$base"; then
    echo "MySQL from $base, pulled"
elif [ -n "${POOL_TESTS_MYSQL_IMAGE:-}" ]; then
    echo "$base is not here and cannot be pulled" >&2
    exit 1
else
    echo "$base cannot be pulled: MySQL from Debian's packages instead"
    base=$debian_base
    exists "$base" || debian_image
fi

# The tag changes with everything that the data directory depends on.
id=$(docker image inspect --format '{{.Id}}' "$base")
tag=$( (echo "$id"; cat "$here/mysql-server.sh") | sha256sum | cut -c 1-16)
image=pool-tests/mysql:$tag
if exists "$image"; then
    echo "$image is there already"
else
    echo "making $image"
    container=pool-tests-prepare-$$
    if ! docker run --name "$container" --user 0 --entrypoint /bin/sh "$base" \
        -c "$(cat "$here/mysql-server.sh")" >"$logs/mysql-initialize.log" 2>&1; then
        tail -n 20 "$logs/mysql-initialize.log" >&2
        exit 1
    fi
    docker commit "$container" "$image" >/dev/null
fi
# For programs that run without tests/run and its environment.
docker tag "$image" pool-tests/mysql:latest
docker run --rm --network none --entrypoint mysqld "$image" --version
echo "$image" >"$logs/mysql-image"
