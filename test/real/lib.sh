# What up, down, reset and run share: where things are, and how to start and stop one of them by its process id.
# shellcheck shell=bash

# Where these scripts are; up uses it.
# shellcheck disable=SC2034
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# None of these begins with SYNCD_: syncd takes such variables for its settings.
work=$(realpath -m "${REAL_DIR:-${XDG_CACHE_HOME:-/tmp}/syncd-real}")
pg_port=${REAL_PG_PORT:-55432}
tryton_port=${REAL_TRYTON_PORT:-18000}
shop_port=${REAL_SHOP_PORT:-19100}

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# as_root runs a command that changes the machine (installing packages).
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# as_pg runs a PostgreSQL program. The server refuses to run as root, so root hands over to "postgres".
as_pg() {
  if [ "$(id -u)" = 0 ]; then (cd / && exec runuser -u postgres -- "$@"); else (cd / && "$@"); fi
}

# pg_bin prints the folder of the newest PostgreSQL programs, which Debian keeps out of PATH.
pg_bin() {
  local dir
  dir=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
  if [ -z "$dir" ]; then
    dir=$(dirname "$(command -v pg_ctl || die 'no PostgreSQL: apt-get install postgresql')")
  fi
  printf '%s\n' "$dir"
}

# sql runs one statement on the private server and prints bare rows: sql DATABASE STATEMENT
sql() {
  "$(pg_bin)/psql" -h 127.0.0.1 -p "$pg_port" -U postgres -X -q -A -t -v ON_ERROR_STOP=1 -d "$1" -c "$2"
}

has_database() { [ "$(sql postgres "SELECT 1 FROM pg_database WHERE datname = '$1'")" = 1 ]; }

drop_database() {
  if has_database "$1"; then sql postgres "DROP DATABASE $1 WITH (FORCE)"; fi
}

# copy_database makes a database as a copy of another, in place of one of that name: copy_database FROM TO
copy_database() {
  drop_database "$2"
  sql postgres "CREATE DATABASE $2 TEMPLATE $1"
}

# alive prints the process id in a pid file if that process runs and is still one of ours, which has our folder in its
# arguments: a process id is given to others later, and those are not ours to stop. alive PIDFILE
alive() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 1
  [ -n "$pid" ] && grep -qsF "$work/" "/proc/$pid/cmdline" || return 1
  printf '%s\n' "$pid"
}

# launch starts a server that outlives this script: launch NAME PORT COMMAND... (with a path in our folder among the arguments)
launch() {
  local name=$1 port=$2
  shift 2
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    die "port $port, which $name needs, is taken by something else"
  fi
  setsid nohup "$@" >>"$work/$name.log" 2>&1 </dev/null &
  printf '%s\n' $! >"$work/$name.pid"
}

# halt stops what launch started and waits until it is gone: halt NAME
halt() {
  local pid tries=0
  if ! pid=$(alive "$work/$1.pid"); then
    rm -f "$work/$1.pid"
    return 0
  fi
  kill "$pid"
  while kill -0 "$pid" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" = 100 ] && kill -9 "$pid"
    [ "$tries" -lt 150 ] || die "$1 (process $pid) does not stop"
    sleep 0.1
  done
  rm -f "$work/$1.pid"
}

# answers waits until an HTTP server accepts connections, as long as its process lives: answers NAME PORT SECONDS
answers() {
  local end=$((SECONDS + $3))
  until (exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
    kill -0 "$(cat "$work/$1.pid")" 2>/dev/null || die "$1 ended; the end of $work/$1.log: $(tail -n 5 "$work/$1.log")"
    [ "$SECONDS" -lt "$end" ] || die "$1 does not listen on port $2 after $3 s; see $work/$1.log"
    sleep 0.2
  done
}

pg_running() { as_pg "$(pg_bin)/pg_ctl" -D "$work/pg" status >/dev/null 2>&1; }

pg_start() {
  pg_running && return 0
  as_pg "$(pg_bin)/pg_ctl" -D "$work/pg" -l "$work/pg/server.log" -w -t 60 \
    -o "-p $pg_port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200" start >/dev/null ||
    die "PostgreSQL does not start; see $work/pg/server.log"
}

# pg_stop stops the server: pg_stop fast|immediate
pg_stop() {
  pg_running || return 0
  as_pg "$(pg_bin)/pg_ctl" -D "$work/pg" -m "$1" -w -t 60 stop >/dev/null
}

tryton_start() {
  alive "$work/trytond.pid" >/dev/null && return 0
  launch trytond "$tryton_port" /usr/bin/python3 /usr/bin/trytond -c "$work/trytond.conf"
  answers trytond "$tryton_port" 60
}

shop_start() {
  alive "$work/vendure.pid" >/dev/null && return 0
  launch vendure "$shop_port" env SHOP_PORT="$shop_port" PG_PORT="$pg_port" SHOP_DATABASE=vendure NODE_ENV=production \
    VENDURE_DISABLE_TELEMETRY=true node "$work/vendure/server.js"
  answers vendure "$shop_port" 120
}
