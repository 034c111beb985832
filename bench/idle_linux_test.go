package bench_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// idleTime is how long idle hosts are watched, after settleTime: Go's runtime wakes up ten times a second for some
// seconds after a program has become idle.
const (
	idleTime   = 5 * time.Second
	settleTime = 10 * time.Second
)

// BenchmarkIdleCommand counts how often a host and its guard wake up in five seconds in which their command prints
// nothing: as often as one of their threads gave up its CPU to wait. The hosts run side by side.
func BenchmarkIdleCommand(b *testing.B) {
	hosts := make([]*host, len(ways))
	for i, w := range ways {
		hosts[i] = startHost(b, w, 1)
	}
	time.Sleep(settleTime)
	woke := make([]int, len(ways))
	for b.Loop() {
		for i, h := range hosts {
			woke[i] -= h.switches()
		}
		time.Sleep(idleTime)
		for i, h := range hosts {
			woke[i] += h.switches()
		}
	}
	for i, w := range ways {
		b.ReportMetric(float64(woke[i])/float64(b.N), "wakeups-"+w.name)
	}
	b.ReportMetric(0, "ns/op")
}

func (h *host) switches() (n int) {
	for _, pid := range h.pids {
		threads, _ := filepath.Glob(proc(pid, "task", "*", "status"))
		for _, thread := range threads {
			n += statusNumber(thread, "voluntary_ctxt_switches")
		}
	}
	return n
}

// manyCommands is how many commands one host runs.
const manyCommands = 1000

// BenchmarkManyCommands measures a host of a thousand idle commands: its memory for each of them, and the CPU time of
// host and guard. The hosts run one after the other, each beside nothing else.
func BenchmarkManyCommands(b *testing.B) {
	for _, w := range ways {
		b.Run("way="+w.name, func(b *testing.B) {
			h := startHost(b, w, manyCommands)
			var used time.Duration
			for b.Loop() {
				used -= h.used(b)
				time.Sleep(idleTime)
				used += h.used(b)
			}
			b.ReportMetric(float64(statusNumber(proc(h.pids[0], "status"), "VmRSS"))/manyCommands, "KiB/command")
			if len(h.pids) > 1 {
				b.ReportMetric(float64(statusNumber(proc(h.pids[1], "status"), "VmRSS"))/manyCommands, "KiB-guard/command")
			}
			b.ReportMetric(100*used.Seconds()/(idleTime.Seconds()*float64(b.N)), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// used returns the CPU time of host and guard.
func (h *host) used(b *testing.B) (used time.Duration) {
	b.Helper()
	const tick = time.Second / 100
	for _, pid := range h.pids {
		text, err := os.ReadFile(proc(pid, "stat"))
		require.NoError(b, err)
		_, rest, _ := strings.Cut(string(text), ") ") // after the program's name
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] { // in user mode and in the kernel
			ticks, err := strconv.Atoi(field)
			require.NoError(b, err)
			used += time.Duration(ticks) * tick
		}
	}
	return used
}
