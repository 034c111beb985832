package release_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

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
