package watchdogmcp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// slack is how late something may be on a busy machine.
const slack = 30 * time.Second

// tokenVariable is in the environment of every process that a test starts.
const tokenVariable = "WATCHDOGMCP_TEST_TOKEN"

// command returns this program as a child process. The test fails if any process of it is alive at the end.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), tokenVariable+"="+strconv.FormatUint(rand.Uint64(), 36))
	t.Cleanup(func() {
		for _, pid := range processesOf(cmd) {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			assert.Fail(t, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return cmd
}

// processesOf returns the living processes that have the token of a command in their environment. A zombie has none.
func processesOf(cmd *exec.Cmd) (pids []int) {
	token := []byte(cmd.Env[len(cmd.Env)-1])
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if text, _ := os.ReadFile(name); bytes.Contains(text, token) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// quick are graces for servers that a test ends.
var quick = stall.Config{
	Step: "files",
	Grace: []stall.Step{
		{Signal: syscall.SIGINT, Grace: 200 * time.Millisecond}, {Signal: syscall.SIGTERM, Grace: 200 * time.Millisecond},
	},
}

// A started is a client of a server that is a child process.
type started struct {
	*mcp.ClientSession
	cmd       *exec.Cmd
	transport *watchdogmcp.Transport
}

// start connects a guarded client to a server, and closes the transport at the end of the test.
func start(t *testing.T, guard watchdogmcp.Config, grace time.Duration, args ...string) started {
	t.Helper()
	s := started{cmd: command(t, append([]string{"mcp-server"}, args...)...)}
	var err error
	s.transport, err = watchdogmcp.Command(t.Context(), s.cmd, quick)
	require.NoError(t, err)
	s.transport.ExitGrace = grace
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	watchdogmcp.New(guard).Attach(client)
	s.ClientSession, err = client.Connect(t.Context(), s.transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = s.transport.Close()
		_ = s.Close()
	})
	return s
}

func (s started) use(t *testing.T, tool string) (*mcp.CallToolResult, error) {
	t.Helper()
	return s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
}

// useGrandchild has the server start a grandchild, and returns its ID.
func (s started) useGrandchild(t *testing.T) int {
	t.Helper()
	result, err := s.use(t, "grandchild")
	require.NoError(t, err)
	pid, err := strconv.Atoi(textOf(t, result))
	require.NoError(t, err)
	require.Len(t, processesOf(s.cmd), 2)
	return pid
}
