package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience bounds every wait of these tests.
const patience = time.Minute

const programVariable = "AGENT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// playAgent runs the program in a folder of its own and returns what it printed.
func playAgent(t *testing.T, answers string, args ...string) (status int, printed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	status = run(ctx, append([]string{"-pace", "0", "-state", "state"}, args...), strings.NewReader(answers), &out, &out)
	return status, out.String()
}

func TestDone(t *testing.T) {
	t.Chdir(t.TempDir())
	status, printed := playAgent(t, "y\n")
	assert.Zero(t, status, printed)
	for _, line := range []string{
		"agent: $ pwd; date\n", "agent-3-1: I have what was asked for.\n", "agent-3-3: $ ls -S | head -1\n",
		"write 73 bytes to agent-note.txt? [y/N]\n", "agent: The note is in agent-note.txt. That is all.\n",
	} {
		assert.Contains(t, printed, line)
	}
	assert.Regexp(t, `done; cost: 0\.\d+ USD of 0\.50 USD used`, printed)
	assert.FileExists(t, "agent-note.txt")
	status, printed = playAgent(t, "")
	assert.Zero(t, status)
	assert.Contains(t, printed, "is complete")
}

func TestApproval(t *testing.T) {
	for name, answer := range map[string]string{"no": "n\n", "nobody": "", "something else": "why?\n"} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			status, printed := playAgent(t, answer)
			assert.Zero(t, status, printed)
			assert.NoFileExists(t, "agent-note.txt")
		})
	}
}

// TestCap checks that the money ends the agent, sub-agents included: with its reserve it says what it has.
func TestCap(t *testing.T) {
	t.Run("it wraps up in its reserve", func(t *testing.T) {
		t.Chdir(t.TempDir())
		status, printed := playAgent(t, "", "-yes", "-cost", "0.037")
		assert.Zero(t, status, printed)
		assert.Contains(t, printed, "agent: [wrap_up: watchdog_cost_exceeded]\n")
		assert.Contains(t, printed, "agent: I was told to wrap up")
		assert.NoFileExists(t, "agent-note.txt")
	})
	t.Run("the README's cap ends it when its sub-agents are done, and is used by four fifths", func(t *testing.T) {
		readme, err := os.ReadFile("../../README.md")
		require.NoError(t, err)
		command := regexp.MustCompile(`go run ./examples/agent -yes -cost (\S+)`).FindSubmatch(readme)
		require.NotNil(t, command)
		t.Chdir(t.TempDir())
		status, printed := playAgent(t, "", "-yes", "-cost", string(command[1]))
		assert.Zero(t, status, printed)
		assert.Contains(t, printed, "agent: Three agents can look")
		assert.Contains(t, printed, "agent: [wrap_up: watchdog_cost_exceeded]\n")
		used, most := spentAtEnd(t, printed)
		assert.GreaterOrEqual(t, used, 0.8*most)
		said, of := spentAtEnd(t, string(readme))
		assert.InDelta(t, most, of, 0)
		assert.InDelta(t, used, said, 0.02*most, "the folder's files are a part of the conversation")
	})
	t.Run("what does not fit at all stops it, and it goes on in a fresh window", func(t *testing.T) {
		t.Chdir(t.TempDir())
		status, printed := playAgent(t, "", "-yes", "-cost", "0.01")
		assert.Equal(t, exitStopped, status, printed)
		assert.Contains(t, printed, "stopped: watchdog_cost_exceeded\nto go on: go run ./examples/agent -state state -yes -resume\n")
		status, printed = playAgent(t, "", "-yes")
		assert.Equal(t, exitStopped, status, "it stays stopped: %s", printed)
		status, printed = playAgent(t, "", "-yes", "-resume")
		assert.Zero(t, status, printed)
		assert.FileExists(t, "agent-note.txt")
	})
}

// spentAtEnd is what the run has used of its cap, as the program says it when it is done.
func spentAtEnd(t *testing.T, printed string) (used, most float64) {
	t.Helper()
	_, last, _ := strings.Cut(printed, "done; cost: ")
	_, err := fmt.Sscanf(last, "%f USD of %f USD used", &used, &most)
	require.NoError(t, err, printed)
	return used, most
}

// TestKilled checks that a run goes on after SIGKILL where it was, with what it had spent.
func TestKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "-state", "state", "-yes", "-pace", "30ms")
	cmd.Env = append(os.Environ(), programVariable+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	text := until(t, out, "Three agents can look")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	first := regexp.MustCompile(`run (\S+):`).FindStringSubmatch(text)
	require.NotNil(t, first, text)
	status, printed := playAgent(t, "", "-yes")
	assert.Zero(t, status, printed)
	assert.Contains(t, printed, "run "+first[1]+":", "the same run")
	assert.NotContains(t, printed, "run "+first[1]+": 1h0m0s left, cost: 0.00 USD", "what was spent is not forgotten")
	assert.NotContains(t, printed, "I look around first", "and what was said is not said again")
	assert.FileExists(t, "agent-note.txt")
}

// until reads until a text has come.
func until(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	var all []byte
	piece := make([]byte, 1<<10)
	for !strings.Contains(string(all), text) {
		n, err := from.Read(piece)
		require.NoError(t, err, "%s", all)
		all = append(all, piece[:n]...)
	}
	return string(all)
}

func TestPage(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, in := io.Pipe()
	answers, answer := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		assert.Zero(t, run(ctx, []string{"-state", "state", "-pace", "0", "-http", "127.0.0.1:0"}, answers, in, in))
		in.Close()
	})
	text := until(t, out, "[y/N]")
	url := regexp.MustCompile(`page: (\S+)`).FindStringSubmatch(text)
	id := regexp.MustCompile(`run (\S+):`).FindStringSubmatch(text)
	require.NotNil(t, url, text)
	resp, err := http.Get(url[1])
	require.NoError(t, err)
	shown, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Contains(t, string(shown), id[1])
	_, err = io.WriteString(answer, "y\n")
	require.NoError(t, err)
	require.NoError(t, answer.Close())
	_, _ = io.Copy(io.Discard, out)
	ended.Wait()
	http.DefaultClient.CloseIdleConnections()
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"-h":                    {exitDone, "usage: agent [flags] [task]"},
		"-cost 0":               {exitUsage, `-cost "0" is no amount of money`},
		"-cost NaN":             {exitUsage, `-cost "NaN" is no amount of money`},
		"-base-url http://x":    {exitUsage, "needs -prices"},
		"-prices 3":             {exitUsage, `-prices "3" are not two prices`},
		"-nosuch":               {exitUsage, "agent -h lists the flags"},
		"-http 256.0.0.1:99999": {exitError, "use a free address"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			status, printed := playAgent(t, "", strings.Fields(args)...)
			assert.Equal(t, want.status, status, printed)
			assert.Contains(t, printed, want.says)
		})
	}
}
