//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// BenchmarkKill measures the time from the kill until all processes are gone. It compares with killing a process group
// and waiting for its leader, which does not prove that the others are gone.
func BenchmarkKill(b *testing.B) {
	for _, size := range []int{1, 200} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.Run("group", func(b *testing.B) { measure(b, size, startGroup) })
			b.Run("group until gone", func(b *testing.B) { measure(b, size, startGroupProven) })
			b.Run("tree", func(b *testing.B) { measure(b, size, startTree) })
		})
	}
}

func measure(b *testing.B, size int, start func(*testing.B, escape.Scenario) func()) {
	b.Helper()
	folder := b.TempDir()
	var took time.Duration
	for range b.N {
		s := escape.Crowd(size - 1).In(folder)
		end := start(b, s)
		require.NoError(b, s.Ready(late))
		time.Sleep(5 * time.Millisecond) // let the new processes settle
		began := time.Now()
		end()
		took += time.Since(began)
		s.End()
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/kill")
}

func startGroup(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	require.NoError(b, cmd.Start())
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// startGroupProven also polls, at short intervals, until the others are gone.
func startGroupProven(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	end := startGroup(b, s)
	return func() {
		end()
		for len(escape.Alive(s.Registry())) > 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func startTree(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	tree, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env})
	require.NoError(b, err)
	return func() {
		_ = tree.Kill()
		<-tree.Gone()
	}
}
