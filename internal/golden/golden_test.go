package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A told is a test that keeps what it was failed with.
type told struct {
	testing.TB
	fatal string
}

func (t *told) Fatalf(format string, args ...any) { t.fatal = fmt.Sprintf(format, args...) }

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.golden")
	require.NoError(t, os.WriteFile(file, []byte("a\nb\nc\n"), 0o600))
	golden.Compare(t, file, "a\nb\nc\n")
	for text, says := range map[string]string{
		"a\nx\nc\n": "from line 2 on; go test -update writes it\n--- the file has\nb\nc\n\n--- the test got\nx\nc\n",
		"a\nb\n":    "from line 3 on; go test -update writes it\n--- the file has\nc\n\n--- the test got\n",
		"":          "from line 1 on; go test -update writes it\n--- the file has\na\nb\nc\n\n--- the test got\n",
	} {
		of := &told{TB: t}
		golden.Compare(of, file, text)
		require.Equal(t, file+" differs "+says, of.fatal, text)
	}
}
