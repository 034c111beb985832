//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// prompt is the longest that a call may take that must not wait.
const prompt = 8 * time.Second

// late is for what has to happen, however busy the machine is.
const late = time.Minute

// guardsOf returns the PIDs of the guards of a host that have not ended.
func guardsOf(host int) []int {
	return slices.DeleteFunc(allChildrenOf(host), func(pid int) bool { return !hasName(pid, "wdguard") || !running(pid) })
}

// allChildrenOf returns the children of all threads of a process. It asks each process for its parent: one whose parent is
// a thread that ends meanwhile can be missing in the lists of children of all threads.
func allChildrenOf(pid int) (all []int) {
	folders, _ := filepath.Glob("/proc/[1-9]*")
	for _, folder := range folders {
		if child, _ := strconv.Atoi(filepath.Base(folder)); proctree.ParentOf(child) == pid {
			all = append(all, child)
		}
	}
	return all
}

// asSeen runs this program in the privileges role, as os/exec or as a guarded command does.
func asSeen(guarded bool) (string, error) {
	env := []string{roleVariable + "=privileges", quickExit}
	if guarded {
		return guardedOutput(self, env...)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Dir = env, "/"
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// changeScheduling changes nice value, CPUs and oom_score_adj of an unprivileged host, up and down again, and compares
// what guarded commands have with those of os/exec. It prints how many guards that took.
func changeScheduling() error {
	runtime.LockOSThread()
	const setDumpable = 4 // or /proc/self belongs to root
	if err := cmp.Or(changes["drops root"](), escape.ChangeThread(syscall.SYS_PRCTL, setDumpable, 1, 0)); err != nil {
		return err
	}
	guards := map[int]bool{}
	compare := func(what string) error {
		want, err := asSeen(false)
		if err != nil {
			return err
		}
		got, err := asSeen(true)
		if err == nil && got != want {
			err = fmt.Errorf("%s: by os/exec:\n%s\nguarded:\n%s", what, want, got)
		}
		for _, guard := range guardsOf(os.Getpid()) {
			guards[guard] = true
		}
		return err
	}
	fresh := make(chan error)
	setOOM := func(score string) error { return os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0) }
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"nicer by 2", func() error { return beNicer(2) }},
		{"one CPU", func() error { return useCPUs(1) }},
		{"all CPUs", func() error { return useCPUs(1<<min(runtime.NumCPU(), 63) - 1) }},
		{"oom_score_adj 300", func() error { return setOOM("300") }},
		{"oom_score_adj 900", func() error { return setOOM("900") }},
		{"oom_score_adj 300 again", func() error { return setOOM("300") }},
		{"nicer by 1 more", func() error { return beNicer(1) }},
		{"nicer by 6 more", func() error { return beNicer(6) }},
	} {
		if err := errors.Join(step.change(), compare(step.name)); err != nil {
			return err
		}
	}
	go func() {
		runtime.LockOSThread()
		fresh <- compare("another thread, with the nice value of the host")
	}()
	if err := errors.Join(<-fresh, compare("the first thread, which is nicer")); err != nil {
		return err
	}
	fmt.Println(len(guards))
	return nil
}

// alternate starts commands in turn from a thread that dropped root and from one that did not, and looks at the user of
// each. It prints how many guards there were, and waits until the one that was not used last is gone.
func alternate() error {
	proctree.SetIdleBounds(time.Minute, time.Minute) // a busy machine can take seconds for a turn
	guards := map[int]bool{}
	turns := [2]chan bool{make(chan bool), make(chan bool)}
	results := make(chan error)
	for i, turn := range turns {
		go func() {
			runtime.LockOSThread()
			if i == 1 {
				if err := changes["drops root for a thread"](); err != nil {
					results <- err
				}
			}
			for range turn {
				text, err := asSeen(true)
				if user := fmt.Sprintf("Uid:\t%d\t", i*nobody); err == nil && !strings.HasPrefix(text, user) {
					err = fmt.Errorf("not %q: %s", user, text)
				}
				results <- err
			}
		}()
	}
	for n := range 20 {
		turns[n%2] <- true
		if err := <-results; err != nil {
			return err
		}
		for _, guard := range guardsOf(os.Getpid()) {
			guards[guard] = true
		}
	}
	fmt.Println(len(guards))
	proctree.SetIdleBounds(time.Minute, time.Second)
	for until := time.Now().Add(late); len(guardsOf(os.Getpid())) > 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			return errors.New("the guard that is not used any more lives on")
		}
	}
	return nil
}

// TestGuards counts the guards of hosts that change.
func TestGuards(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can drop anything")
	}
	t.Parallel()
	program := forEveryone(t, 0o755)
	t.Run("a host that changes its scheduling needs one, and one more for a lower nice value", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "2", runRole(t, program, "scheduling"))
	})
	t.Run("a host that alternates between two users has two, and one when it has stopped", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "2", runRole(t, program, "alternating"))
	})
}

// TestIdleGuard checks that a guard without commands ends, and that the next command has a new one.
func TestIdleGuard(t *testing.T) {
	defer proctree.SetIdleBounds(50*time.Millisecond, 10*time.Millisecond)()
	guards := func() []int { return guardsOf(os.Getpid()) }
	// The guard of an earlier test ends now, which can take longer than to start a new one.
	require.Eventually(t, func() bool { return len(guards()) == 0 }, late, time.Millisecond)
	keeps := start(t, "sleep", "1000")
	before := guards()
	require.Len(t, before, 1)
	gone(t, start(t, "true"))
	runWithOtherTimers(t)
	require.Eventually(t, func() bool { return slices.Equal(guards(), before) }, late, time.Millisecond,
		"the guard of the other thread has no command")
	gone(t, start(t, "true"))
	assert.Equal(t, before, guards(), "it has a command, and takes the next")
	assert.True(t, running(before[0]))
	endNow(t, keeps)
	require.Eventually(t, func() bool { return len(guards()) == 0 }, late, time.Millisecond)
	gone(t, start(t, "true"))
	require.Eventually(t, func() bool { return len(guards()) == 0 }, late, time.Millisecond, "the next test finds none")
}

// runWithOtherTimers runs a command on a thread whose commands need a guard of their own.
func runWithOtherTimers(t *testing.T) {
	var other sync.WaitGroup
	other.Go(func() {
		if assert.NoError(t, changes["has other timers"]()) { // the thread ends with the goroutine
			gone(t, start(t, "true"))
		}
	})
	other.Wait()
}

// startAll starts so many commands at once. It returns their errors, and how long the last start took.
func startAll(ctx context.Context, n int) (errs []error, took time.Duration) {
	began := time.Now()
	var all sync.WaitGroup
	errs = make([]error, n)
	for i := range n {
		all.Go(func() {
			tree, err := proctree.StartContext(ctx, proctree.Command{Path: "/bin/true", Args: []string{"true"}})
			if errs[i] = err; err == nil {
				<-tree.Gone()
			}
		})
	}
	all.Wait()
	return errs, time.Since(began)
}

// allStopped reports whether all living threads of a process are stopped: only then does its parent know.
func allStopped(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	living := 0
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		switch {
		case strings.Contains(string(text), ") Z "):
		case strings.Contains(string(text), ") T "):
			living++
		default:
			return false
		}
	}
	return living > 0
}

// allDead reports whether no thread of a process lives. Its files may be open until then, although it is a zombie.
func allDead(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	return !slices.ContainsFunc(threads, func(thread string) bool {
		text, err := os.ReadFile(thread)
		return err == nil && !strings.Contains(string(text), ") Z ")
	})
}

// stopGuard stops the guard of this process until it is resumed.
func stopGuard(t *testing.T) (guard int, resume func()) {
	t.Helper()
	guard = guardOf(t, os.Getpid())
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	resume = func() { _ = syscall.Kill(guard, syscall.SIGCONT) }
	t.Cleanup(resume)
	require.Eventually(t, func() bool { return allStopped(guard) }, late, time.Millisecond)
	return guard, resume
}

func TestStoppedGuard(t *testing.T) {
	tree := start(t, "sleep", "1000")
	guard, resume := stopGuard(t)

	cancelled, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user has gone home")
	cancel(reason)
	errs, took := startAll(cancelled, 1)
	require.ErrorIs(t, errs[0], reason)
	assert.Less(t, took, prompt)

	errs, took = startAll(t.Context(), 10)
	require.NoError(t, errors.Join(errs...), "a new guard starts them")
	assert.Less(t, took, prompt)
	assert.True(t, running(tree.PID()), "the commands of the stopped guard live on")
	resume()
	endNow(t, tree)
	assert.NoError(t, tree.Err())
	require.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond, "it takes no more commands")
}

// TestAnswerAfterContext checks how long a start whose context has ended waits for a guard that runs: it takes an answer,
// and does not wait for ever for one.
func TestAnswerAfterContext(t *testing.T) {
	running := start(t, "sleep", "1000")
	defer endNow(t, running)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user has gone home")
	cancel(reason)
	require.NoError(t, proctree.AwaitAnswer(ctx, running.PID(), `{"started":1}`))
	silent := make(chan error, 1)
	began := time.Now()
	go func() { silent <- proctree.AwaitAnswer(ctx, running.PID(), "") }()
	select {
	case err := <-silent:
		require.ErrorIs(t, err, reason)
		assert.GreaterOrEqual(t, time.Since(began), proctree.AnswerGrace)
	case <-time.After(late):
		require.FailNow(t, "it waits on")
	}
}

// TestSlowGuard checks that a tree whose guard did not answer in time has no survivors while it dies, nor when it is
// dead and the guard has not told so.
func TestSlowGuard(t *testing.T) {
	tree := start(t, "sleep", "1000")
	guard, resume := stopGuard(t)
	reaches(t, tree, syscall.SIGCONT, 1, "by this process")
	alive, known := tree.Survivors()
	assert.Equal(t, []int{tree.PID()}, alive)
	assert.False(t, known, "a kill ends it")
	resume()
	require.Eventually(t, func() bool { return !allStopped(guard) }, late, time.Millisecond)
	require.NoError(t, tree.Kill())
	for gone := false; !gone; {
		alive, known = tree.Survivors()
		select {
		case <-tree.Gone():
			gone = true
		default:
			require.False(t, known, "%v", alive)
		}
	}
}

// TestHarmedGuard stops and kills the guard while commands start.
func TestHarmedGuard(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			var harmed []int
			ended := make(chan struct{})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { startUntil(t, ended) })
			}
			for range max(8, racing.Rounds(8, 100)) {
				time.Sleep(50 * time.Millisecond)
				for _, guard := range guardsOf(os.Getpid()) {
					if state(guard) != 'T' && syscall.Kill(guard, sig) == nil {
						harmed = append(harmed, guard)
					}
				}
			}
			close(ended)
			all.Wait()
			for _, guard := range harmed {
				_ = syscall.Kill(guard, syscall.SIGCONT)
				if sig == syscall.SIGKILL { // one that is dying can still take a request, and cannot carry it out
					require.Eventually(t, func() bool { return allDead(guard) }, late, time.Millisecond)
				}
			}
			assert.NotEmpty(t, harmed)
			errs, took := startAll(t.Context(), 4)
			require.NoError(t, errors.Join(errs...))
			assert.Less(t, took, prompt)
			require.Eventually(t, func() bool { return len(guardsOf(os.Getpid())) == 1 }, late, time.Millisecond)
		})
	}
}

// startUntil starts one command after the other. Every start must return in time, with a clear error if it fails.
func startUntil(t *testing.T, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		began := time.Now()
		tree, err := proctree.StartContext(t.Context(), proctree.Command{Path: "/bin/true", Args: []string{"true"}})
		assert.Less(t, time.Since(began), prompt)
		if err != nil {
			assert.ErrorIs(t, err, proctree.ErrGuard)
			assert.NotContains(t, err.Error(), "%!")
			continue
		}
		select {
		case <-tree.Gone():
		case <-time.After(100 * time.Millisecond): // its guard was stopped
		}
	}
}

// makeThreads has the runtime make threads, which it keeps: without one where it needs it, it ends the program.
func makeThreads(n int) {
	var made, over sync.WaitGroup
	made.Add(n)
	release := make(chan struct{})
	for range n {
		over.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		})
	}
	made.Wait()
	close(release)
	over.Wait()
}

// failToStart is a host whose guard does not start. It prints the errors of ten commands and how long they took, which
// is ten times as long if each waits on its own.
func failToStart() error {
	_ = os.Setenv(delay.Variable, os.Getenv("PROCTREE_TEST_DELAY"))
	if os.Getenv("PROCTREE_TEST_NPROC") != "" {
		const limitOfProcesses = 6
		makeThreads(64)
		err := errors.Join(changes["drops root"](), syscall.Setrlimit(limitOfProcesses, &syscall.Rlimit{Cur: 1, Max: 1}))
		if err != nil {
			return err
		}
	}
	if bound, err := time.ParseDuration(os.Getenv("PROCTREE_TEST_BOUND")); err == nil {
		proctree.SetStartBound(bound)
	}
	ctx := context.Background()
	if patience, err := time.ParseDuration(os.Getenv("PROCTREE_TEST_PATIENCE")); err == nil {
		impatient, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = impatient
	}
	errs, took := startAll(ctx, 10)
	for _, err := range errs {
		fmt.Println(err, errors.Is(err, context.DeadlineExceeded), errors.Is(err, proctree.ErrGuard))
	}
	fmt.Println(took)
	return nil
}

// TestGuardThatDoesNotStart checks that all commands fail in time, and at once, not one after the other.
func TestGuardThatDoesNotStart(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 10*time.Second, proctree.StartBound())
	program := forEveryone(t, 0o755)
	for _, c := range []struct {
		name, delay, patience, bound, nproc string
		want, is                            string // in each line, and at its end
		within                              time.Duration
	}{
		{name: "an initializer of the program that hangs, and a context", delay: "1h", patience: "300ms", bound: "1h",
			want: "context deadline exceeded", is: " true false", within: late},
		// The caller and the guard's own wait end together, so either can be told.
		{name: "an initializer of the program that hangs", delay: "1h", bound: "3s",
			want: "within 3s", is: " false true", within: 27 * time.Second},
		{name: "an initializer of the program that exits", delay: "3", bound: "1h",
			want: "ended before it became the guard (exit status 3)", within: late},
		{name: "no more processes", nproc: "1", bound: "1h", want: "resource temporarily unavailable", within: late},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.nproc != "" && os.Getuid() != 0 {
				t.Skip("only root can become a user with a limit of its own")
			}
			text := runRole(t, program, "failing", "PROCTREE_TEST_DELAY="+c.delay, "PROCTREE_TEST_PATIENCE="+c.patience,
				"PROCTREE_TEST_BOUND="+c.bound, "PROCTREE_TEST_NPROC="+c.nproc)
			lines := strings.Split(text, "\n")
			for _, line := range lines[:len(lines)-1] {
				assert.Contains(t, line, c.want)
				assert.True(t, strings.HasSuffix(line, c.is), line)
				assert.NotContains(t, line, "%!")
			}
			took, err := time.ParseDuration(lines[len(lines)-1])
			require.NoError(t, err)
			assert.Less(t, took, c.within)
		})
	}
}
