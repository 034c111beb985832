package watchdog_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// smallGuards are the guards that a program may use alone, and how many bytes each may add to it at most.
var smallGuards = []struct {
	name string
	most int64
}{
	{"idle", 150_000}, {"loop", 160_000}, {"watchdoghttp", 100_000}, {"watchdog", 1_500_000}, {"stall", 1_850_000},
	{"watchdog,stall", 2_200_000},
}

// TestSize builds one program without a guard and with each. The linker leaves out what is never called: a guard grows by
// a table that is made as the program starts, or by a concrete type in one that becomes an interface.
// `go build -ldflags=-dumpdep` says what keeps a function. With -update it writes the table of the page.
func TestSize(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil || !racing.Long && !golden.Updating() {
		t.Skip("make long: it builds all packages anew, and seven programs")
	}
	none := built(t, "none")
	var table strings.Builder
	table.WriteString("<!-- sizes -->\n\n| guard | adds |\n|---|---|\n")
	for _, guard := range smallGuards {
		size := built(t, guard.name)
		require.LessOrEqual(t, size-none, guard.most, "%s: see the comment of this test", guard.name)
		fmt.Fprintf(&table, "| `%s` | %.2f MB |\n", guard.name, float64(size-none)/1e6)
	}
	table.WriteString("\n<!-- end of sizes -->")
	if golden.Updating() {
		const page = "docs/cost.md"
		written := regexp.MustCompile("(?s)<!-- sizes -->.*<!-- end of sizes -->")
		text := written.ReplaceAllLiteralString(readText(t, page), table.String())
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
}

// built returns the size of the program with the guard, stripped.
func built(t *testing.T, guard string) int64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), guard)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags", guard, "-o", path,
		"./testdata/size")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS=", "GOEXPERIMENT=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
