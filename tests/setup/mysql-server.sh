# Runs inside a MySQL container, as root, under any POSIX shell. Makes the data directory unless the
# image already carries one, then becomes the server with the arguments it was given; without
# arguments it stops there, which is how the prepared image is made.
set -eu

data=/srv/mysql

if [ ! -d "$data" ]; then
    id mysql >/dev/null 2>&1 || {
        groupadd --system mysql
        useradd --system --gid mysql --no-create-home --home-dir /nonexistent --shell /bin/false mysql
    }
    # Made aside and renamed, so that an interrupted attempt is never taken for a data directory.
    rm -rf "$data.new"
    mkdir -p "$data.new"
    chown mysql:mysql "$data.new"
    cat >/tmp/users.sql <<'SQL'
CREATE USER 'pool'@'%' IDENTIFIED BY 'pool-pw';
GRANT ALL PRIVILEGES ON *.* TO 'pool'@'%' WITH GRANT OPTION;
CREATE USER 'admin'@'%' IDENTIFIED BY 'admin-pw';
GRANT ALL PRIVILEGES ON *.* TO 'admin'@'%' WITH GRANT OPTION;
CREATE USER 'repl'@'%' IDENTIFIED BY 'repl-pw';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
CREATE DATABASE test;
SQL
    mysqld --no-defaults --user=mysql --datadir="$data.new" --secure-file-priv= \
        --loose-innodb-numa-interleave=OFF --innodb-redo-log-capacity=64M \
        --initialize-insecure --init-file=/tmp/users.sql
    # The identity of a server: every container has to make its own.
    rm -f /tmp/users.sql "$data.new/auto.cnf"
    mv "$data.new" "$data"
fi

[ "$#" -gt 0 ] || exit 0

mkdir -p /run/mysqld
chown mysql:mysql /run/mysqld
exec mysqld --no-defaults --user=mysql --datadir="$data" --socket=/run/mysqld/mysqld.sock \
    --pid-file=/run/mysqld/mysqld.pid --secure-file-priv= --loose-mysqlx=OFF \
    --loose-innodb-numa-interleave=OFF --innodb-redo-log-capacity=64M "$@"
