package mutants_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/mutants"
)

const source = `package limit

func Reached(used, limit int) bool {
	return used >= limit
}

func Unused(x int) int { return x + 1 }

func Until(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum = i
	}
	return sum
}

func Name(s string) string { return s + "." }
`

const tests = `package limit

import "testing"

func TestLimit(t *testing.T) {
	if !Reached(2, 1) || Reached(1, 2) || Until(2) != 1 || Name("a") != "a." {
		t.Fatal("wrong")
	}
}

func ExampleReached() {
	for !Reached(2, 1) {
	}
	// Output:
}
`

// Go runs the example after the test has failed, too: that it then runs for ever takes nothing back.
//
// One mutant each lives (no test is at the limit), is not called, runs for ever, does not compile.
func TestHunt(t *testing.T) {
	out, err := exec.Command("make", "-C", "../../..", "bin/gremlins").CombinedOutput()
	require.NoError(t, err, "%s", out)
	gremlins, err := filepath.Abs("../../../bin/gremlins")
	require.NoError(t, err)
	t.Setenv("GOWORK", "off")
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/limit\n\ngo 1.25.0\n", "limit.go": source, "limit_test.go": tests,
		"limit_windows.go": "package limit\n\nfunc Other(x int) int { return x + 2 }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	list, err := mutants.List(context.Background(), gremlins, folder)
	require.NoError(t, err)
	require.Len(t, list, 7)

	var log strings.Builder
	require.NoError(t, mutants.Hunt(context.Background(), &log, list, folder, []string{"."}, 15*time.Second))
	require.Equal(t, []string{
		"lived      limit.go:4:14 CONDITIONALS_BOUNDARY",
		"killed     limit.go:4:14 CONDITIONALS_NEGATION",
		"lived      limit.go:7:35 ARITHMETIC_BASE",
		"killed     limit.go:10:16 CONDITIONALS_BOUNDARY",
		"killed     limit.go:10:16 CONDITIONALS_NEGATION",
		"timed out  limit.go:10:22 INCREMENT_DECREMENT",
		"not viable limit.go:16:39 ARITHMETIC_BASE",
		folder + ": 3 of 6 killed, 2 lived, 1 timed out, 1 not viable",
	}, strings.Split(strings.TrimSpace(log.String()), "\n"))
	text, err := os.ReadFile(filepath.Join(folder, "limit.go"))
	require.NoError(t, err)
	require.Equal(t, source, string(text))
}

func TestDraw(t *testing.T) {
	all := make([]mutants.Mutant, 100)
	for i := range all {
		all[i].Line = i
	}
	drawn := mutants.Draw(all, 10, 29)
	require.Len(t, drawn, 10)
	require.Equal(t, drawn, mutants.Draw(all, 10, 29))
	require.NotEqual(t, drawn, mutants.Draw(all, 10, 30))
	require.IsIncreasing(t, []int{drawn[0].Line, drawn[4].Line, drawn[9].Line})
	require.Equal(t, all, mutants.Draw(all, 100, 29))
}
