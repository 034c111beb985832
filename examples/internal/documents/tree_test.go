package documents_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/doccode"
	"github.com/seed62658d38/watchdog/internal/racing"
)

func TestMain(m *testing.M) {
	if racing.Enabled {
		fmt.Println("skipped with the race detector: the go command builds and runs what is tested, without it")
		return
	}
	goleak.VerifyTestMain(m)
}

const module = "github.com/seed62658d38/watchdog"

// migrating is how the pages begin that show hosts of package migrating, which compiles them, and whose tests compare
// the two.
const migrating = "docs/migrating"

// packages are those that the snippets of documents use. Only a whole program has imports of its own.
var packages = map[string]string{
	"bound":        module + "/bound",
	"clock":        "github.com/benbjohnson/clock",
	"config":       module + "/config",
	"context":      "context",
	"converge":     module + "/converge",
	"errors":       "errors",
	"exec":         "os/exec",
	"fmt":          "fmt",
	"http":         "net/http",
	"idle":         module + "/idle",
	"io":           "io",
	"notify":       module + "/notify",
	"otelwatchdog": module + "/otelwatchdog",
	"postgres":     module + "/store/postgres",
	"redact":       module + "/redact",
	"replay":       module + "/replay",
	"session":      module + "/session",
	"sessiontest":  module + "/sessiontest",
	"slog":         "log/slog",
	"sqlite":       module + "/store/sqlite",
	"stall":        module + "/stall",
	"storetest":    module + "/storetest",
	"sweep":        module + "/sweep",
	"syscall":      "syscall",
	"synctest":     "testing/synctest",
	"testing":      "testing",
	"time":         "time",
	"watchdog":     module,
	"watchdoghttp": module + "/watchdoghttp",
}

// If a snippet needs a name of its host, declare it in testdata/host.go.
func TestCodeInDocuments(t *testing.T) {
	root := checkout(t)
	host, err := os.ReadFile("testdata/host.go")
	require.NoError(t, err)
	checker, err := doccode.New(root, packages, "testdata/host.go", string(host))
	require.NoError(t, err)

	snippets := readAll(t, root, ".md", doccode.Markdown)
	require.Greater(t, len(snippets), 8, "the README alone has more")
	comments := readAll(t, root, "doc.go", doccode.Comment)
	require.Greater(t, len(comments), 4, "that of the main package has two")
	require.NoError(t, checker.Check(t.Context(), append(snippets, comments...)))
}

// pkg.go.dev shows an example as a program: the function, and what it uses of its file. It does not show names from the
// other files of the test package.
func TestExamplesAreWhole(t *testing.T) {
	root := checkout(t)
	checker, err := doccode.New(root, nil, "host.go", "package host")
	require.NoError(t, err)
	programs := readAll(t, root, "_test.go", func(name, text string) []doccode.Snippet {
		programs, err := doccode.Examples(name, text)
		require.NoError(t, err)
		return programs
	})
	require.Greater(t, len(programs), 20)
	require.NoError(t, checker.Check(t.Context(), programs))
}

// checkout is the root of the repository, without which there are no documents to check.
func checkout(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		t.Skip("not in a checkout of the repository:", err)
	}
	return root
}

// readAll cuts every document whose name ends like that.
func readAll(t *testing.T, root, end string, cut func(file, text string) []doccode.Snippet) []doccode.Snippet {
	t.Helper()
	var snippets []doccode.Snippet
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && skipped(name) {
			return skip(err)
		}
		if !strings.HasSuffix(name, end) || strings.HasPrefix(name, migrating) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		snippets = append(snippets, cut(name, string(text))...)
		return err
	})
	require.NoError(t, err)
	return snippets
}

func skip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// skipped reports whether a folder holds no documents: testdata, built tools, and what begins with a dot. Those of the
// adapters are checked in bench/agents, since go.work has none of their SDKs.
func skipped(dir string) bool {
	base := path.Base(dir)
	return slices.Contains([]string{"watchdogadk", "watchdogeino", "watchdogmcp"}, dir) || base == "testdata" || base == "bin" || dir != "." && strings.HasPrefix(base, ".")
}
