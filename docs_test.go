package watchdog_test

import (
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

var budgetLiteral = regexp.MustCompile(`(?s)watchdog\.Budget\{(.*?)\n?\s*\}`)

// TestIdleTrap protects whoever copies a guard of silence from the wall clock of four hours that a Budget has by
// default: the documents name one beside each Idle.
func TestIdleTrap(t *testing.T) {
	found := 0
	for _, name := range []string{"README.md", "doc.go", "docs/errors.md", "docs/guide.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, budget := range budgetLiteral.FindAllString(string(text), -1) {
			if strings.Contains(budget, "Idle:") {
				found++
				require.Contains(t, budget, "WallClock:", name)
			}
		}
	}
	require.NotZero(t, found)
}
