package watchdog_test

import (
	"go/build"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccheck"
)

func TestEveryNameExists(t *testing.T) {
	problems, err := doccheck.Check(os.DirFS("."), os.DirFS(filepath.Join(build.Default.GOROOT, "src")))
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestLayout(t *testing.T) {
	for _, name := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "go.work", ".golangci.yml", ".ci/run", "tools/go.mod",
		"doc.go", "watchdog.go", "budget.go", "events.go", "cancel.go", "stopreason.go", "internal/verdict", "internal/proctree", "storetest",
		"stall", "sweep", "converge", "session", "sessiontest", "redact/go.mod", "otelwatchdog/go.mod",
		"store/sqlite/go.mod", "store/postgres/go.mod", "config/go.mod", "examples/go.mod", "bench/go.mod", "bench/README.md",
		"docs/configuration.md", "docs/errors.md", "docs/events.md", "docs/stall.md", "docs/operations.md", "testdata",
		"docs/architecture.md", "docs/packages.txt", "docs/packages.svg", "CONTRIBUTING.md", "SECURITY.md",
	} {
		t.Run("there is "+name, func(t *testing.T) {
			_, err := os.Stat(name)
			require.NoError(t, err)
		})
	}
}
