package watchdogmcp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// The tests in this file use real time, because the servers are processes.

// TestTransport checks that no process of a server is left after Close, and that Close says how it ended.
func TestTransport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		grace   time.Duration
		endedBy syscall.Signal
	}{
		"a server that exits at the end of its input": {grace: slack},
		"one that ignores it, and signals":            {args: []string{"stubborn"}, grace: time.Second, endedBy: syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, watchdogmcp.Config{}, c.grace, c.args...)
			s.useGrandchild(t)
			require.NoError(t, s.Close())
			assert.Empty(t, processesOf(s.cmd))
			result, err := s.transport.Close()
			require.NoError(t, err)
			assert.Equal(t, c.endedBy, result.EndedBy)
			assert.Equal(t, c.endedBy == 0, result.Finished)
			if c.endedBy == 0 {
				assert.Equal(t, 1, result.LeftBehind, "the grandchild")
			}
			require.NoError(t, s.Wait(), "an end that was asked for is no error")
			_, err = s.use(t, "answer")
			require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
			require.ErrorIs(t, err, mcp.ErrConnectionClosed)
		})
	}
}

// TestTransportClosedInCall checks that Close waits for no call.
func TestTransportClosedInCall(t *testing.T) {
	t.Parallel()
	s := start(t, watchdogmcp.Config{}, time.Second)
	failed := make(chan error)
	go func() {
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ignore"})
		failed <- err
	}()
	time.Sleep(200 * time.Millisecond)
	result, err := s.transport.Close()
	require.NoError(t, err)
	assert.True(t, result.Terminated)
	err = <-failed
	require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
	assert.Contains(t, err.Error(), `call the tool "ignore" of server "files": the MCP server is gone: connect again: `,
		"and not that it ended by itself")
	assert.Empty(t, processesOf(s.cmd))
	require.NoError(t, s.Wait())
}

func awaitNone(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	assert.Eventually(t, func() bool { return len(processesOf(cmd)) == 0 }, slack, 10*time.Millisecond)
}

// TestHostKilled checks that the server and what it started die with a host that is killed, and that they would not.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"guarded", "plain"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "mcp-host", transport)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", line)
			require.GreaterOrEqual(t, len(processesOf(cmd)), 3)
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			if transport == "plain" {
				assert.Eventually(t, func() bool { return len(processesOf(cmd)) == 1 }, slack, 10*time.Millisecond)
				require.NoError(t, syscall.Kill(processesOf(cmd)[0], syscall.SIGKILL))
			}
			awaitNone(t, cmd)
		})
	}
}

// TestServerDies checks that the death of a server in the middle of a call is an error that names it and how it ended,
// also if a process that it left behind has its output open.
func TestServerDies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, says string
		code       int
	}{
		{tool: "exit", says: `server "files": exit status 3`, code: 3},
		{tool: "panic", says: `server "files": exit status 2`, code: 2},
		{tool: "kill", says: `server "files": signal: killed`, code: -1},
		{tool: "leave", says: `server "files" exited by itself with status 0`},
	} {
		for _, left := range []bool{false, true} {
			name := c.tool
			if left {
				name += " with a grandchild"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := start(t, watchdogmcp.Config{}, slack)
				if left {
					s.useGrandchild(t)
				}
				began := time.Now()
				result, err := s.use(t, c.tool)
				assert.Nil(t, result)
				assert.Less(t, time.Since(began), slack)
				require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
				assert.Equal(t, `call the tool "`+c.tool+`": calling "tools/call": the MCP server is gone: `+c.says, err.Error())
				if c.code != 0 {
					var exit *exec.ExitError
					require.ErrorAs(t, err, &exit)
					assert.Equal(t, c.code, exit.ExitCode())
				}
				require.ErrorIs(t, s.Wait(), watchdogmcp.ErrServerGone)
				assert.Empty(t, processesOf(s.cmd))
				_, err = s.use(t, "answer")
				require.ErrorIs(t, err, watchdogmcp.ErrServerGone, "and so is that of the next call")
				assert.Contains(t, err.Error(), c.says)
				ended, err := s.transport.Close()
				assert.True(t, ended.Finished)
				assert.Equal(t, c.code != 0, err != nil)
			})
		}
	}
}

// TestServerQuiet checks a server that closes its output and lives on.
func TestServerQuiet(t *testing.T) {
	t.Parallel()
	s := start(t, watchdogmcp.Config{}, slack)
	_, err := s.use(t, "quiet")
	require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
	assert.Contains(t, err.Error(), `server "files" has closed its standard output, but not exited`)
	require.ErrorIs(t, s.Wait(), watchdogmcp.ErrServerGone)
	assert.Empty(t, processesOf(s.cmd), "it is of no use any more")
}

// TestServerBabbles checks a server whose output is no message.
func TestServerBabbles(t *testing.T) {
	t.Parallel()
	s := start(t, watchdogmcp.Config{}, slack)
	_, err := s.use(t, "babble")
	require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
	assert.Contains(t, err.Error(), `of server "files": the MCP server is gone: connect again`)
	require.Error(t, s.Wait())
	assert.Empty(t, processesOf(s.cmd))
}

// TestServerStopped checks that a call is abandoned where the SDK does not return at the end of its context, which is
// where a server does not read, and that Close ends what is left of it.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	s := start(t, watchdogmcp.Config{
		Tools: watchdogmcp.Limits{Limit: 2 * time.Second, Grace: 200 * time.Millisecond},
	}, time.Second)
	result, err := s.use(t, "stop")
	require.NoError(t, err)
	assert.Contains(t, textOf(t, result), "It was told to stop, but may still be running.")
	large := map[string]any{"text": strings.Repeat("x", 1<<20)} // more than a pipe holds
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			began := time.Now()
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "answer", Arguments: large})
			assert.NoError(t, err)
			assert.True(t, result.IsError)
			assert.Contains(t, textOf(t, result), "It did not stop when it was told to and may still be running.")
			assert.Greater(t, time.Since(began), 2200*time.Millisecond)
			assert.Less(t, time.Since(began), slack)
		})
	}
	both.Wait()
	ended, err := s.transport.Close()
	require.NoError(t, err)
	assert.True(t, ended.Terminated)
	assert.Empty(t, processesOf(s.cmd))
	require.NoError(t, s.Close(), "which would wait for the calls without that")
}

// TestServerCalls checks calls of a real server: a limit, progress, and calls beside them.
func TestServerCalls(t *testing.T) {
	t.Parallel()
	s := start(t, watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: 5 * time.Second, Limit: time.Minute}}, time.Second)
	wd := newRun(t, watchdog.Budget{})
	var all sync.WaitGroup
	for _, tool := range []string{"hang", "ignore", "work", "answer"} {
		all.Go(func() {
			result, err := s.CallTool(wd.Context(), &mcp.CallToolParams{Name: tool})
			assert.NoError(t, err)
			assert.Equal(t, tool == "hang" || tool == "ignore", result.IsError, tool)
		})
	}
	all.Wait()
	assert.Nil(t, wd.Stop())
	require.NoError(t, s.Close(), "although a tool is under way in the server, so that it does not exit by itself")
	result, err := s.transport.Close()
	require.NoError(t, err)
	assert.True(t, result.Terminated)
}

// TestServerInRun checks that a server in a run is a layer of it: its messages are activity, and it ends with the run.
func TestServerInRun(t *testing.T) {
	t.Parallel()
	wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
	require.NoError(t, err)
	defer wd.Close()
	cmd := command(t, "mcp-server")
	transport, err := watchdogmcp.Command(wd.Context(), cmd, quick)
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil).Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "answer"}) // outside of the run and its holds
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return wd.SinceActivity() < time.Since(began) }, slack, time.Millisecond)
	stop, err := wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"})
	require.NoError(t, err)
	require.ErrorIs(t, session.Wait(), stop)
	assert.Empty(t, processesOf(cmd))
	_, err = transport.Close()
	require.ErrorIs(t, err, stop)
}

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

// transportOf is the transport to a server that is to be started.
func transportOf(t *testing.T, cmd *exec.Cmd) *watchdogmcp.Transport {
	t.Helper()
	transport, err := watchdogmcp.Command(t.Context(), cmd, quick)
	require.NoError(t, err)
	return transport
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
	s.transport = transportOf(t, s.cmd)
	s.transport.ExitGrace = grace
	var err error
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

// TestConnect checks servers with which no session begins.
func TestConnect(t *testing.T) {
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	t.Run("one that never answers", func(t *testing.T) {
		cmd := command(t, "mcp-mute")
		transport := transportOf(t, cmd)
		transport.ExitGrace = watchdog.None
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := client.Connect(ctx, transport, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, processesOf(cmd))
	})
	t.Run("one that there is not", func(t *testing.T) {
		transport := transportOf(t, &exec.Cmd{Path: "/no/such/server"})
		_, err := client.Connect(t.Context(), transport, nil)
		require.ErrorContains(t, err, `server "files": `)
		require.ErrorContains(t, err, "no such file")
	})
	t.Run("one that exits at once", func(t *testing.T) {
		transport := transportOf(t, exec.Command("false"))
		_, err := client.Connect(t.Context(), transport, nil)
		require.ErrorContains(t, err, `server "files"`)
		require.ErrorContains(t, err, "exit status 1")
	})
	t.Run("with a context that has ended", func(t *testing.T) {
		transport := transportOf(t, command(t, "mcp-server"))
		left := errors.New("the person has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(left)
		_, err := transport.Connect(ctx)
		require.ErrorIs(t, err, left)
	})
	t.Run("closed before", func(t *testing.T) {
		transport := transportOf(t, command(t, "mcp-server"))
		result, err := transport.Close()
		require.NoError(t, err)
		require.Nil(t, result)
		_, err = transport.Connect(t.Context())
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	t.Run("a second time", func(t *testing.T) {
		s := start(t, watchdogmcp.Config{}, slack)
		_, err := s.transport.Connect(t.Context())
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "it was connected or closed already; make a new exec.Cmd")
		result, err := s.use(t, "answer")
		require.NoError(t, err)
		require.Equal(t, "ok", textOf(t, result))
	})
}

func TestCommandInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		cmd *exec.Cmd
		cfg stall.Config
		err string
	}{
		"without a step":        {exec.Command("true"), stall.Config{}, "step"},
		"with a standard input": {&exec.Cmd{Path: "/bin/true", Stdin: strings.NewReader("")}, quick, "Stdin or Stdout is set"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := watchdogmcp.Command(t.Context(), c.cmd, c.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.err)
		})
	}
	transport := transportOf(t, exec.Command("true"))
	transport.ExitGrace = -5
	_, err := transport.Connect(t.Context())
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	_, err = (&watchdogmcp.Transport{}).Connect(t.Context())
	require.ErrorIs(t, err, watchdog.ErrInvalid)
}

func init() {
	roles = map[string]func([]string){
		"mcp-server": serve, "mcp-mute": func([]string) { stay() }, "mcp-grandchild": grandchild, "mcp-host": host,
	}
}

// stay does nothing for as long as a test may take.
func stay() { time.Sleep(5 * time.Minute) }

// serve is a server over standard input and output. With "stubborn" it ignores the end of its input and signals.
func serve(args []string) {
	fmt.Fprintln(os.Stderr, "the server is up")
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	for name, do := range serverTools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
	}
	if len(args) > 0 && args[0] == "stubborn" {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		defer stay()
	}
	_ = server.Run(context.Background(), &mcp.StdioTransport{})
}

// hangEnded is closed when the call of "hang" has ended: a test makes one.
var hangEnded = make(chan struct{})

var serverTools = map[string]tool{
	"answer": tools["answer"],
	"hang": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer close(hangEnded)
		return tools["hang"](ctx, req)
	},
	"ignore": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		stay()
		return answer("too late"), nil
	},
	"work": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return workUntil(ctx, req, hangEnded)
	},
	"exit":  func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(3); return nil, nil },
	"leave": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(0); return nil, nil },
	"panic": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("in a tool") },
	"kill": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	},
	"stop": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	},
	"quiet": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = os.Stdout.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"babble": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Println("hello")
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"grandchild": startGrandchild,
}

// startGrandchild starts a process in a session of its own, which has the server's output.
func startGrandchild(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	cmd := exec.Command(os.Args[0], "mcp-grandchild")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return answer(fmt.Sprint(cmd.Process.Pid)), nil
}

func grandchild([]string) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stay()
}

// host is an agent whose server has a grandchild. It says when it is ready, and stays.
func host(args []string) {
	ctx := context.Background()
	cmd := exec.Command(os.Args[0], "mcp-server")
	var transport mcp.Transport = &mcp.CommandTransport{Command: cmd}
	if strings.Join(args, "") == "guarded" {
		guarded, err := watchdogmcp.Command(ctx, cmd, stall.Config{Step: "files"})
		fail(err)
		transport = guarded
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, transport, nil)
	fail(err)
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "grandchild"})
	fail(err)
	fmt.Println("ready")
	stay()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(96)
	}
}
