#!/bin/sh
# Writes testdata/frozen: the root package and what it imports of this module, as they are at a commit, under import
# paths of their own. Nothing but the paths is changed; what was decided to differ since is marked so, and not written
# by this. Its package inside is a copy of the one here, which has to fit
# that commit.
#	./freeze.sh 86341b3
set -eu
cd "$(dirname "$0")"
commit=${1:?usage: freeze.sh COMMIT}
module=github.com/seed62658d38/watchdog
from=$(mktemp -d)
trap 'rm -rf "$from"' EXIT
git -C "$(git rev-parse --show-toplevel)" archive "$commit" | tar -x -C "$from"
rm -rf testdata/frozen
mkdir -p testdata/frozen
for package in $(cd "$from" && GOWORK=off GOFLAGS=-mod=mod go list -deps . | grep "^$module"); do
	dir=${package#"$module"}
	mkdir -p "testdata/frozen$dir"
	for file in "$from$dir"/*.go; do
		case $file in *_test.go) continue ;; esac
		sed "s#\"$module\([/\"]\)#\"$module/oracle/frozen\1#" "$file" >"testdata/frozen$dir/$(basename "$file")"
	done
done
mkdir testdata/frozen/inside
sed "s#\"$module/internal#\"$module/oracle/frozen/internal#" inside/inside.go >testdata/frozen/inside/inside.go
cat >testdata/frozen/go.mod <<MOD
// The root package of commit $commit, see freeze.sh. It requires nothing of the live one.
module $module/oracle/frozen

go 1.25.0

require github.com/benbjohnson/clock v1.3.5
MOD
grep benbjohnson/clock "$from/go.sum" >testdata/frozen/go.sum
gofmt -l testdata/frozen
