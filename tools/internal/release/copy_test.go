package release_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

// newCopy copies a repository, without the network, and checks at the end of the test that nothing is left of the copy.
func newCopy(t *testing.T, root string) (*release.Copy, *bytes.Buffer) {
	t.Helper()
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOPRIVATE", "example.com")
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	files, err := release.NewCopy(t.Context(), root, &out)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, files.Close())
		left, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		require.Empty(t, left)
	})
	return files, &out
}

func TestCheck(t *testing.T) {
	files, out := newCopy(t, repository(t, fourth))
	require.NoError(t, files.Check(t.Context()), out)
	require.Equal(t, `== example.com/m@v0.1.0: 1 libraries, 0 commands
== example.com/m/store/disk@v0.1.0: 1 libraries, 0 commands
== example.com/m/app@v0.1.0: 0 libraries, 1 commands
== example.com/m/extra@v0.1.0: 1 libraries, 0 commands
`, out.String())
}

func TestBuild(t *testing.T) {
	for name, test := range map[string]struct{ files, says string }{
		"modules in order": {},
		"a module beside go.work that needs another": {
			fourth + "-- extra/extra.go --\npackage extra\n\nimport _ \"example.com/m/store/disk\"\n",
			"no required module provides package example.com/m/store/disk",
		},
		"an import that is not required": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\ngo 1.25.0\n",
			"no required module provides package example.com/m",
		},
		"a file that git ignores": {
			"-- .gitignore --\nm.go\n",
			"no required module provides package example.com/m",
		},
		"a function that vet complains of": {
			"-- m.go --\npackage m\n\nimport \"fmt\"\n\nconst Name = \"m\"\n\nfunc Print() { fmt.Printf(\"%d\", Name) }\n",
			"wrong type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, out := newCopy(t, repository(t, test.files))
			if err := files.Build(t.Context()); test.says == "" {
				require.NoError(t, err, out)
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
			files, out := newCopy(t, root)
			err := files.TidyDiff(t.Context())
			if test.says == "" {
				require.NoError(t, err, out)
				return
			}
			require.ErrorIs(t, err, release.ErrUntidy, out)
			require.Contains(t, out.String(), test.says)

			files, out = newCopy(t, root)
			require.NoError(t, files.Tidy(t.Context()), out)
			files, out = newCopy(t, root)
			require.NoError(t, files.TidyDiff(t.Context()), out)
			require.NoFileExists(t, filepath.Join(root, "app", "go.sum"), "it had no other sums")
		})
	}
}
