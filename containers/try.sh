#!/bin/sh
# Runs broker, front, server and two devices, each in the image that make images has built, as the
# user 1000 of the image; then SuperLink and proxy. Ends with 0 if the run took every upload.
set -eu
cd "$(dirname "$0")/.."
bin=${1:-.venv/bin}
folder=$(mktemp -d "$PWD/build/images/try.XXXXXX")
export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"
started="" used=""

# below PROCESS...: these and all that they have started
below() {
    for process in "$@"; do
        echo "$process"
        below $(pgrep -P "$process" || true)
    done
}

finish() {
    code=$?
    all=$(below $started)
    [ -z "$all" ] || kill -TERM $all 2>/dev/null || true
    sleep 3
    [ -z "$all" ] || kill -KILL $all 2>/dev/null || true
    [ -z "$used" ] || buildah rm $used >/dev/null
    [ $code = 0 ] || tail -n 20 "$folder"/*.log
    [ $code != 0 ] || rm -rf "$folder"
    exit $code
}
trap finish EXIT

# start NAME IMAGE VOLUMES -- COMMAND: in the background, its words in NAME.log
start() {
    name=$1 image=$2
    shift 2
    container=$(buildah from "localhost/mix2fld-$image")
    used="$used $container"
    volumes=""
    while [ "$1" != -- ]; do volumes="$volumes --volume $1"; shift; done
    buildah run $volumes "$container" "$@" >"$folder/$name.log" 2>&1 &
    started="$started $!"
}

export PYTHONPATH="$PWD"
"$bin/python" -m containers.try_files "$folder"
keys="$folder/keys"
"$bin/mix2fld" deploy keys localhost --transport mqtt --devices 2 --protocols fl --out "$keys" >/dev/null
"$bin/mix2fld" deploy keys localhost --devices 2 --protocols fl --out "$folder/flower" >/dev/null
mkdir "$folder/broker" "$folder/runs" "$folder/run"
chown -R 1000:1000 "$folder"
chmod -R u+rwX "$folder"

credentials=/run/credentials/mix2fld-broker.service
start broker broker "$keys:/etc/mix2fld:ro" "$keys/broker.key:$credentials/broker.key:ro" \
    "$keys/access.acl:$credentials/access.acl:ro" "$folder/broker:/var/lib/mix2fld-broker" \
    -- mosquitto -c /etc/mix2fld/mix2fld-broker.conf
start front server -- python -P -m mix2fld.deploy.front --listen 8883 --broker 127.0.0.1:8884 --places 1002
for device in 0 1; do
    start "device-$device" device "$keys:/keys:ro" "$folder/device-$device:/samples:ro" \
        -- mix2fld-device --device "$device" --broker localhost:8883 --keys /keys \
        --data /samples/samples.npz --state /state/device
done
proxy=/run/credentials/mix2fld-proxy.service
start superlink server "$folder/flower:/keys:ro" -- flower-superlink --host=127.0.0.1 --port=8000 \
    --database=/state/superlink.db --ssl-ca-certfile=/keys/ca.crt --ssl-certfile=/keys/server.crt \
    --ssl-keyfile=/keys/server.key --enable-supernode-auth --disable-runtime-dependency-installation
start proxy proxy "$folder/flower:/etc/mix2fld:ro" "$folder/flower/server.key:$proxy/server.key:ro" \
    "$folder/run:/run/mix2fld-proxy" -- nginx -e stderr -p /run/mix2fld-proxy -c /etc/mix2fld/nginx.conf

container=$(buildah from localhost/mix2fld-server)
used="$used $container"
buildah run --volume "$keys:/keys:ro" --volume "$folder/data:/data:ro" --volume "$folder/runs:/runs" \
    "$container" -- mix2fld deploy server localhost:8883 --keys /keys --config /data/run.toml --out /runs
[ "$(grep -c '"delivered": 2' "$folder"/runs/*/rounds.jsonl)" = 3 ]
[ "$(ps -o uid= -p "$(below $started | paste -sd,)" | grep -c 1000)" -ge 6 ]
"$bin/mix2fld" deploy check localhost:8443 --root-certificates "$folder/flower/ca.crt"
echo "three rounds with two devices, each process as user 1000 of its image"
