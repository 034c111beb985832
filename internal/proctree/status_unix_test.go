//go:build unix

package proctree_test

import (
	"os"
	"os/exec"
	"reflect"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

// TestProcessStateShape checks that unsafe code is used for an os.ProcessState of this Go, and for no other struct.
func TestProcessStateShape(t *testing.T) {
	type (
		status  = syscall.WaitStatus
		usage   = *syscall.Rusage
		another syscall.WaitStatus
	)
	assert.True(t, proctree.IsProcessState(reflect.TypeFor[os.ProcessState]()), "of this Go")
	for name, other := range map[string]reflect.Type{
		"no struct": reflect.TypeFor[*os.ProcessState](),
		"a field more": reflect.TypeFor[struct {
			pid    int
			status status
			rusage usage
			err    error
		}](),
		"another name": reflect.TypeFor[struct {
			id     int
			status status
			rusage usage
		}](),
		"another order": reflect.TypeFor[struct {
			pid    int
			rusage usage
			status status
		}](),
		"another type of as many bits": reflect.TypeFor[struct {
			pid    int
			status another
			rusage usage
		}](),
	} {
		assert.False(t, proctree.IsProcessState(other), name)
	}
}

// TestProcessState makes one again from what it says, and compares.
func TestProcessState(t *testing.T) {
	for name, script := range map[string]string{
		"success": "true", "failure": "exit 3", "the greatest status": "exit 255", "a signal": "kill -KILL $$",
		"a core": "ulimit -c unlimited; kill -QUIT $$",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = t.TempDir()
			err := cmd.Run()
			var exit *exec.ExitError
			require.True(t, err == nil || assert.ErrorAs(t, err, &exit))
			want := cmd.ProcessState
			made := proctree.NewState(want.Pid(), want.Sys().(syscall.WaitStatus), want.SysUsage().(*syscall.Rusage))
			assert.Equal(t, want, made)
			assert.Equal(t, want.String(), made.String())
		})
	}
}
