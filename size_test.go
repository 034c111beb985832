//go:build linux && amd64

package watchdog_test

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
)

const (
	sizeProgram = "./testdata/size"
	sizeList    = "testdata/size/linked.txt"
	sizePage    = "docs/cost.md"
)

// smallGuards are the guards that a program may use alone, and how many bytes each may add to it at most. What the page
// says is less.
var smallGuards = []struct {
	name string
	most int64
}{
	{"idle", 150_000}, {"loop", 160_000}, {"watchdoghttp", 100_000}, {"watchdog", 1_500_000}, {"stall", 1_850_000},
	{"watchdog,stall", 2_200_000},
}

// TestSize builds one program without a guard and with each, and protects what the page says that they cost. The linker
// leaves out what is never called. A guard grows by a table that is made as the program starts, or by a concrete type
// of another package in a type that becomes an interface. `go build -ldflags=-dumpdep` says what keeps a function.
func TestSize(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil || !racing.Long && !*update {
		t.Skip("make long: it builds all packages anew, and seven programs")
	}
	none, _ := built(t, "none")
	var list, table strings.Builder
	table.WriteString("\n| guard | adds | packages of this module |\n|---|---|---|\n")
	for _, guard := range smallGuards {
		size, packages := built(t, guard.name)
		require.LessOrEqual(t, size-none, guard.most, "%s: see the comment of this test", guard.name)
		fmt.Fprintf(&list, "%s:\n\t%s\n", guard.name, strings.Join(packages, "\n\t"))
		fmt.Fprintf(&table, "| `%s` | %.2f MB | %d |\n", guard.name, float64(size-none)/1e6, len(packages))
	}
	table.WriteString("\n")
	if *update {
		require.NoError(t, os.WriteFile(sizeList, []byte(list.String()), 0o644))
		require.NoError(t, os.WriteFile(sizePage, []byte(sizeTable.ReplaceAllLiteralString(readText(t, sizePage),
			sizeBegin+table.String()+sizeEnd)), 0o644))
	}
	if strings.HasPrefix(runtime.Version(), "go1.26") { // another compiler makes other code
		require.Equal(t, list.String(), readText(t, sizeList), "go test . -run TestSize -update writes it")
		requireAlike(t, table.String(), readText(t, sizePage))
	}
}

// What stands before the table of the page and after it.
const (
	sizeBegin = "<!-- sizes -->\n"
	sizeEnd   = "<!-- end of sizes -->"
)

var (
	sizeTable = regexp.MustCompile("(?s)" + sizeBegin + ".*" + sizeEnd)
	sizeAdds  = regexp.MustCompile(`(\d+)\.(\d+) MB`)
)

// requireAlike compares the table that was measured with that of the page. Sizes may differ a little: a new version of
// a library, or a few lines, need no new table.
func requireAlike(t *testing.T, table, page string) {
	t.Helper()
	stated := sizeTable.FindString(page)
	require.NotEmpty(t, stated, "%s has no table of sizes", sizePage)
	measured, said := sizeAdds.FindAllString(table, -1), sizeAdds.FindAllString(stated, -1)
	require.Len(t, said, len(measured))
	for i := range measured {
		var now, then float64
		fmt.Sscan(measured[i], &now)
		fmt.Sscan(said[i], &then)
		require.InDelta(t, now, then, 0.01+now/20, "%s states another size: go test . -run TestSize -update", sizePage)
	}
	require.Equal(t, sizeAdds.ReplaceAllString(sizeBegin+table+sizeEnd, ""), sizeAdds.ReplaceAllString(stated, ""),
		"go test . -run TestSize -update writes it")
}

// The functions of this module, as package and name, and those that set the variables of a package.
var (
	ofModule = regexp.MustCompile(`^github\.com/seed62658d38/watchdog/?([^.]*)\.(.+)`)
	isInit   = regexp.MustCompile(`^(map\.)?init(\.|$)`)
)

// built returns the size of the program with the guard, stripped, and the packages of this module whose code is in it.
// One that is linked to set its variables, and does nothing, is none of them.
func built(t *testing.T, guard string) (size int64, packages []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), guard)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-tags", guard, "-o", path,
		sizeProgram)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOFLAGS=", "GOEXPERIMENT=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	info, err := os.Stat(path)
	require.NoError(t, err)
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines, err := file.Section(".gopclntab").Data()
	require.NoError(t, err)
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(lines, file.Section(".text").Addr))
	require.NoError(t, err)
	for i := range symbols.Funcs {
		of := ofModule.FindStringSubmatch(symbols.Funcs[i].Name)
		if of != nil && !isInit.MatchString(of[2]) {
			packages = append(packages, cmp.Or(of[1], "watchdog"))
		}
	}
	slices.Sort(packages)
	return info.Size(), slices.Compact(packages)
}
