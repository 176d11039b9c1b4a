#!/bin/sh
# make images: a base from Debian's archive, Python packages by their hashes, and one image for each
# target of the Dockerfile, without a daemon. Needs buildah, mmdebstrap, root, and the Python of the locks.
set -eu
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
made=build/images
suite=bookworm
mkdir -p "$made"
export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}" STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}"

rm -rf "$made/wheels"
for lock in containers/*requirements.txt; do
    "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$lock" -d "$made/wheels"
done

if [ ! -f "$made/base.tar" ]; then
    mmdebstrap --quiet --variant=minbase --include=python3,ca-certificates \
        "$suite" "$made/base.tar" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
fi
container=$(buildah from scratch)
buildah add -q "$container" "$made/base.tar" /
buildah config --env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit -q --rm "$container" localhost/mix2fld-base
sha256sum "$made/base.tar"

for target in server device broker proxy; do
    buildah bud -q --layers --ignorefile containers/.containerignore -f containers/Dockerfile \
        --target "$target" -t "localhost/mix2fld-$target" .
done
buildah images
