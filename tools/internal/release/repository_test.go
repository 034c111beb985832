package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// three is a repository of three modules without other dependencies. Ordered by path, app would come before store/disk,
// which it requires.
const three = `
-- .gitignore --
/bin/
-- LICENSE --
do as you like
-- go.work --
go 1.25.0

use (
	.
	./app
	./store/disk
)

replace (
	example.com/m v0.1.0 => .
	example.com/m/app v0.1.0 => ./app
	example.com/m/store/disk v0.1.0 => ./store/disk
)
-- go.mod --
module example.com/m

go 1.25.0
-- m.go --
// Package m is required by all.
package m

const Name = "m"
-- internal/secret/secret.go --
package secret
-- bin/ignored.go --
package ignored
-- app/go.mod --
module example.com/m/app

go 1.25.0

require (
	example.com/m v0.1.0
	example.com/m/store/disk v0.1.0
)
-- app/cmd/main.go --
package main

import (
	"fmt"

	"example.com/m"
	"example.com/m/store/disk"
)

func main() { fmt.Println(m.Name, disk.Name) }
-- store/disk/go.mod --
module example.com/m/store/disk

go 1.25.0

require example.com/m v0.1.0
-- store/disk/disk.go --
package disk

import "example.com/m"

const Name = m.Name + " on disk"
`

// fourth is a module beside the go.work of three.
const fourth = `
-- extra/go.mod --
module example.com/m/extra

go 1.25.0

require example.com/m v0.1.0

replace example.com/m => ../
-- extra/extra.go --
package extra

import "example.com/m"

const Name = m.Name
-- tool/go.mod --
module example.com/tool
`

// repository writes the files of three to a new git repository, and then the others over them.
func repository(t *testing.T, others ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, text := range append([]string{three}, others...) {
		for _, file := range txtar.Parse([]byte(text)).Files {
			write(t, filepath.Join(root, file.Name), string(file.Data))
		}
	}
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "--quiet", root).Run())
	return root
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
