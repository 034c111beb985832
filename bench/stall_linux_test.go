package bench_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// outputMiB is the size of a child's output.
const outputMiB = 4096

// writer returns a child that writes as fast as a pipe accepts it.
func writer(mib int) *exec.Cmd {
	return exec.Command("dd", "if=/dev/zero", "bs=1M", "count="+strconv.Itoa(mib), "status=none")
}

// underStall runs a command under a limit for its silence.
func underStall(cmd *exec.Cmd) error {
	_, err := stall.Run(context.Background(), cmd, stall.Config{
		Step: "step", Store: &watchdog.Memory{}, NoOutput: time.Minute,
	})
	return err
}

// underStallItself does so, and the command has a file as it is.
func underStallItself(cmd *exec.Cmd) error {
	_, err := stall.Run(context.Background(), cmd, stall.Config{
		Step: "step", Store: &watchdog.Memory{}, NoOutput: time.Minute, FileItself: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// notAFile is a destination that os/exec must copy to.
type notAFile struct{ io.Writer }

// BenchmarkOutput measures all ways to pass on an output, in turns, because other work on the machine changes the speed
// by more than they differ. It reports medians.
func BenchmarkOutput(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(b, err)
	defer null.Close()
	b.Run("to=null", func(b *testing.B) { compareOutput(b, null) })
	b.Run("to=pipe", func(b *testing.B) { compareOutput(b, drainedPipe(b)) })
}

func compareOutput(b *testing.B, to *os.File) {
	b.Helper()
	all := []struct {
		name string
		run  func(b *testing.B, to *os.File)
		took []time.Duration
	}{
		{name: "stall", run: throughStall},
		{name: "writer", run: throughWriter},
		{name: "cat", run: throughCat},
		{name: "splice", run: throughSplice},
	}
	for b.Loop() {
		for i := range all {
			started := time.Now()
			all[i].run(b, to)
			all[i].took = append(all[i].took, time.Since(started))
		}
	}
	const gb = outputMiB << 20 / 1e9
	for _, way := range all {
		b.ReportMetric(gb/median(way.took).Seconds(), "GB/s-"+way.name)
	}
	b.ReportMetric(0, "ns/op")
}

// drainedPipe returns a pipe of 1 MiB whose reader discards everything.
func drainedPipe(b *testing.B) *os.File {
	b.Helper()
	r, w := bigPipe(b)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(b, err)
	go func() {
		splice(int(r.Fd()), int(null.Fd()))
		_ = null.Close()
		_ = r.Close()
	}()
	b.Cleanup(func() { _ = w.Close() })
	return w
}

func bigPipe(b *testing.B) (r, w *os.File) {
	b.Helper()
	const setPipeSize = 1031
	r, w, err := os.Pipe()
	require.NoError(b, err)
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), setPipeSize, 1<<20)
	require.Zero(b, errno)
	return r, w
}

func throughStall(b *testing.B, to *os.File) {
	b.Helper()
	cmd := writer(outputMiB)
	cmd.Stdout = to
	require.NoError(b, underStall(cmd))
}

func throughWriter(b *testing.B, to *os.File) {
	b.Helper()
	cmd := writer(outputMiB)
	cmd.Stdout = notAFile{to}
	require.NoError(b, cmd.Run())
}

func throughCat(b *testing.B, to *os.File) {
	b.Helper()
	r, w := bigPipe(b)
	cmd, cat := writer(outputMiB), exec.Command("cat")
	cmd.Stdout, cat.Stdin, cat.Stdout = w, r, to
	require.NoError(b, cat.Start())
	require.NoError(b, cmd.Start())
	_, _ = w.Close(), r.Close()
	require.NoError(b, cmd.Wait())
	require.NoError(b, cat.Wait())
}

// throughSplice only moves the pages: nothing can be faster.
func throughSplice(b *testing.B, to *os.File) {
	b.Helper()
	r, w := bigPipe(b)
	cmd := writer(outputMiB)
	cmd.Stdout = w
	require.NoError(b, cmd.Start())
	_ = w.Close()
	splice(int(r.Fd()), int(to.Fd()))
	_ = r.Close()
	require.NoError(b, cmd.Wait())
}

// splice moves everything to the end of the input.
func splice(from, to int) {
	for {
		if n, err := syscall.Splice(from, nil, to, nil, 1<<20, 1); err != nil && err != syscall.EINTR || n == 0 {
			return
		}
	}
}

// BenchmarkOutputIsAFile measures a command whose output is a file: without a sentinel, through the pipe that the sentinel
// puts in between, and with the file itself, which is watched and not copied. It runs all in turns and reports medians,
// because the disk's speed drifts by more than they differ. For the same reason the file has its pages already.
func BenchmarkOutputIsAFile(b *testing.B) {
	const mib = 512
	ways := []func(*exec.Cmd) error{(*exec.Cmd).Run, underStall, underStallItself}
	var took [3][]time.Duration
	f, err := os.Create(filepath.Join(b.TempDir(), "output"))
	require.NoError(b, err)
	defer f.Close()
	write := func(run func(*exec.Cmd) error) time.Duration {
		_, err := f.Seek(0, io.SeekStart)
		require.NoError(b, err)
		cmd := writer(mib)
		cmd.Stdout = f
		started := time.Now()
		require.NoError(b, run(cmd))
		return time.Since(started)
	}
	write(ways[0])
	for b.Loop() {
		for i, run := range ways {
			took[i] = append(took[i], write(run))
		}
	}
	inExec := median(took[0])
	b.ReportMetric(inExec.Seconds()*1e3, "ms-exec")
	b.ReportMetric(median(took[1]).Seconds()/inExec.Seconds(), "x-stall")
	b.ReportMetric(median(took[2]).Seconds()/inExec.Seconds(), "x-itself")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkShortCommand measures a command that does nothing, from start to finish, in turns. It reports medians, because
// on a busy machine single commands take ten times as long.
func BenchmarkShortCommand(b *testing.B) {
	ways := []func(*exec.Cmd) error{(*exec.Cmd).Run, underStall}
	var took [2][]time.Duration
	require.NoError(b, underStall(exec.Command("true"))) // starts the guard process
	for b.Loop() {
		for i, run := range ways {
			started := time.Now()
			require.NoError(b, run(exec.Command("true")))
			took[i] = append(took[i], time.Since(started))
		}
	}
	inExec, inStall := median(took[0]), median(took[1])
	b.ReportMetric(float64(inExec.Microseconds()), "µs-exec")
	b.ReportMetric(inStall.Seconds()/inExec.Seconds(), "x-stall")
	b.ReportMetric(0, "ns/op")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

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
