package main_test

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// patience bounds every wait in these tests; an idle machine needs milliseconds.
const patience = time.Minute

// childPrefix begins the first argument of a process that this test binary runs as a command. The other arguments are
// its steps.
const childPrefix = "watchdog-test-child-"

var stepFuncs = script.Common()

// A test binary that a test starts as a command is that, whatever TestMain does.
func init() {
	escape.Main()
	maps.Copy(stepFuncs, script.Steps{
		"say":    stepFuncs["print"],
		"leave":  startBackground,
		"answer": echoLine,
		"env":    func(name string) error { _, err := fmt.Println(name + "=" + os.Getenv(name)); return err },
		"raw":    func(string) error { _, err := term.MakeRaw(0); return err },
		"prompt": func(text string) error { _, err := fmt.Print(text); return err },
		"count":  countInterrupts,
		"quit":   tellQuit,
		"tick":   tick,
		"sizes":  tellSizes,
		"type":   typeKeys,
	})
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], childPrefix) {
		stepFuncs.Do(os.Args[2:])
	}
}

// A fixture runs the program in a temporary folder. Its cleanup checks that no process of its commands is alive.
type fixture struct {
	*testing.T
	dir   string
	token string // the first argument of each of its commands
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if racing.Enabled {
		t.Skip("the tests of run start hundreds of processes, which takes too long with the race detector")
	}
	f := &fixture{T: t, dir: t.TempDir(), token: fmt.Sprintf("%s%d", childPrefix, rand.Uint64())}
	t.Cleanup(func() {
		for _, left := range escape.WithToken(f.token) {
			require.Fail(t, "a process is left", "%+v", left)
			_ = syscall.Kill(left.PID, syscall.SIGKILL)
		}
	})
	return f
}

// withFixture runs a test in a fixture of its own.
func withFixture(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { test(t, newFixture(t)) })
}

// inFixture is withFixture, beside others.
func inFixture(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Helper()
	parallel(t, name, func(t *testing.T) { test(t, newFixture(t)) })
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// child returns a command that runs the steps; see package script.
func (f *fixture) child(steps ...string) []string {
	f.Helper()
	return append([]string{self(f.T), f.token}, steps...)
}

// cmd returns the program with the flags of run and a command.
func (f *fixture) cmd(flags string, command ...string) *exec.Cmd {
	f.Helper()
	args := append(strings.Fields(flags), "--")
	return f.program(append(args, command...)...)
}

// program returns the program, about to run.
func (f *fixture) program(args ...string) *exec.Cmd {
	f.Helper()
	cmd := programCmd(f, []string{"TERM=xterm", "NO_COLOR="}, append([]string{"run"}, args...)...)
	cmd.Dir = f.dir
	return cmd
}

// run is ended with the flags of run and a command.
func (f *fixture) run(flags string, command ...string) outcome {
	f.Helper()
	return f.ended(f.cmd(flags, command...))
}

// ended runs a program to its end and checks that nothing of its command is alive.
func (f *fixture) ended(cmd *exec.Cmd) outcome {
	f.Helper()
	o := finish(f.T, cmd)
	require.Empty(f, escape.WithToken(f.token), "a process outlives the program")
	return o
}

// under returns a command under another program.
func under(cmd *exec.Cmd, program ...string) *exec.Cmd {
	around := exec.Command(program[0], append(append(program[1:], cmd.Path), cmd.Args[1:]...)...)
	around.Dir, around.Env = cmd.Dir, cmd.Env
	return around
}

// inShell returns a shell that executes a script, in which "$@" is a command.
func inShell(cmd *exec.Cmd, script string) *exec.Cmd { return under(cmd, "sh", "-c", script, "sh") }

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) exists(name string) bool {
	_, err := os.Lstat(f.path(name))
	return err == nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// TestFewDescriptors checks that the error names the limit, and not /proc, which cannot be read then.
func TestFewDescriptors(t *testing.T) {
	f := newFixture(t)
	o := finish(t, inShell(f.cmd("", "true"), `ulimit -n 8; exec "$@"`)).must(t, 125)
	require.Contains(t, o.stderr, "raise its limit (ulimit -n)")
	require.NotContains(t, o.stderr, "mount")
}

// TestNoProc has the program where /proc is not mounted, as in a bare chroot.
func TestNoProc(t *testing.T) {
	f := newFixture(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	without := inShell(f.cmd("", "true"), `mount -t tmpfs none /proc && exec "$@"`)
	without.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	finish(t, without).must(t, 125).says(t, "guarded only where /proc is mounted; mount it with mount -t proc none /proc")
}

// TestNoInterpreter has a file without a first line that says what reads it, which timeout runs by a shell.
func TestNoInterpreter(t *testing.T) {
	f := newFixture(t)
	script := []byte("echo \"$0 $*\" here; kill -TERM $$\n")
	require.NoError(t, os.WriteFile(f.path("script"), script, 0o700)) //nolint:gosec // it must be executable
	for _, flags := range []string{"", "--no-output 1m --store sqlite:runs.db --artifacts state"} {
		o := f.run(flags, "./script", "a b", "-c").must(t, 143)
		require.Equal(t, outcome{stdout: "./script a b -c here\n", status: 143}, o)
	}
	const dir = "state/command/_stall/"
	require.NoError(t, os.MkdirAll(f.path(dir), 0o700))
	require.NoError(t, os.WriteFile(f.path(dir+"event.json"), nil, 0o600))
	f.run("--artifacts state", "./script").must(t, 143)
	require.True(t, f.exists(dir+"previous.event.json"), "what the attempt before left is set aside once")
}

// tick:8 prints so many lines in as many fifths of a second. Like most programs it buffers them unless they go to a
// terminal.
func tick(times string) error {
	out := bufio.NewWriter(os.Stdout)
	for n := range script.Number(times) {
		_, _ = fmt.Fprintln(out, n)
		if term.IsTerminal(1) {
			_ = out.Flush()
		}
		time.Sleep(200 * time.Millisecond)
	}
	return out.Flush()
}

// sizes:44 prints the size of its terminal, and again when it has changed, until it has so many columns.
func tellSizes(last string) error {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	for {
		width, height, err := term.GetSize(1)
		if err != nil {
			return err
		}
		fmt.Printf("%d columns, %d rows\n", width, height)
		if width == script.Number(last) {
			return nil
		}
		<-changed
	}
}

// typeKeys tells of each key of a raw terminal, until one is q.
func typeKeys(string) error {
	before, err := term.MakeRaw(0)
	if err != nil {
		return err
	}
	defer term.Restore(0, before)
	fmt.Print("ready\r\n")
	for {
		key, err := input.ReadByte()
		if err != nil || key == 'q' {
			return err
		}
		fmt.Printf("key %d\r\n", key)
	}
}

// leave starts a background process in a session of its own. A stubborn one obeys SIGKILL only, and warns when it does,
// an asking one calls a model.
func startBackground(kind string) error {
	steps := []string{os.Args[1], "stay"}
	if kind == "stubborn" {
		steps = []string{os.Args[1], "ignore:INT", "ignore:TERM", "warn:fatal", "stay"}
	}
	if kind == "asking" {
		steps = []string{os.Args[1], "ask:anthropic+stream+quiet", "stay"}
	}
	cmd := exec.Command(os.Args[0], steps...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if kind == "stubborn" {
		cmd.Stderr = os.Stderr
	}
	return cmd.Start()
}

var input = bufio.NewReader(os.Stdin)

// echoLine reads a line and prints it.
func echoLine(string) error {
	line, err := input.ReadString('\n')
	if err != nil {
		return err
	}
	_, err = fmt.Print("answer: ", line)
	return err
}

// tellQuit:CODE prints a line at SIGQUIT and exits.
func tellQuit(code string) error {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGQUIT)
	fmt.Println("ready")
	<-received
	fmt.Println("quit")
	os.Exit(script.Number(code))
	return nil
}

// countInterrupts waits for an interrupt and, after another line of input, prints how many came.
func countInterrupts(string) error {
	received := make(chan os.Signal, 10)
	signal.Notify(received, syscall.SIGINT)
	fmt.Println("counting")
	var interrupts atomic.Int32
	go func() {
		for range received {
			interrupts.Add(1)
			fmt.Println("interrupted")
		}
	}()
	if _, err := input.ReadString('\n'); err != nil {
		return err
	}
	_, err := fmt.Println("interrupts:", interrupts.Load())
	return err
}

// BenchmarkRun is the time of a command that does nothing: under the built program, under GNU timeout, and by itself.
func BenchmarkRun(b *testing.B) {
	built := build(b)
	nothing, err := exec.LookPath("true")
	require.NoError(b, err)
	db := "sqlite:" + filepath.Join(b.TempDir(), "runs.db")
	for _, way := range []struct {
		name string
		line []string
	}{
		{"bare", []string{nothing}},
		{"timeout", []string{"timeout", "1", nothing}},
		{"version", []string{built, "version"}},
		{"watchdog", []string{built, "run", "--", nothing}},
		{"watchdog with a limit", []string{built, "run", "--no-output", "1m", "--wall-clock", "1m", "--", nothing}},
		{"watchdog with sqlite", []string{built, "run", "--store", db, "--wall-clock", "1m", "--", nothing}},
	} {
		b.Run(way.name, func(b *testing.B) {
			if _, err := exec.LookPath(way.line[0]); err != nil {
				b.Skip(err)
			}
			var took, used []time.Duration
			for b.Loop() {
				cmd := exec.Command(way.line[0], way.line[1:]...)
				began := time.Now()
				require.NoError(b, cmd.Run())
				took = append(took, time.Since(began))
				used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
			}
			slices.Sort(took)
			slices.Sort(used)
			b.ReportMetric(milliseconds(took[len(took)/2]), "median-ms")
			b.ReportMetric(milliseconds(took[0]), "least-ms")
			b.ReportMetric(milliseconds(used[len(used)/2]), "median-cpu-ms") // without the guard, which ends after it
		})
	}
}

// build builds the program as it is released: with CGO_ENABLED=1 a linker takes a millisecond at each of two starts.
func build(b *testing.B, flags ...string) string {
	b.Helper()
	built := filepath.Join(b.TempDir(), "watchdog")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-o", built}, flags, []string{"."})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cmp.Or(os.Getenv("CGO_ENABLED"), "0"))
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	return built
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkSize is the size of the stripped program, and of the machine code in it, by where that comes from.
func BenchmarkSize(b *testing.B) {
	file, err := os.Stat(build(b, "-ldflags=-s -w"))
	require.NoError(b, err)
	sizes := codeOf(b, build(b))
	sizes["file"] = float64(file.Size())
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // leaves it out
			b.ReportMetric(sizes[name]/1e6, "MB")
		})
	}
}

// origins are what the names of functions have in them, the first that fits. A function that was made for types of ours
// is ours.
var origins = []struct {
	name string
	has  *regexp.Regexp
}{
	{"ours", regexp.MustCompile(`seed62658d38/watchdog|^main\.`)},
	{"SQLite", regexp.MustCompile(`modernc\.org/`)},
	{"PostgreSQL", regexp.MustCompile(`github\.com/jackc/`)},
	{"YAML", regexp.MustCompile(`go\.yaml\.in/`)},
	{"kong", regexp.MustCompile(`alecthomas/kong`)},
	{"templates", regexp.MustCompile(`(html|text)/template`)},
	{"HTTP and TLS", regexp.MustCompile(`^(vendor/|crypto/|net[./])`)},
	{"the rest", regexp.MustCompile(``)},
}

// codeOf returns the bytes of the functions of a program that is not stripped, together as code.
func codeOf(b *testing.B, program string) map[string]float64 {
	b.Helper()
	symbols, err := exec.Command("go", "tool", "nm", "-size", program).Output()
	require.NoError(b, err)
	sizes := map[string]float64{}
	for line := range strings.Lines(string(symbols)) {
		fields := strings.Fields(line) // address, size, kind and name, which may have spaces
		if len(fields) < 4 || strings.ToLower(fields[2]) != "t" {
			continue
		}
		size, err := strconv.ParseFloat(fields[1], 64)
		require.NoError(b, err)
		name := strings.Join(fields[3:], " ")
		for _, from := range origins {
			if from.has.MatchString(name) {
				sizes[from.name] += size
				break
			}
		}
		sizes["code"] += size
	}
	return sizes
}
