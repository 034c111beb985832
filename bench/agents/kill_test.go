package agents_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// tokenVariable is in the environment of every process that a test starts.
const tokenVariable = "ADAPTERTEST_TOKEN"

// A life is a run that processes of one test work at.
type life struct {
	t      *testing.T
	sdk    string
	folder string
	token  string
	began  time.Time
}

// newLife is a run that began ten minutes ago. The test fails if a process of it is alive at the end.
func newLife(t *testing.T, sdk string) *life {
	t.Helper()
	l := &life{t, sdk, t.TempDir(), strconv.FormatUint(rand.Uint64(), 36), time.Now().Add(-10 * time.Minute)}
	t.Cleanup(func() {
		for _, pid := range l.processes() {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			assert.Fail(t, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return l
}

// processes are the living ones that have the token in their environment. A zombie has none.
func (l *life) processes() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(l.token)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (l *life) command(scene string) *exec.Cmd {
	cmd := self("agent", l.sdk, scene, l.folder, l.began.Format(time.RFC3339Nano))
	cmd.Env = append(os.Environ(), tokenVariable+"="+l.token)
	cmd.Stderr = os.Stderr
	return cmd
}

// killed plays a scene in a process, and kills it at its end. It returns once no process of it is left.
func (l *life) killed(scene string, processes int) {
	l.t.Helper()
	cmd := l.command(scene)
	out, err := cmd.StdoutPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(l.t, err)
	require.Equal(l.t, "ready\n", line)
	assert.GreaterOrEqual(l.t, len(l.processes()), processes)
	require.NoError(l.t, cmd.Process.Kill())
	require.Error(l.t, cmd.Wait())
	for began := time.Now(); len(l.processes()) > 0 && time.Since(began) < patience; {
		time.Sleep(10 * time.Millisecond)
	}
	assert.Empty(l.t, l.processes())
}

// played plays a scene in a process to its end.
func (l *life) played(scene string) (r report) {
	l.t.Helper()
	out, err := l.command(scene).Output()
	require.NoError(l.t, err, "%s", out)
	require.NoError(l.t, json.Unmarshal(out, &r), "%s", out)
	assert.Empty(l.t, l.processes())
	return r
}

// TestKilled checks that an agent whose process was killed in the middle of what it did goes on in another one: in the
// run's window, with what was spent, with what the detector of loops knows, and without any process of the first.
func TestKilled(t *testing.T) {
	for sdk := range sdks {
		for _, c := range []struct {
			scene     string
			charged   int64 // calls of tools
			tokens    int64 // at least
			processes int
		}{
			{scene: "tool", charged: 3, tokens: 3 * said, processes: 3},
			{scene: "stream", charged: 2, tokens: 2*said + 1024 + maxOutput, processes: 1},
			{scene: "approval", charged: 3, tokens: 3 * said, processes: 1},
		} {
			switch { // a host of MCP has no model, and its approval is no call of a tool
			case sdk == "mcp" && c.scene == "stream":
				c.charged, c.tokens, c.processes = 3, 0, 2
			case sdk == "mcp" && c.scene == "approval":
				c.charged, c.tokens, c.processes = 2, 0, 2
			case sdk == "mcp":
				c.tokens = 0
			}
			t.Run(sdk+" in "+c.scene, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, sdk)
				l.killed(c.scene, c.processes)
				const away = time.Second
				time.Sleep(away)
				r := l.played("again")

				assert.Equal(t, watchdog.Attempt{Number: 2, Lost: true}, r.Attempt)
				worked, paused := wallClock-r.Left, time.Duration(0)
				if c.scene == "approval" {
					paused = away
				}
				assert.Greater(t, worked, 10*time.Minute, "the window goes on")
				assert.Less(t, worked, time.Since(l.began)-paused, "an approval that is open stops it, also while nobody is there")
				assert.Empty(t, r.Taken, "the hold is taken over")
				assert.Equal(t, c.charged, r.Used, "what the first began counts")
				assert.GreaterOrEqual(t, r.Tokens, c.tokens)

				assert.Equal(t, toolCalls-int(c.charged), r.Made, "and the limit holds for both")
				all := strings.Join(r.Told, "\n")
				assert.Contains(t, r.Told[min(1, len(r.Told)-1)]+r.Told[0], "You repeat yourself", "the third round of both")
				assert.Contains(t, all, "was not made")
				assert.Empty(t, r.Stop)
				assert.Empty(t, r.Err)
			})
		}
	}
}

// TestKilledStopped checks that a run that was stopped in a process which was killed then stays stopped: no call is made,
// until it is resumed by name.
func TestKilledStopped(t *testing.T) {
	for sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, sdk)
			l.killed("stop", 1)
			r := l.played("stopped")
			assert.Equal(t, string(watchdog.ToolCallsExceeded), r.Stop)
			assert.NotEmpty(t, r.Err)
			assert.Zero(t, r.Made)
			r = l.played("resumes")
			assert.Zero(t, r.Used)
			assert.Equal(t, 2, r.Made)
			assert.Empty(t, r.Err)
			assert.Empty(t, r.Stop)
		})
	}
}
