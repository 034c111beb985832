package release_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

func TestOpen(t *testing.T) {
	t.Run("each module comes after those that it requires", func(t *testing.T) {
		modules, err := release.Open(repository(t))
		require.NoError(t, err)
		require.Equal(t, []string{"v0.1.0", "store/disk/v0.1.0", "app/v0.1.0"}, modules.Tags("v0.1.0"))
	})
	t.Run("one that go.work does not use is one of them if it replaces the root's", func(t *testing.T) {
		modules, err := release.Open(repository(t, fourth))
		require.NoError(t, err)
		require.Equal(t, []string{"v0.1.0", "store/disk/v0.1.0", "app/v0.1.0", "extra/v0.1.0"}, modules.Tags("v0.1.0"))
	})

	for name, test := range map[string]struct{ files, says string }{
		"modules that require each other": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nrequire example.com/m/app v0.1.0\n",
			"example.com/m/app requires example.com/m/store/disk requires example.com/m/app",
		},
		"a module that is not named after its directory": {
			"-- app/go.mod --\nmodule example.com/m/other\n",
			"must be named example.com/m/app",
		},
		"no module in the root": {
			"-- go.work --\ngo 1.25.0\n\nuse ./store/disk\n",
			"no module in the root",
		},
		"a module that is missing": {
			"-- go.work --\ngo 1.25.0\n\nuse ./gone\n",
			"no such file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := release.Open(repository(t, test.files))
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestVersion(t *testing.T) {
	modules, err := release.Open(repository(t))
	require.NoError(t, err)
	version, err := modules.Version()
	require.NoError(t, err)
	require.Equal(t, "v0.1.0", version)

	for name, test := range map[string]struct{ files, says string }{
		"a requirement of another version": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nrequire example.com/m v0.2.0\n",
			"go.mod has example.com/m v0.1.0, others are at v0.2.0",
		},
		"a requirement of another version beside go.work": {
			fourth + "-- extra/go.mod --\nmodule example.com/m/extra\n\nrequire example.com/m v0.2.0\n\n" +
				"replace example.com/m => ../\n",
			"go.mod has example.com/m v0.2.0, others are at v0.1.0",
		},
		"a module that replaces another": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nreplace example.com/m => ../..\n",
			"go.mod replaces example.com/m",
		},
		"a workspace that replaces not all": {
			"-- go.work --\ngo 1.25.0\n\nuse .\nuse ./store/disk\n\nreplace example.com/m v0.1.0 => .\n",
			"go.work does not replace example.com/m/store/disk by store/disk",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, test.files)
			modules, err := release.Open(root)
			require.NoError(t, err)
			_, err = modules.Version()
			require.ErrorContains(t, err, test.says)

			require.NoError(t, modules.SetVersion("v0.3.0"))
			modules, err = release.Open(root)
			require.NoError(t, err)
			version, err := modules.Version()
			require.NoError(t, err, "SetVersion fixes it")
			require.Equal(t, "v0.3.0", version)
		})
	}
}

func TestSetVersion(t *testing.T) {
	root := repository(t, fourth)
	modules, err := release.Open(root)
	require.NoError(t, err)
	require.NoError(t, modules.SetVersion("v1.2.3-rc.1"))

	require.Equal(t, "module example.com/m/extra\n\ngo 1.25.0\n\nrequire example.com/m v1.2.3-rc.1\n\n"+
		"replace example.com/m => ../\n", read(t, filepath.Join(root, "extra", "go.mod")))
	require.Equal(t, "module example.com/m\n\ngo 1.25.0\n", read(t, filepath.Join(root, "go.mod")))
	require.Equal(t, `module example.com/m/app

go 1.25.0

require (
	example.com/m v1.2.3-rc.1
	example.com/m/store/disk v1.2.3-rc.1
)
`, read(t, filepath.Join(root, "app", "go.mod")))
	require.Equal(t, `go 1.25.0

use (
	.
	./app
	./store/disk
)

replace (
	example.com/m v1.2.3-rc.1 => .
	example.com/m/app v1.2.3-rc.1 => ./app
	example.com/m/store/disk v1.2.3-rc.1 => ./store/disk
)
`, read(t, filepath.Join(root, "go.work")))
}

func TestSetVersionRefuses(t *testing.T) {
	root := repository(t)
	modules, err := release.Open(root)
	require.NoError(t, err)
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+meta", "v2.0.0", "v0.0.0-20260102030405-abcdefabcdef"} {
		require.Error(t, modules.SetVersion(version), version)
	}
	require.Contains(t, read(t, filepath.Join(root, "go.work")), "example.com/m v0.1.0 => .", "nothing was written")
}

// open opens a repository, without the network, and checks at the end of the test that nothing temporary is left.
func open(t *testing.T, root string) *release.Modules {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOPRIVATE", "example.com")
	t.Setenv("TMPDIR", t.TempDir())
	modules, err := release.Open(root)
	require.NoError(t, err)
	t.Cleanup(func() {
		left, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return modules
}

func TestCheck(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, open(t, repository(t, fourth)).Check(t.Context(), &out), &out)
	require.Equal(t, `== example.com/m@v0.1.0: 1 libraries, 0 commands
== example.com/m/store/disk@v0.1.0: 1 libraries, 0 commands
== example.com/m/app@v0.1.0: 0 libraries, 1 commands
== example.com/m/extra@v0.1.0: 1 libraries, 0 commands
`, out.String())

	t.Run("a file that git ignores", func(t *testing.T) {
		var out bytes.Buffer
		require.Error(t, open(t, repository(t, "-- .gitignore --\nm.go\n")).Check(t.Context(), &out))
		require.Contains(t, out.String(), "cannot find module providing package example.com/m")
	})
}

func TestBuild(t *testing.T) {
	for name, test := range map[string]struct{ files, says string }{
		"modules in order": {},
		"a module beside go.work that needs another": {
			fourth + "-- extra/extra.go --\npackage extra\n\nimport _ \"example.com/m/store/disk\"\n",
			"module example.com/m/store/disk provides package example.com/m/store/disk and is replaced but not required",
		},
		"an import that is not required": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\ngo 1.25.0\n",
			"module example.com/m provides package example.com/m and is replaced but not required",
		},
		"a function that vet complains of": {
			"-- m.go --\npackage m\n\nimport \"fmt\"\n\nconst Name = \"m\"\n\nfunc Print() { fmt.Printf(\"%d\", Name) }\n",
			"wrong type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := open(t, repository(t, test.files)).Build(t.Context(), &out); test.says == "" {
				require.NoError(t, err, &out)
			} else {
				require.Error(t, err)
				require.Contains(t, out.String(), test.says)
			}
		})
	}
}

func TestTidy(t *testing.T) {
	for name, test := range map[string]struct{ files, says string }{
		"modules in order":        {},
		"a module beside go.work": {files: fourth},
		"a requirement that is not needed": {
			"-- store/disk/disk.go --\npackage disk\n\nconst Name = \"disk\"\n",
			"-require example.com/m v0.1.0",
		},
		"a requirement that is missing": {
			"-- app/go.mod --\nmodule example.com/m/app\n\ngo 1.25.0\n\nrequire example.com/m v0.1.0\n",
			"+\texample.com/m/store/disk v0.1.0",
		},
		"a sum of a module that is not released": {
			"-- app/go.sum --\nexample.com/m v0.1.0/go.mod h1:BIPAJ+Qe9YYxdmTEJvHGhLZJrHTMSnThs+EUWYnJLLs=\n",
			"-example.com/m v0.1.0/go.mod",
		},
		"a sum of a module that nobody requires": {
			"-- app/go.sum --\nexample.com/z v0.1.0/go.mod h1:BIPAJ+Qe9YYxdmTEJvHGhLZJrHTMSnThs+EUWYnJLLs=\n",
			"-example.com/z v0.1.0/go.mod",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, test.files)
			var out bytes.Buffer
			err := open(t, root).TidyDiff(t.Context(), &out)
			if test.says == "" {
				require.NoError(t, err, &out)
				return
			}
			require.ErrorContains(t, err, "run make tidy")
			require.Contains(t, out.String(), test.says)

			require.NoError(t, open(t, root).Tidy(t.Context(), &out), &out)
			require.NoError(t, open(t, root).TidyDiff(t.Context(), &out), &out)
			require.NoFileExists(t, filepath.Join(root, "app", "go.sum"), "it had no other sums")
		})
	}
}

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
