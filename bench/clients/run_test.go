package clients_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a client may take, on a busy machine.
const patience = 3 * time.Minute

// flags are further flags of the meter, to try what it does with them.
var flags = strings.Fields(os.Getenv("CLIENTTEST_FLAGS"))

// A run is a client that has run under a meter.
type run struct {
	client

	folder         string
	status         int
	stdout, stderr string
	ended          time.Time
	report         report
}

// A report is what watchdog prints with --json.
type report struct {
	Reason     string `json:"reason"`
	ModelCalls int    `json:"model_calls"`
	Spent      []struct {
		Limit         string
		Used, Allowed int64
	}
}

// used are the tokens that the meter counted.
func (r *run) used() int64 {
	if len(r.report.Spent) == 0 {
		return -1
	}
	return r.report.Spent[0].Used
}

// under runs the client under a meter with a cap, in a home and a project of its own.
func (c client) under(t *testing.T, u *upstream, tokens int64, env ...string) *run {
	t.Helper()
	if node < c.node {
		t.Skipf("skipped: %s needs node %d, and here is %d", c.name, c.node, node)
	}
	r := &run{client: c, folder: t.TempDir()}
	for _, name := range []string{"home", "project", "artifacts"} {
		require.NoError(t, os.Mkdir(filepath.Join(r.folder, name), 0o700))
	}
	if c.memory != "" {
		r.write(t, filepath.Join("project", c.memory), promptCanary+"\n")
	}
	if c.settings[0] != "" {
		r.write(t, filepath.Join("home", c.settings[0]), c.settings[1])
	}
	words := append([]string{
		"run", "--store", r.store(), "--id", "agent", "--artifacts", filepath.Join(r.folder, "artifacts"), "--meter",
		"--tokens", strconv.FormatInt(tokens, 10), "--json", "--wall-clock", "150s",
	}, flags...)
	cmd := exec.Command(program, append(append(words, "--"), c.line()...)...)
	cmd.Dir, cmd.Env = filepath.Join(r.folder, "project"), append(r.environ(u), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	r.ended = time.Now()
	late.Stop()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	r.status, r.stdout, r.stderr = cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r.report); err != nil {
		t.Fatalf("no report, status %d: %s", r.status, tail(r.stderr))
	}
	return r
}

func (r *run) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func (r *run) store() string { return "sqlite:" + filepath.Join(r.folder, "watchdog.db") }

// environ is the environment of a person who has keys, and no settings.
func (r *run) environ(u *upstream) []string {
	return slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(r.folder, "home"), "TERM=dumb",
		"ANTHROPIC_API_KEY=" + keyCanary, "OPENAI_API_KEY=" + keyCanary, "CODEX_API_KEY=" + keyCanary,
		"GEMINI_API_KEY=" + keyCanary,
	}, u.environ, r.env)
}

// why is what watchdog tells about the run afterwards.
func (r *run) why(t *testing.T, flags ...string) string {
	t.Helper()
	words := append([]string{"why", "--store", r.store()}, append(flags, "agent")...)
	text, err := exec.Command(program, words...).CombinedOutput()
	require.NoError(t, err, string(text))
	return string(text)
}

// stopped is when the limit stopped the run.
func (r *run) stopped(t *testing.T) time.Time {
	t.Helper()
	var story struct{ End struct{ At time.Time } }
	require.NoError(t, json.Unmarshal([]byte(r.why(t, "--json")), &story))
	return story.End.At
}

// page is the run's page.
func (r *run) page(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--store", r.store(), "--page", "--listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	_, address, _ := strings.Cut(line, "the page is at ")
	address, _, found := strings.Cut(address, ";")
	require.True(t, found, line)
	resp, err := http.Get(address + "?run=agent")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}

// soon is how long a client may take to end, and longer where more programs run than there are processors.
func soon(idle time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return idle
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return time.Duration(max(1, load/float64(runtime.NumCPU())) * float64(idle))
}

// tail is the end of a text, for a failure.
func tail(text string) string { return text[max(0, len(text)-2000):] }
