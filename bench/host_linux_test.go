package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// hostVariable makes the test binary a host. Its value is the way and the number of the host's commands.
const hostVariable = "WATCHDOG_BENCH_HOST"

func TestMain(m *testing.M) {
	if task := os.Getenv(hostVariable); task != "" {
		if err := beHost(task); err != nil {
			fmt.Fprintln(os.Stderr, "host:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A way runs a command that prints nothing until ctx ends, in a host.
type way struct {
	name string
	// inside says that ctx is a run's.
	inside bool
	run    func(ctx context.Context) error
}

var ways = []way{
	{name: "exec", run: func(ctx context.Context) error { return exec.CommandContext(ctx, "sleep", "1h").Run() }},
	{name: "outside", run: guarded},
	{name: "inside", inside: true, run: guarded},
}

func guarded(ctx context.Context) error {
	cfg := stall.Config{Step: "step", NoOutput: time.Hour}
	if watchdog.FromContext(ctx) == nil {
		cfg.Store = &watchdog.Memory{}
	}
	_, err := stall.Run(ctx, exec.Command("sleep", "1h"), cfg)
	return err
}

// A host is a process of its own that runs idle commands, so that nothing else in it wakes up or takes memory.
type host struct {
	// pids are the host's and its guard's. The second one is missing with os/exec.
	pids []int
}

// startHost returns when all commands of the host run and nothing has to settle any more. The benchmark's end ends it.
func startHost(b *testing.B, w way, commands int) *host {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", hostVariable, w.name, commands))
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	require.NoError(b, err)
	reports, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, orders.Close())
		require.NoError(b, cmd.Wait())
	})
	_, err = bufio.NewReader(reports).ReadString('\n')
	require.NoError(b, err, "the host is ready")
	h := &host{pids: []int{cmd.Process.Pid}}
	for _, child := range children(cmd.Process.Pid) {
		if name, _ := os.ReadFile(proc(child, "comm")); string(name) == "wdguard\n" {
			h.pids = append(h.pids, child)
		}
	}
	return h
}

// atOnce is how many commands a host starts at once: on a busy machine a thousand could take longer than a start may.
const atOnce = 50

// beHost runs commands that sleep until its input ends.
func beHost(task string) error {
	name, count, _ := strings.Cut(task, ":")
	commands, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := ctx
	if w.inside {
		run, err := watchdog.New(ctx, watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour},
		})
		if err != nil {
			return err
		}
		defer run.Close()
		running = run.Context()
	}
	var all sync.WaitGroup
	for started := range commands {
		if started%atOnce == 0 {
			awaitSleeping(started)
		}
		all.Go(func() {
			if err := w.run(running); ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "host:", err)
				os.Exit(1)
			}
		})
	}
	awaitSleeping(commands)
	debug.FreeOSMemory()
	time.Sleep(time.Second) // until the garbage collector and the scheduler have settled
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // only the end counts
	cancel()
	all.Wait()
	return nil
}

// awaitSleeping waits until this process, or its guard, has that many children that execute sleep.
func awaitSleeping(commands int) {
	sleeping := 0
	for sleeping < commands {
		time.Sleep(10 * time.Millisecond)
		sleeping = 0
		for _, child := range children(os.Getpid()) {
			for _, pid := range append(children(child), child) {
				if name, _ := os.ReadFile(proc(pid, "comm")); string(name) == "sleep\n" {
					sleeping++
				}
			}
		}
	}
}

// children returns the PIDs of the children of a process.
func children(pid int) (all []int) {
	files, _ := filepath.Glob(proc(pid, "task", "*", "children"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

func proc(pid int, names ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(pid)}, names...)...)
}

// statusNumber returns a number of a /proc status file, 0 if there is none.
func statusNumber(file, field string) int {
	text, _ := os.ReadFile(file)
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	return n
}
