#!/usr/bin/env bash
# Builds the images, starts the containers, cuts the database off for 20 s, kills the broker meanwhile and once more
# afterwards, stops the database and kills the deliverer, and compares what Spark wrote with the database's table.
# Whatever happens, nothing is left behind.
#
#   make compose-test
#
# COMPOSE=…           the compose command ("docker compose" where there is one, else docker-compose)
# KEEP_IMAGES=1       keep the images for the next run
# OUTAGE_S=20         seconds without the database
# PATIENCE_S=600      seconds after which what is waited for is a failure: a busy machine takes minutes to start Spark
# DOCKER, BASE_IMAGE, BROKER_EXTRAS, DELIVER_EXTRAS, CA_BUNDLE, BUILD_NETWORK: see compose/build. Where BASE_IMAGE is not given and
# no registry has its default, compose/base makes one.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%(%H:%M:%S)T compose-test: %s\n' -1 "$*"; }
lack() { echo "compose-test: $*" >&2; exit 2; }

BROKER_MB_MAX=250 # of its image, without further extras

DOCKER=${DOCKER:-docker}
OUTAGE_S=${OUTAGE_S:-20}
PATIENCE_S=${PATIENCE_S:-600}
command -v "$DOCKER" >/dev/null || lack "$DOCKER was not found; install a container engine, or name its command with DOCKER."
"$DOCKER" version >/dev/null 2>&1 || lack "the container engine does not answer; start it (for example: systemctl start docker)."
if [ -z "${COMPOSE:-}" ]; then
    if "$DOCKER" compose version >/dev/null 2>&1; then
        COMPOSE="$DOCKER compose"
    else
        COMPOSE=$(command -v docker-compose) || lack "neither '$DOCKER compose' nor docker-compose was found; install one."
    fi
fi

# A name of its own: a stack that runs here already is not touched.
export COMPOSE_PROJECT_NAME="forebay-test-$$"
export FOREBAY_TAG="test-$$" FOREBAY_PORT=0 FOREBAY_CONSOLE_PORT=0 FOREBAY_METRICS_PORT=0 DOCKER
# Nor is anything of it started or reached: a profile would bring tools on ports of their own, an address their collector.
export COMPOSE_PROFILES="" OTEL_EXPORTER_OTLP_ENDPOINT=""
[ -z "${KEEP_IMAGES:-}" ] || export FOREBAY_TAG=test
images=(broker deliver spark db)
services=(broker db deliverer spark)
compose() { $COMPOSE -f compose/compose.yaml "$@"; }
container() { compose ps --all --quiet "$1"; }
is_there() { "$DOCKER" image inspect "$1" >/dev/null 2>&1; }

# What there is of this run, also stopped: containers, volumes, networks.
label="label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"
containers() { "$DOCKER" ps --all --filter "$label" --format '{{.Names}}'; }
left() {
    containers
    "$DOCKER" volume ls --filter "$label" --format '{{.Name}}'
    "$DOCKER" network ls --filter "$label" --format '{{.Name}}'
}

clean_up() {
    code=$?
    trap - EXIT INT TERM
    if [ "$code" -ne 0 ]; then
        say "failed ($code); the last log lines of each container:"
        compose logs --no-color --tail=15 || true
        for name in $(containers); do
            say "health of $name:"
            "$DOCKER" inspect --format '{{.State.Status}}, exit {{.State.ExitCode}}{{with .State.Health}}, {{.Status}}{{range .Log}}
  {{.End}} exit {{.ExitCode}} {{.Output}}{{end}}{{end}}' "$name" || true
        done
    fi
    say "tearing everything down"
    compose down --volumes --remove-orphans --timeout 10 >/dev/null 2>&1 || true
    if [ -z "${KEEP_IMAGES:-}" ]; then
        for image in "${images[@]}"; do "$DOCKER" image rm "forebay-$image:$FOREBAY_TAG" >/dev/null 2>&1 || true; done
    fi
    remains=$(left)
    if [ -n "$remains" ]; then
        say "could not be removed: ${remains//$'\n'/, }"
        [ "$code" -ne 0 ] || code=1
    fi
    [ "$code" -ne 0 ] || say "passed in $SECONDS s"
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

wait_healthy() {
    local id state until=$((SECONDS + PATIENCE_S))
    while id=$(container "$1"); state=$("$DOCKER" inspect --format '{{.State.Health.Status}}' "$id" 2>/dev/null || true)
        [ "$state" != healthy ]; do
        [ $SECONDS -lt $until ] || lack "$1 is ${state:-not there} after $PATIENCE_S s"
        sleep 1
    done
    say "$1 is healthy"
}

rows() { compose exec -T db psql --host=127.0.0.1 --dbname=readings --tuples-only --no-align --command='SELECT count(*) FROM readings' 2>/dev/null; }
waiting() { compose exec -T broker forebay lag readings -o json | grep -o '"records": *[0-9]*' | awk -F: '{ n += $2 } END { print n + 0 }'; }

wait_rows() {
    local found until=$((SECONDS + PATIENCE_S))
    while found=$(rows || true); [ "${found:-0}" -le "$1" ]; do
        [ $SECONDS -lt $until ] || lack "the table has ${found:-no} rows after $PATIENCE_S s, more than $1 were expected"
        sleep 1
    done
    say "the table has $found rows"
}

kill_broker() {
    say "killing the broker's container"
    "$DOCKER" kill --signal KILL "$broker" >/dev/null
    sleep 2
    "$DOCKER" start "$broker" >/dev/null
    wait_healthy broker
}

compose config --quiet
if [ -z "${BASE_IMAGE:-}" ]; then
    export BASE_IMAGE=python:3.12-slim
    if ! is_there "$BASE_IMAGE" && ! "$DOCKER" pull --quiet "$BASE_IMAGE" >/dev/null; then
        export BASE_IMAGE=debian-python:bookworm
        say "no registry answers; building on Debian's packages"
        is_there "$BASE_IMAGE" || compose/base "$BASE_IMAGE"
    fi
fi
say "building on $BASE_IMAGE (some minutes the first time)"
compose/build "${images[@]}"
"$DOCKER" run --rm --entrypoint /bin/sh "forebay-broker:$FOREBAY_TAG" -c \
    '[ -z "$(find / -xdev \( -name libjvm.so -o -name "*.jar" -o -name pyspark \) -print -quit 2>/dev/null)" ]' ||
    lack "the broker's image holds Java or Spark"
broker_mb=$(($("$DOCKER" image inspect --format '{{.Size}}' "forebay-broker:$FOREBAY_TAG") / 1000000))
[ -n "${BROKER_EXTRAS:-}" ] || [ "$broker_mb" -lt $BROKER_MB_MAX ] ||
    lack "the broker's image has $broker_mb MB, less than $BROKER_MB_MAX are allowed"
for image in "${images[@]}"; do
    [ "$("$DOCKER" run --rm --entrypoint id "forebay-$image:$FOREBAY_TAG" -u)" != 0 ] || lack "forebay-$image runs as root"
done

say "starting"
compose up --detach --no-build
broker=$(container broker)
db=$(container db)
network=$("$DOCKER" inspect --format '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}' "$db")
for service in "${services[@]}"; do wait_healthy "$service"; done
wait_rows 0

say "the database is cut off for $OUTAGE_S s"
held=$(rows)
"$DOCKER" network disconnect "$network" "$db"
outage_ends=$((SECONDS + OUTAGE_S))
sleep 5
kill_broker
[ $SECONDS -ge $outage_ends ] || sleep $((outage_ends - SECONDS))
behind=$(waiting)
[ "$behind" -gt 0 ] || lack "nothing waits in the broker although the database is unreachable"
"$DOCKER" network connect --alias db "$network" "$db"
say "the database is back; $behind records wait for it"

sleep 2
kill_broker
wait_rows "$held"

say "the database is stopped"
compose stop db >/dev/null 2>&1
"$DOCKER" kill --signal KILL "$(container deliverer)" >/dev/null
"$DOCKER" start "$(container deliverer)" >/dev/null
sleep 5
compose start db >/dev/null 2>&1
wait_healthy db
wait_rows "$(rows)"

say "stopping the job"
compose stop spark >/dev/null 2>&1
written=$(compose logs --no-color --tail=50 spark | sed -n 's/.*{"ticks": \([0-9]*\)}.*/\1/p' | tail -n 1)
[ -n "$written" ] || lack "the job did not say how far it came"
say "the job has written all readings of $written ticks; comparing"
compose exec -T deliverer python /opt/forebay/compose/check.py --db postgresql://db/readings --table readings --sink readings --ticks "$written" --wait-s "$PATIENCE_S"
