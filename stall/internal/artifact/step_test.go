package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

var refused = map[string]string{
	"nothing":                      "",
	"the parent":                   "..",
	"a path that leaves the root":  "../../x",
	"an absolute path":             "/abs",
	"a backslash":                  `..\outside`,
	"an alternate stream":          "a:b",
	"a NUL":                        "a\x00b",
	"a C1 control":                 "a\u0085b",
	"a space at the start":         " a",
	"a space at the end":           "a ",
	"a wide space at the end":      "a\u3000",
	"a dot at the end":             "a.",
	"invalid UTF-8":                "a\xff",
	"101 characters":               strings.Repeat("é", 101),
	"100 characters of 3 bytes":    strings.Repeat("界", 100),
	"the folder of the artifacts":  "_stall",
	"that folder in upper case":    "_STALL",
	"a device":                     "NUL",
	"a device with an extension":   "nul.txt",
	"a device with a space":        "aux .txt",
	"a serial line":                "COM1",
	"a printer with a superscript": "lpt².log",
}

func TestInvalidStep(t *testing.T) {
	for name, step := range refused {
		t.Run(name, func(t *testing.T) {
			err := artifact.CheckStep(step)
			require.ErrorIs(t, err, artifact.ErrInvalidStep)
			require.ErrorContains(t, err, "invalid step: ")
			require.NotContains(t, err.Error(), "\x00")
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestValidStep(t *testing.T) {
	for _, step := range []string{
		"build", "check-2", ".hidden", "a..b", "..a", "-rf", "a b", "prüfen", "_stall2", "COM", "COM10", "null", "console",
		"%2e%2e", "~", strings.Repeat("é", 100),
	} {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			expectUnchanged(t, f.outside)
			require.Empty(t, failures(writeAll(f.open(step))))
			require.FileExists(t, filepath.Join(f.root, step, artifact.Folder, artifact.EventFile))
		})
	}
}

// FuzzCheckStep writes under every name that is accepted. The name must be the only new entry in the root, and
// nothing may appear beside the root.
func FuzzCheckStep(f *testing.F) {
	for _, step := range refused {
		f.Add(step)
	}
	f.Add("build")
	f.Add("a..b")
	f.Fuzz(func(t *testing.T, step string) {
		if artifact.CheckStep(step) != nil {
			return
		}
		base := t.TempDir()
		root := filepath.Join(base, "root")
		d, err := artifact.Open(root, step)
		require.NoError(t, err)
		require.NoError(t, d.WriteTail(nil))
		require.NoError(t, d.Close())
		require.Equal(t, []string{"root"}, entries(t, base))
		require.Equal(t, []string{step}, entries(t, root))
		require.Equal(t, []string{artifact.Folder}, entries(t, filepath.Join(root, step)))
		require.Equal(t, []string{artifact.TailFile}, entries(t, filepath.Join(root, step, artifact.Folder)))
	})
}

func entries(t *testing.T, folder string) []string {
	t.Helper()
	read, err := os.ReadDir(folder)
	require.NoError(t, err)
	names := []string{}
	for _, entry := range read {
		names = append(names, entry.Name())
	}
	return names
}
