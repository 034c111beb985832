//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// prepareAndStart prepares a guard, and starts a command when it is there. It prints the guards before and after.
func prepareAndStart() int {
	proctree.Prepare()
	for until := time.Now().Add(late); len(guardsOf(os.Getpid())) == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	before := guardsOf(os.Getpid())
	if _, err := guardedOutput("/bin/true"); err != nil {
		return failed(err)
	}
	fmt.Println(before, guardsOf(os.Getpid()))
	return 0
}

// prepareAndLeave prepares a guard, prints the PIDs of its children, and ends while the guard starts.
func prepareAndLeave() int {
	proctree.Prepare()
	for until := time.Now().Add(late); time.Now().Before(until); {
		threads, _ := filepath.Glob("/proc/self/task/*/children")
		for _, thread := range threads {
			if child, _ := os.ReadFile(thread); len(child) > 0 {
				fmt.Println(string(child))
				return 0
			}
		}
	}
	return 1
}

func TestPrepare(t *testing.T) {
	t.Run("the first command gets the guard that was prepared", func(t *testing.T) {
		before, after, _ := strings.Cut(runRole(t, "/proc/self/exe", "prepared"), " ")
		assert.Equal(t, before, after)
		assert.NotEqual(t, "[]", before)
	})
	t.Run("a guard that was prepared does not outlive a host that starts nothing", func(t *testing.T) {
		for child := range strings.FieldsSeq(runRole(t, "/proc/self/exe", "unused guard")) {
			pid, err := strconv.Atoi(child)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return !running(pid) }, late, time.Millisecond)
		}
	})
}
